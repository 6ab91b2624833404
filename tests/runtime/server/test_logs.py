import json
import logging

import pytest

from kvasir_runtime.server.logs import configure_logging


@pytest.fixture(autouse=True)
def _restore():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_lines_hold_the_message_and_the_traceback(capsys):
    configure_logging("info", "json")
    logging.getLogger("test").info("Grüße %d", 5)
    try:
        int("broken")
    except ValueError:
        logging.getLogger("test").exception("It failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("info", "test", "Grüße 5")
    assert first["time"].endswith("Z")
    assert "ValueError: invalid literal" in second["traceback"]


def test_lines_below_the_level_are_left_out(capsys):
    configure_logging("warning", "text")
    logging.getLogger("test").info("hidden")
    logging.getLogger("test").warning("shown")
    assert [line.split(": ")[-1] for line in capsys.readouterr().err.splitlines()] == ["shown"]


def test_setting_up_twice_writes_each_line_once(capsys):
    configure_logging("info", "text")
    configure_logging("info", "text")
    logging.getLogger("test").info("once")
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_table_is_fields_in_json_and_lines_in_text(capsys):
    for style in ("text", "json"):
        configure_logging("info", style)
        logging.getLogger("test").info("Started\na 1.50", extra={"fields": {"a": 1.5}})
    *text, line = capsys.readouterr().err.splitlines()
    assert [text[0].split(": ")[-1], text[1]] == ["Started", "a 1.50"]
    assert json.loads(line)["message"] == "Started"
    assert json.loads(line)["a"] == 1.5
