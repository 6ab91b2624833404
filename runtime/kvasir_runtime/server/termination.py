"""The pod's termination message: why the process ended, as one JSON object for the operator.

Enters: the error that ends the process. Leaves: `{"reason", "message", "hint"}` in the file that
Kubernetes reads into the container's status, cut to the 4,096 bytes it keeps.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from kvasir_runtime.errors import KvasirError

MAX_BYTES = 4096
DEFAULT_PATH = Path("/dev/termination-log")

logger = logging.getLogger(__name__)


def write_termination(error: KvasirError) -> Path | None:
    """Write `error` where the pod's status takes it from; return the file, None without one."""
    path = termination_path()
    if path is None:
        return None
    try:
        path.write_text(termination_message(error), encoding="utf-8")
    except OSError as cause:
        logger.warning("The termination message can't be written to %s: %s", path, cause)
        return None
    return path


def termination_path() -> Path | None:
    """Return KVASIR_TERMINATION_LOG, else Kubernetes' own file, else None."""
    if named := os.environ.get("KVASIR_TERMINATION_LOG"):
        return Path(named)
    return DEFAULT_PATH if DEFAULT_PATH.exists() else None


def termination_message(error: KvasirError) -> str:
    """Return the JSON, its longer texts cut where all of it doesn't fit."""
    message, hint = error.message, error.hint
    while len(text := _encode(error.reason, message, hint)) > MAX_BYTES:
        if len(message) >= len(hint):
            message = _cut(message)
        else:
            hint = _cut(hint)
    return text.decode()


def _encode(reason: str, message: str, hint: str) -> bytes:
    value = {"reason": reason, "message": message, "hint": hint}
    return json.dumps(value, ensure_ascii=False).encode("utf-8", errors="replace")


def _cut(text: str) -> str:
    return text[: len(text) * 9 // 10 - 1] + "…"
