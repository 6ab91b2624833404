"""How much memory this process may use: the machine's, or less where a cgroup says so."""

from __future__ import annotations

import os
from pathlib import Path

from kvasir_runtime.config import GIB
from kvasir_runtime.errors import InvalidConfigError

CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_limit_bytes(limits: tuple[Path, ...] = CGROUP_LIMITS) -> int:
    """Return the smaller of the machine's memory and the cgroup's limit (v2 or v1)."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in limits:
        try:
            value = path.read_text().strip()
        except OSError:
            continue
        if value.isdigit():
            total = min(total, int(value))
    return total


def require_swap_fits(swap_bytes: int, limit_bytes: int) -> None:
    """Raise InvalidConfigError for a host pool beyond the memory there is."""
    if swap_bytes > limit_bytes:
        raise InvalidConfigError(
            f"swap_space asks for {swap_bytes / GIB:.1f} GiB of host memory, this process may use "
            f"{limit_bytes / GIB:.1f} GiB in all",
            "lower --swap-space, or raise the memory limit (resources.memory)",
        )
