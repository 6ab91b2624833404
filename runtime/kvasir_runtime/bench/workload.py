"""What is asked of an engine: how many requests, of which lengths, with which random prompts."""

from __future__ import annotations

import random
from dataclasses import dataclass

from kvasir_runtime.errors import InvalidConfigError

# Common enough to be one token each, with the space before, in nearly every vocabulary.
WORDS = (
    "time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world",
    "school", "state", "family", "student", "group", "country", "problem", "hand", "part", "place",
    "case", "week", "company", "system", "program", "question", "work", "government", "number",
    "night", "point", "home", "water", "room", "mother", "area", "money", "story", "fact",
)  # fmt: skip

Prompt = tuple[int, ...] | str


@dataclass(frozen=True, slots=True)
class Workload:
    """`requests` prompts of `input_len` tokens, each answered with `output_len` tokens."""

    requests: int
    input_len: int
    output_len: int

    def __str__(self) -> str:
        """Return the workload as it is written: N:in:out."""
        return f"{self.requests}:{self.input_len}:{self.output_len}"


def parse_workloads(text: str) -> list[Workload]:
    """Read N:in:out,N:in:out,…; raises InvalidConfigError for anything else."""
    return [_parse(part) for part in text.split(",")]


def _parse(text: str) -> Workload:
    parts = text.strip().split(":")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InvalidConfigError(
            f"a workload is {text!r}",
            "write N:in:out, as in 256:512:256 for 256 prompts of 512 tokens with 256 tokens of "
            "output each",
        )
    return Workload(*(int(part) for part in parts))


def random_ids(source: random.Random, length: int, vocab_size: int) -> tuple[int, ...]:
    """Return a prompt of `length` token ids below `vocab_size`."""
    return tuple(source.choices(range(vocab_size), k=length))


def random_words(source: random.Random, length: int) -> str:
    """Return a prompt of `length` common words: about as many tokens."""
    return " ".join(source.choices(WORDS, k=length))
