"""Kernels over an e4m3 cache compile for Hopper where there is no GPU, to its own conversions."""

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvasir_kernels.dispatch import INTERPRETED
from kvasir_kernels.paged_attention.decode import decode_kernel
from kvasir_kernels.paged_attention.mixed import mixed_kernel
from kvasir_kernels.rotary_kv_write.kernel import rotary_kv_write_kernel

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled in the interpreter")

HOPPER = GPUTarget("cuda", 90, 32)
FLOATS = ("scale", "v_scale", "k_inverse", "v_inverse")
POINTERS = {
    "k_cache": "*fp8e4nv", "v_cache": "*fp8e4nv",
    "scratch": "*fp32", "log_weights": "*fp32", "cos_table": "*fp32", "sin_table": "*fp32",
    "context_lens": "*i32", "block_tables": "*i32", "query_start": "*i32",
    "positions": "*i64", "slots": "*i64",
}  # fmt: skip
TILE = {"GROUP": 4, "DIM": 128, "WIDTH": 128, "BLOCK_SIZE": 16, "BLOCK_N": 64}
ATTENTION = TILE | {"PRECISION": "tf32", "PDL": True}


def ptx(kernel, dtype, constants, *, stages=2):
    """Compile as a launch over tensors of `dtype` would; return the assembly."""
    types = POINTERS | dict.fromkeys(FLOATS, "fp32")
    types |= dict.fromkeys(("out", "query", "keys", "values"), f"*{dtype}")
    signature = {
        name: "constexpr" if name in constants else types.get(name, "i32")
        for name in kernel.arg_names
    }
    aligned = {
        (at,): [["tt.divisibility", 16]]
        for at, name in enumerate(kernel.arg_names)
        if name.endswith("_stride") or signature[name].startswith("*")
    }
    source = ASTSource(kernel, signature, constexprs=constants, attrs=aligned)
    options = {"num_warps": 4, "num_stages": stages}
    return triton.compile(source, target=HOPPER, options=options).asm["ptx"]


@pytest.mark.parametrize(
    ("kernel", "constants"),
    [
        (decode_kernel, ATTENTION | {"ROWS": 16}),
        (mixed_kernel, ATTENTION | {"ROWS": 64, "WINDOWED": True}),
    ],
    ids=["decode", "mixed"],
)
def test_attention_of_bfloat16_queries_widens_no_further_than_float16(kernel, constants):
    assembly = ptx(kernel, "bf16", constants)
    assert "cvt.rn.f16x2.e4m3x2" in assembly
    assert "cvt.bf16.f16" not in assembly


def test_attention_of_float32_queries_compiles():
    constants = TILE | {"BLOCK_N": 32, "PRECISION": "ieee", "ROWS": 16, "PDL": True}
    assert "cvt.rn.f16x2.e4m3x2" in ptx(decode_kernel, "fp32", constants, stages=1)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_a_write_rounds_by_the_hardware(dtype):
    constants = {"HALF": 64, "WIDTH": 64, "HEADS": 32, "KV_HEADS": 8, "PDL": True}
    assert "cvt.rn.satfinite.e4m3x2" in ptx(rotary_kv_write_kernel, dtype, constants)
