"""Reading what a container left behind."""

import json

import pytest

from kvasir_operator.diagnose.termination import MESSAGE_MAX_LENGTH, read_termination


def test_json_of_the_engine_is_understood() -> None:
    text = json.dumps({"reason": "CorruptWeights", "message": "m", "hint": "h"})
    assert read_termination(text) == ("CorruptWeights", "m", "h")


@pytest.mark.parametrize(
    "text",
    [
        '["a list"]',
        '{"reason": "not a word", "message": "m"}',
        '{"message": "without reason"}',
        '{"reason": "Cut", "message": "the end is miss',
        "plain text",
    ],
)
def test_anything_else_is_text(text: str) -> None:
    assert read_termination(text) == (None, text, None)


def test_nothing_said_is_nothing() -> None:
    assert read_termination("\n \n") == (None, "", None)


def test_texts_are_bounded() -> None:
    text = json.dumps({"reason": "A", "message": "m" * 5000, "hint": "h" * 5000})
    said = read_termination(text)
    assert (len(said.message), len(said.hint or "")) == (MESSAGE_MAX_LENGTH, MESSAGE_MAX_LENGTH)
