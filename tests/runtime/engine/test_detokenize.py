import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvasir_runtime.engine.detokenize import IncrementalDetokenizer, StopStrings


class Bytes:
    """A tokenizer with one token a byte; 256 is special."""

    def decode(self, ids, *, skip_special_tokens):
        raw = b"".join(
            b"" if i == 256 and skip_special_tokens else b"<end>" if i == 256 else bytes([i])
            for i in ids
        )
        return raw.decode("utf-8", errors="replace")


def detokenizer(prompt=(), skip=True):
    return IncrementalDetokenizer(Bytes(), prompt, skip_special_tokens=skip)


@given(st.text(max_size=60), st.text(max_size=10))
def test_pieces_join_to_the_text_and_none_ends_inside_a_character(text, prompt):
    tokens = list(text.encode())
    stream = detokenizer(list(prompt.encode()))
    pieces = [
        stream.push([token], last=index == len(tokens) - 1) for index, token in enumerate(tokens)
    ]
    assert "".join(pieces) == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)


def test_a_character_cut_by_the_end_is_shown_as_a_replacement():
    stream = detokenizer()
    euro = list("€".encode())
    assert stream.push(euro[:1]) == ""
    assert stream.push(euro[1:2], last=True) == "\ufffd"


def test_special_tokens_are_hidden_or_shown():
    assert detokenizer().push([65, 256, 66]) == "AB"
    assert detokenizer(skip=False).push([65, 256, 66]) == "A<end>B"


def test_spaces_of_a_sentencepiece_model_survive_the_border_to_the_prompt(tmp_path):
    from tokenizers import Tokenizer, decoders, models

    tokenizer = Tokenizer(models.BPE(vocab={"▁the": 0, "▁cat": 1}, merges=[]))
    tokenizer.decoder = decoders.Metaspace()
    stream = IncrementalDetokenizer(tokenizer, [0], skip_special_tokens=True)
    assert stream.push([1]) == " cat"


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_a_stop_string_is_found_across_pieces(size):
    text = "one two STOP three"
    stops = StopStrings(["STOP", "zzz"], include=False)
    out = ""
    for start in range(0, len(text), size):
        piece, stop = stops.push(text[start : start + size])
        out += piece
        if stop:
            break
    assert (out, stop) == ("one two ", "STOP")


def test_the_stop_string_is_kept_when_asked_for():
    assert StopStrings(["b"], include=True).push("abc") == ("ab", "b")


def test_the_earliest_of_several_stop_strings_wins():
    assert StopStrings(["d", "b"], include=False).push("abcd") == ("a", "b")


def test_a_beginning_that_comes_to_nothing_is_given_out():
    stops = StopStrings(["STOP"], include=False)
    assert stops.push("x ST") == ("x ", None)
    assert stops.push("AR") == ("STAR", None)
    assert stops.push(" S") == (" ", None)
    assert stops.push("", last=True) == ("S", None)


@given(st.text("ab", max_size=20), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1))
def test_text_before_the_first_stop_string_is_whatever_the_pieces(text, wanted):
    stops = StopStrings(wanted, include=False)
    out, hit = "", None
    for index, letter in enumerate(text):
        piece, hit = stops.push(letter, last=index == len(text) - 1)
        out += piece
        if hit:
            break
    ends = [text.find(stop) + len(stop) for stop in wanted if stop in text]
    if not ends:
        assert (out, hit) == (text, None)
    else:
        seen = text[: min(ends)]
        start = min(seen.find(stop) for stop in wanted if stop in seen)
        assert out == seen[:start]


def test_stop_strings_and_tokens_are_independent_of_each_other():
    assert list(itertools.chain(StopStrings([], include=False).push("abc"))) == ["abc", None]
