import json

import pytest

from kvasir_runtime.bench.report import reporting, table
from kvasir_runtime.errors import InvalidConfigError


def test_lines_are_there_before_the_end_and_the_table_after(tmp_path, capsys):
    path = tmp_path / "out.jsonl"
    with reporting(str(path), ("rate",)) as report:
        report.add({"rate": 16, "errors": {}})
        captured = capsys.readouterr()
        assert json.loads(captured.out) == {"rate": 16, "errors": {}}
        assert path.read_text() == captured.out
        assert captured.err == ""
    assert capsys.readouterr().err == "rate\n  16\n"


def test_a_failure_between_two_lines_loses_none(tmp_path):
    path = tmp_path / "out.jsonl"

    def fail():
        with reporting(str(path), ("rate",)) as report:
            report.add({"rate": 4})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert json.loads(path.read_text()) == {"rate": 4}


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path):
    with pytest.raises(InvalidConfigError, match="nowhere"), reporting(
        str(tmp_path / "nowhere" / "out"), ()
    ):  # fmt: skip
        pytest.fail("nothing may be measured")


def test_a_table_names_errors_and_gaps():
    lines = [{"rate": 4, "errors": {"HTTP 429": 2, "ReadTimeout": 1}, "ttft": None}]
    assert table(lines, ("rate", "errors", "ttft")).splitlines() == [
        "rate                     errors  ttft",
        "   4  2 HTTP 429, 1 ReadTimeout     -",
    ]
