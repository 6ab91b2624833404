"""Status: what a reconcile decided and saw in; the whole `status`, as a plain dict, out.

Pure: no client; the time comes in, and enters only where a condition changes. The same outcome
gives the same status, so that nothing is written when nothing changed.
"""

from __future__ import annotations

from kvasir_operator.status.summarize import summarize
from kvasir_operator.status.transitions import Notice, is_urgent, notices

__all__ = ["Notice", "is_urgent", "notices", "summarize"]
