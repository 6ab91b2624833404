import pytest
import torch

from kvasir_kernels.linear import kernel, reference
from kvasir_kernels.linear.tuning import Tile

ON_GPU = torch.cuda.is_available()
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if ON_GPU else [])]
CLOSE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float16: {"rtol": 4e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 3.2e-2, "atol": 1.6e-2},
}
SHAPES = [(48, 64), (100, 96), (34, 192)] + ([(4608, 3584), (1000, 18944)] if ON_GPU else [])
TILES = [
    Tile(16, 32, 1, 4, 2),
    Tile(32, 64, 2, 4, 2),
    Tile(16, 32, 3, 4, 2, swap=True),
    Tile(64, 32, 1, 4, 3, panels=1, swap=True),
]

pytestmark = [
    pytest.mark.parametrize("dtype", DTYPES, ids=str),
    pytest.mark.parametrize("shape", SHAPES, ids=str),
    pytest.mark.parametrize("tile", TILES, ids=str),
    pytest.mark.parametrize("rows", [1, 3, 17, *([64] if ON_GPU else [])]),
]


def operands(rows, shape, dtype, device):
    columns, inner = shape
    x = torch.randn(rows, 2 * inner, device=device).to(dtype)[:, inner:]  # a view: its own stride
    weight = (torch.randn(columns, inner, device=device) * inner**-0.5).to(dtype)
    return x, weight, torch.randn(columns, device=device).to(dtype)


def nowhere(rows, columns, x):
    return x.new_full((rows, columns), float("nan"))


def test_it_equals_the_reference(rows, tile, shape, dtype, device):
    x, weight, bias = operands(rows, shape, dtype, device)
    for added in (bias, None):
        out = nowhere(rows, shape[0], x)
        kernel.launch(out, x, weight, added, tile)
        torch.testing.assert_close(out, reference.linear(x, weight, added), **CLOSE[dtype])


def test_the_gated_one_equals_the_reference(rows, tile, shape, dtype, device):
    x, weight, _ = operands(rows, shape, dtype, device)
    out = nowhere(rows, shape[0] // 2, x)
    kernel.launch(out, x, weight, None, tile, gated=True)
    torch.testing.assert_close(out, reference.gated_linear(x, weight), **CLOSE[dtype])
