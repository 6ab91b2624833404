"""Kernel launches on a machine without a GPU: recorded as Triton would specialise them, not run."""

from __future__ import annotations

from typing import Any

import pytest
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

from kvasir_kernels import dispatch
from kvasir_kernels.paged_attention import prefill_launch


class RecordedLaunches:
    """The variants that would have been compiled, as (kernel, key).

    Outputs are left as they were allocated, but for the sampled tokens, which are all 0.
    """

    def __init__(self) -> None:
        self.variants: set[tuple[str, str]] = set()
        self._backend = make_backend(GPUTarget("cuda", 90, 32))
        self._binders: dict[JITFunction[Any], Any] = {}

    def names(self) -> set[str]:
        """Return the kernels launched."""
        return {name for name, _ in self.variants}

    def record(self, kernel: JITFunction[Any], *args: Any, **options: Any) -> None:
        """Stand in for JITFunction.run."""
        grid, _ = options.pop("grid"), options.pop("warmup")
        assert 1 <= len(grid) <= 3
        if kernel not in self._binders:
            signature, params = kernel.signature, kernel.params
            self._binders[kernel] = create_function_from_signature(signature, params, self._backend)
        _, specialisation, left = self._binders[kernel](*args, **options)
        name = kernel.fn.__name__
        self.variants.add((name, f"{specialisation} {left}"))
        if name == "pick_kernel":
            args[0].zero_()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take every launch of this process, as if the CPU were a Hopper GPU."""
        monkeypatch.setattr(dispatch, "INTERPRETED", True)
        monkeypatch.setattr(prefill_launch, "_is_hopper", lambda _device: True)
        monkeypatch.setattr(
            JITFunction, "run", lambda kernel, *a, **o: self.record(kernel, *a, **o)
        )
