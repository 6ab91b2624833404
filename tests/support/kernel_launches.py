"""Kernel launches on a machine without a GPU: recorded as Triton would specialise them, not run."""

from __future__ import annotations

from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend
from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction
from triton.runtime.jit import JITFunction, create_function_from_signature

from kvasir_kernels import dispatch, pdl
from kvasir_kernels.paged_attention import prefill_launch

HOPPER = GPUTarget("cuda", 90, 32)


class RecordedLaunches:
    """The variants that would have been compiled, as (kernel, key).

    Outputs are left as they were allocated, but for the sampled tokens, which are all 0.
    """

    def __init__(self) -> None:
        self.variants: set[tuple[str, str]] = set()
        self._backend = make_backend(HOPPER)
        self._sources: dict[tuple[str, str], Any] = {}
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
        bound, specialisation, left = self._binders[kernel](*args, **options)
        name = kernel.fn.__name__
        variant = (name, f"{specialisation} {left}")
        self.variants.add(variant)
        self._sources.setdefault(variant, (kernel, bound, specialisation, options, left))
        if name == "pick_kernel":
            args[0].zero_()

    def compile(self) -> int:
        """Compile every variant as a launch would; return how many there were."""
        for kernel, bound, specialisation, options, left in self._sources.values():
            parsed, *operands = kernel._pack_args(
                self._backend, options, bound, specialisation, left
            )
            kind = GluonASTSource if isinstance(kernel, GluonJITFunction) else ASTSource
            source = kind(kernel, *operands)
            triton.compile(source, target=HOPPER, options=parsed.__dict__)
        return len(self._sources)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take every launch of this process, as if the CPU were a Hopper GPU."""
        monkeypatch.setattr(dispatch, "INTERPRETED", True)
        monkeypatch.setattr(prefill_launch, "_is_hopper", lambda _device: True)
        monkeypatch.setattr(pdl, "available", lambda _device: True)
        monkeypatch.setattr(
            JITFunction, "run", lambda kernel, *a, **o: self.record(kernel, *a, **o)
        )
