"""Counts the Triton kernels this process compiles or loads, and says which come late.

A kernel that is compiled while requests run makes all of them wait for seconds, one that is loaded
from Triton's cache on disk for milliseconds: the warm-up has to leave neither for later. Triton
keeps one listener a process, so all engines of a process share the watch `KERNELS`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KernelCounts:
    """Kernels compiled, kernels loaded from the cache on disk, and those of both that came late."""

    compiled: int = 0
    loaded: int = 0
    late: int = 0


class KernelWatch:
    """Listens to Triton's compiler."""

    def __init__(self) -> None:
        """Begin with nothing counted, and not yet listening."""
        self.counts = KernelCounts()
        self._starting = 0
        self._next: Any = None  # whoever listened before
        self._installed = False

    def install(self) -> None:
        """Listen from now on, beside a listener that is there already."""
        if self._installed:
            return
        from triton import knobs  # late: machines without a GPU need no Triton

        self._next, self._installed = knobs.compilation.listener, True
        knobs.compilation.listener = self.listen

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Take kernels that come inside for an engine's start-up, none of them late."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1

    def listen(self, *, src: Any, times: Any, cache_hit: bool, **rest: Any) -> None:
        """Count one kernel: Triton's CompilationListener; `times.total` is in microseconds."""
        counts, late = self.counts, not self._starting
        self.counts = replace(
            counts,
            compiled=counts.compiled + (not cache_hit),
            loaded=counts.loaded + cache_hit,
            late=counts.late + late,
        )
        if late:
            logger.warning(
                "Kernel %s was %s while serving, and every request waited for it (%.0f ms): please "
                "report this with the model and the flags",
                src.name, "loaded" if cache_hit else "compiled", times.total / 1e3,
            )  # fmt: skip
        if self._next is not None:
            self._next(src=src, times=times, cache_hit=cache_hit, **rest)


KERNELS = KernelWatch()
