"""Reads what a container left behind when it ended.

The engine writes one JSON object {"reason", "message", "hint"}; anything else is the end of the
log, whose last line is the telling one (a traceback ends in its exception).
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

MESSAGE_MAX_LENGTH = 1024
REASON = re.compile(r"^[A-Z][A-Za-z0-9]{0,63}$")


class Termination(NamedTuple):
    """What the container said; None where it said nothing."""

    reason: str | None
    message: str
    hint: str | None


def read_termination(text: str) -> Termination:
    """Understand a termination message."""
    try:
        said = json.loads(text)
    except ValueError:
        return Termination(None, last_line(text), None)
    if not isinstance(said, dict) or not REASON.match(str(said.get("reason", ""))):
        return Termination(None, last_line(text), None)
    return Termination(
        said["reason"],
        str(said.get("message", ""))[:MESSAGE_MAX_LENGTH],
        str(said["hint"])[:MESSAGE_MAX_LENGTH] if said.get("hint") else None,
    )


def last_line(text: str) -> str:
    """The last line that is not blank, bounded."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:MESSAGE_MAX_LENGTH] if lines else ""
