"""Where start-up's time goes: each stage timed, its kernels counted, one table at the end.

The first stage is everything before the engine began: the interpreter's own start and the imports,
and with `LLM` whatever the caller did before.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvasir_runtime.engine.kernel_watch import KERNELS, KernelWatch

logger = logging.getLogger(__name__)

BEFORE = "process start, imports"


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of start-up; kernels compiled in it, and loaded from Triton's cache on disk."""

    name: str
    seconds: float
    compiled: int = 0
    loaded: int = 0


@dataclass(frozen=True, slots=True)
class Startup:
    """All stages, in order, from the process's start to the engine's first step."""

    stages: tuple[Stage, ...]

    @property
    def total_s(self) -> float:
        """Seconds since the process began."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def compiled(self) -> int:
        """Kernels compiled."""
        return sum(stage.compiled for stage in self.stages)

    @property
    def loaded(self) -> int:
        """Kernels loaded from the cache on disk."""
        return sum(stage.loaded for stage in self.stages)

    def table(self) -> str:
        """Return the stages as lines of text, the total last."""
        rows = [*self.stages, Stage("total", self.total_s, self.compiled, self.loaded)]
        width = max(len(row.name) for row in rows)
        head = f"{'':{width}} {'seconds':>8} {'kernels compiled':>17} {'from cache':>11}"
        lines = (f"{r.name:{width}} {r.seconds:8.2f} {r.compiled:17} {r.loaded:11}" for r in rows)
        return "\n".join((head, *lines))

    def fields(self) -> dict[str, Any]:
        """Return the same for a log of JSON objects."""
        return {
            "startup_s": round(self.total_s, 3),
            "stages_s": {stage.name: round(stage.seconds, 3) for stage in self.stages},
            "kernels_compiled": self.compiled,
            "kernels_from_cache": self.loaded,
        }


class StartupClock:
    """Times the stages of one start-up."""

    def __init__(self, kernels: KernelWatch = KERNELS) -> None:
        """Begin with the stage that lies behind: from the process's start until now."""
        self._kernels = kernels
        self._stages: list[Stage] = []
        self._name = BEFORE
        self._since_s, self._counts = time.monotonic() - process_age_s(), kernels.counts

    def enter(self, name: str) -> None:
        """End the stage that runs, and begin `name`; the same name again changes nothing."""
        if name == self._name:
            return
        now, counts = time.monotonic(), self._kernels.counts
        compiled = counts.compiled - self._counts.compiled
        loaded = counts.loaded - self._counts.loaded
        self._stages.append(Stage(self._name, now - self._since_s, compiled, loaded))
        self._name, self._since_s, self._counts = name, now, counts

    def finish(self) -> Startup:
        """End the last stage; log the table and return what it shows."""
        self.enter("ready")
        startup = Startup(tuple(self._stages))
        logger.info(
            "Started in %.1f s\n%s", startup.total_s, startup.table(),
            extra={"fields": startup.fields()},
        )  # fmt: skip
        return startup


def process_age_s(stat: Path = Path("/proc/self/stat")) -> float:
    """Return the seconds since this process began; 0 where the system doesn't say (proc(5))."""
    try:
        # The second field, in parentheses, may hold spaces; the 22nd is the start after boot.
        ticks = int(stat.read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0.0
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return max(0.0, age_s)
