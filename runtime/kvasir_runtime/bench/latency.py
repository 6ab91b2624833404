"""From the moments at which an answer's tokens came to the latencies that are reported.

The definitions are the field's. TTFT: from sending the request to its first token. ITL: the gaps
between tokens that follow each other (over HTTP: between chunks). TPOT: the time from the first
token to the last, divided by the tokens after the first. E2E: from sending to the last token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer; moments are seconds of one clock.

    `moments` has one entry for each token, or for each chunk where tokens can't be told apart;
    there is at least one. `prompt_tokens` is None where nobody counted them.
    """

    sent_s: float
    moments: tuple[float, ...]
    output_tokens: int
    prompt_tokens: int | None

    @property
    def ttft_s(self) -> float:
        """Return the time to the first token."""
        return self.moments[0] - self.sent_s

    @property
    def e2e_s(self) -> float:
        """Return the time to the last token."""
        return self.moments[-1] - self.sent_s

    @property
    def tpot_s(self) -> float | None:
        """Return the mean time of a token after the first; None where there is only one."""
        if self.output_tokens < 2:
            return None
        return (self.moments[-1] - self.moments[0]) / (self.output_tokens - 1)

    @property
    def gaps_s(self) -> list[float]:
        """Return the times between one token and the next."""
        return [later - earlier for earlier, later in pairwise(self.moments)]


@dataclass(frozen=True, slots=True)
class Latencies:
    """The samples of one run, in seconds."""

    ttft: tuple[float, ...]
    tpot: tuple[float, ...]
    itl: tuple[float, ...]
    e2e: tuple[float, ...]

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> Latencies:
        """Collect the samples of all answers."""
        answers = list(answers)
        return cls(
            ttft=tuple(answer.ttft_s for answer in answers),
            tpot=tuple(answer.tpot_s for answer in answers if answer.tpot_s is not None),
            itl=tuple(gap for answer in answers for gap in answer.gaps_s),
            e2e=tuple(answer.e2e_s for answer in answers),
        )

    def figures(self) -> dict[str, float | None]:
        """Return mean, p50, p90 and p99 of each, in seconds: `ttft_mean`, `ttft_p50`, …"""
        found: dict[str, float | None] = {}
        for name in ("ttft", "tpot", "itl", "e2e"):
            samples: tuple[float, ...] = getattr(self, name)
            found[f"{name}_mean"] = _rounded(math.fsum(samples) / len(samples) if samples else None)
            for percent in (50, 90, 99):
                found[f"{name}_p{percent}"] = _rounded(percentile(samples, percent))
        return found


def percentile(samples: Sequence[float], percent: float) -> float | None:
    """Return the sample below which `percent` of all lie, without interpolation.

    It is the one at the index floor(percent / 100 * n) of the sorted samples, or the last; None
    where there are no samples.
    """
    if not samples:
        return None
    return sorted(samples)[min(len(samples) - 1, int(percent * len(samples) / 100))]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
