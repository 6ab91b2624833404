"""Prompt and output lengths as chat traffic has them: many short, a long tail.

Both are log-normal, with medians and spreads like those of public chat logs (a prompt of about 150
tokens, an answer of about 200, either up to a few thousand); seeded, so that runs compare.
"""

from __future__ import annotations

import math
import random

PROMPT = (150, 1.0)  # median, sigma of the logarithm
OUTPUT = (200, 0.8)


def chat_lengths(
    count: int, *, seed: int, scale: float = 1.0, longest: int = 2048
) -> list[tuple[int, int]]:
    """Return (prompt, output) lengths in tokens, each between 1 and `longest` times `scale`."""
    source = random.Random(seed)

    def draw(median: float, sigma: float) -> int:
        length = source.lognormvariate(math.log(median * scale), sigma)
        return max(1, min(round(length), round(longest * scale)))

    return [(draw(*PROMPT), draw(*OUTPUT)) for _ in range(count)]
