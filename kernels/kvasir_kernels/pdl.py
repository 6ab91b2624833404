# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Programmatic dependent launch: a kernel starts while the one before it still runs.

Every kernel of a step calls `begin` before it reads what another kernel wrote. It lets the next
kernel's programs set themselves up until this one has ended. Hopper and later have it; elsewhere
it does nothing.

See "Programmatic Dependent Launch" in the CUDA C++ Programming Guide.
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def begin(PDL: tl.constexpr):
    """Let the next kernel start; wait until the one before has ended and its writes can be seen."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()


@cache
def available(device: torch.device) -> bool:
    """Say whether the device has it."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9


def options(x: torch.Tensor) -> dict[str, bool]:
    """Return a launch's keyword arguments, for kernels that take a constexpr PDL."""
    has = available(x.device)
    return {"PDL": True, "launch_pdl": True} if has else {"PDL": False}
