"""Triton's own compiler, which needs no GPU, under the watch."""

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource

from kvasir_kernels.silu_mul.kernel import silu_mul_kernel
from kvasir_runtime.engine.kernel_watch import KernelCounts, KernelWatch


@pytest.fixture
def watch(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(triton.knobs.compilation, "listener", None)
    watch = KernelWatch()
    watch.install()
    return watch


def compile_kernel(tile):
    signature = dict.fromkeys(silu_mul_kernel.arg_names[:2], "*fp16")
    signature |= dict.fromkeys(silu_mul_kernel.arg_names[2:4], "i32") | {"TILE": "constexpr"}
    source = ASTSource(silu_mul_kernel, signature, {(4,): tile}, {})
    triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


def test_kernels_of_the_start_are_counted_and_not_late(watch, caplog):
    with watch.starting():
        compile_kernel(64)
        compile_kernel(128)
        compile_kernel(64)  # Triton keeps it on disk
    assert watch.counts == KernelCounts(compiled=2, loaded=1, late=0)
    assert caplog.records == []


def test_later_ones_are_late_and_named_whether_compiled_or_loaded(watch, caplog):
    compile_kernel(64)
    compile_kernel(64)
    assert watch.counts == KernelCounts(compiled=1, loaded=1, late=2)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("Kernel silu_mul_kernel was compiled while serving")
    assert second.startswith("Kernel silu_mul_kernel was loaded while serving")


def test_an_engine_that_starts_beside_another_makes_nothing_late(watch):
    with watch.starting():
        with watch.starting():
            compile_kernel(64)
        compile_kernel(128)
    assert watch.counts.late == 0


def test_who_listened_before_still_hears(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    heard = []
    monkeypatch.setattr(
        triton.knobs.compilation, "listener", lambda **kernel: heard.append(kernel["src"].name)
    )
    watch = KernelWatch()
    watch.install()
    watch.install()  # a second engine of the process
    compile_kernel(64)
    assert heard == ["silu_mul_kernel"]
    assert watch.counts.compiled == 1
