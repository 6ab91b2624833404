import pytest

from kvasir_runtime.errors import PromptTooLongError
from kvasir_runtime.server import prompts
from kvasir_runtime.server.prompts import encode_text


class WordTokenizer:
    """A token a word, so that a text may have many characters and few tokens."""

    def encode(self, text, add_special_tokens):
        return list(range(len(text.split())))

    def count(self, text):
        return len(text.split())


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(prompts, "PIECE_CHARACTERS", 1000)


def test_a_text_of_long_tokens_that_fits_is_encoded_whole():
    text = ("x" * 500 + " ") * 50
    assert len(encode_text(WordTokenizer(), text, True, 60)) == 50


def test_cutting_into_pieces_never_refuses_what_fits_just():
    text = ("x" * 30 + " ") * 511  # every piece cuts a token in two
    assert len(encode_text(WordTokenizer(), text, True, 512)) == 511


def test_many_small_pieces_add_up():
    text = ("x" * 30 + " ") * 5000
    with pytest.raises(PromptTooLongError, match="the model's length is 512"):
        encode_text(WordTokenizer(), text, True, 512)
