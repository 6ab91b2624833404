"""How many blocks the running sequences will hold at once: what admission leaves room for.

Prompts that fit now may not fit once their answers have grown, and every preemption is work done
twice. A sequence is foreseen to generate what sequences typically have, at most what it may; all
grow together, and each gives its blocks back at its end. So the blocks in use peak just before
some sequence ends (the argument of Gong et al., Past-Future Scheduler, ASPLOS 2025,
https://arxiv.org/abs/2507.10150).
"""

from __future__ import annotations

from collections.abc import Iterable

from kvasir_runtime.engine.sequence import Sequence

TYPICAL_AT_FIRST = 512  # tokens, until sequences have ended
WEIGHT = 0.05  # of the sequence that ended last

Growing = tuple[float, float]  # blocks still to come, blocks held


class Forecast:
    """What is known of the lengths of outputs."""

    def __init__(self, typical_output: float = TYPICAL_AT_FIRST) -> None:
        """Begin with a guess, in tokens."""
        self.typical_output = typical_output

    def learn(self, seq: Sequence) -> None:
        """Take a sequence into account that ended by itself."""
        self.typical_output += WEIGHT * (seq.num_generated - self.typical_output)

    def remaining(self, seq: Sequence) -> float:
        """Return how many tokens a sequence is foreseen to generate yet.

        One that is past the typical length has a long tail before it: half as much again.
        """
        generated = seq.num_tokens - seq.num_prompt
        foreseen = max(self.typical_output - generated, self.typical_output / 2)
        return min(foreseen, seq.max_len - seq.num_tokens)


def peak(sequences: Iterable[Growing]) -> float:
    """Return the most blocks the sequences hold at once, growing together until each ends."""
    held = most = 0.0
    for count, (to_come, own) in enumerate(sorted(sequences, reverse=True), start=1):
        held += own
        most = max(most, held + count * to_come)
    return most
