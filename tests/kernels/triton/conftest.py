"""Where the kernels' tests run: compiled on a GPU, or small under TRITON_INTERPRET=1 on a CPU.

Elsewhere nothing here is collected: the variable must be set before Triton is imported, which
`test_interpreted.py` beside this folder does in a process of its own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kvasir_kernels.kv_scales import E4M3, KVScales, to_cache

ON_GPU = torch.cuda.is_available()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
collect_ignore_glob = [] if ON_GPU or INTERPRETED else ["test_*.py"]

if INTERPRETED:
    from triton.runtime import interpreter

    patch_tensor = interpreter._patch_lang_tensor

    def _patch_tensor(tensor, scope):
        """Let tensors bound loops, at which Triton's own conversion fails on numpy 2.4."""
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = _patch_tensor
    convert_float = interpreter._convert_float

    def _convert_float(data, source, target, rounding):
        """Let torch convert from and to e4m3: Triton's own rounding carries into no exponent."""
        dtypes = {"fp8e4nv": E4M3, "fp16": torch.float16, "fp32": torch.float32}
        if "fp8e4nv" not in (source.name, target.name):
            return convert_float(data, source, target, rounding)
        numbers = torch.from_numpy(np.ascontiguousarray(data)).view(dtypes[source.name])
        numbers = numbers.to(dtypes[target.name])
        return (numbers.view(torch.uint8) if target.name == "fp8e4nv" else numbers).numpy()

    interpreter._convert_float = _convert_float


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the interpreter's numpy divide by zero in silence, as a GPU does."""
    for item in items:
        if not item.path.is_relative_to(Path(__file__).parent):
            continue
        item.add_marker(pytest.mark.filterwarnings("ignore::RuntimeWarning:triton"))


@pytest.fixture(scope="session")
def device() -> str:
    """The device of the tests' tensors."""
    return "cuda" if ON_GPU else "cpu"


@dataclass(frozen=True, slots=True)
class PagedBatch:
    """The operands of paged attention."""

    query: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    query_start: torch.Tensor
    context_lens: torch.Tensor
    block_tables: torch.Tensor

    def __iter__(self):
        return iter(getattr(self, name) for name in self.__slots__)

    def in_e4m3(self, scales: KVScales) -> PagedBatch:
        """The same batch over an 8-bit cache; what nobody owns stays NaN."""
        k_cache = to_cache(self.k_cache, E4M3, scales.keys)
        return replace(self, k_cache=k_cache, v_cache=to_cache(self.v_cache, E4M3, scales.values))


@dataclass(frozen=True, slots=True)
class Heads:
    """Query heads, KV heads, and their dimension."""

    query: int
    kv: int
    dim: int


@pytest.fixture
def paged_batch(device: str) -> Callable[..., PagedBatch]:
    """A function that makes a random ragged batch; see `_paged_batch`."""

    def make(lengths: Sequence[tuple[int, int]], heads: Heads, **more) -> PagedBatch:
        return _paged_batch(device, lengths, heads, **more)

    return make


def _paged_batch(
    device, lengths, heads, *, dtype=torch.float32, block_size=16, pad_seqs=0, pad_tokens=0
):
    """(context, new) of each sequence in, operands out: shuffled blocks, NaN where nobody owns.

    Tables are slices of a wider one whose other entries name no block; padding follows.
    """
    needed = [-(-context // block_size) for context, _ in lengths]
    order = torch.randperm(sum(needed) + 3)
    shape = (len(order), block_size, heads.kv, heads.dim)
    caches = torch.full((2, *shape), math.nan, dtype=dtype, device=device)
    wide = torch.full((len(lengths) + pad_seqs, max(needed) + 3), 2**30, dtype=torch.int32)
    first = 0
    for row, (context, _) in enumerate(lengths):
        blocks = order[first : first + needed[row]]
        first += needed[row]
        wide[row, : len(blocks)] = blocks
        position = torch.arange(context)
        slots = (blocks[position // block_size] * block_size + position % block_size).to(device)
        written = torch.randn(2, context, heads.kv, heads.dim, dtype=dtype, device=device)
        caches.flatten(1, 2)[:, slots] = written
    new = [count for _, count in lengths] + [0] * pad_seqs
    contexts = [context for context, _ in lengths] + [0] * pad_seqs
    query = torch.randn(sum(new) + pad_tokens, heads.query, heads.dim, dtype=dtype, device=device)
    return PagedBatch(
        query,
        caches[0],
        caches[1],
        torch.tensor([0, *new]).cumsum(0).to(torch.int32).to(device),
        torch.tensor(contexts, dtype=torch.int32, device=device),
        wide.to(device)[:, : max(needed)],
    )
