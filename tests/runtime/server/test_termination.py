import json

import pytest

from kvasir_runtime.errors import CorruptWeightsError, EngineDiedError
from kvasir_runtime.server import termination
from kvasir_runtime.server.termination import termination_message, write_termination


def test_the_message_is_one_json_object(monkeypatch, tmp_path):
    path = tmp_path / "log"
    monkeypatch.setenv("KVASIR_TERMINATION_LOG", str(path))
    assert write_termination(CorruptWeightsError("it is cut short", "copy it again")) == path
    assert json.loads(path.read_text()) == {
        "reason": "CorruptWeights", "message": "it is cut short", "hint": "copy it again",
    }  # fmt: skip


@pytest.mark.parametrize("character", ["x", "é", "🎉", '"', "\n", "\0"])
@pytest.mark.parametrize(("message", "hint"), [(9000, 10), (10, 9000), (9000, 9000), (0, 9000)])
def test_it_never_exceeds_what_kubernetes_keeps(character, message, hint):
    text = termination_message(EngineDiedError(character * message, character * hint))
    assert len(text.encode()) <= 4096
    assert json.loads(text)["reason"] == "EngineDied"


def test_a_short_hint_survives_a_long_message():
    text = termination_message(EngineDiedError("x" * 9000, "do this"))
    assert json.loads(text)["hint"] == "do this"


def test_outside_a_pod_there_is_nothing_to_write(monkeypatch, tmp_path):
    monkeypatch.delenv("KVASIR_TERMINATION_LOG", raising=False)
    monkeypatch.setattr(termination, "DEFAULT_PATH", tmp_path / "not-there")
    assert write_termination(EngineDiedError("x")) is None
    assert not (tmp_path / "not-there").exists()


def test_a_file_that_cant_be_written_is_only_a_warning(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("KVASIR_TERMINATION_LOG", str(tmp_path))
    assert write_termination(EngineDiedError("x")) is None
    assert "can't be written" in caplog.text
