import pytest
import torch

from kvasir_kernels.linear import gated_linear, kernel, linear, reference
from kvasir_kernels.linear.tuning import GATED, WIDE, Tile, pays, tile

ON_GPU = torch.cuda.is_available()
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if ON_GPU else [])]
CLOSE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float16: {"rtol": 4e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 3.2e-2, "atol": 1.6e-2},
}
SHAPES = [(48, 64), (100, 96), (34, 192)] + ([(3584, 3584), (1000, 18944)] if ON_GPU else [])
TILES = [Tile(16, 32, 1, 2), Tile(64, 32, 2, 3), Tile(32, 64, 3, 2), Tile(16, 128, 3, 2)]


def operands(rows, shape, dtype, device):
    columns, inner = shape
    x = torch.randn(rows, 2 * inner, device=device).to(dtype)[:, inner:]  # a view: its own stride
    weight = (torch.randn(columns, inner, device=device) * inner**-0.5).to(dtype)
    return x, weight, torch.randn(columns, device=device).to(dtype)


def nowhere(rows, columns, x):
    return x.new_full((rows, columns), float("nan"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("rows", [1, 3, 17, *([32] if ON_GPU else [])])
def test_it_equals_the_reference(rows, tile, shape, dtype, device):
    x, weight, bias = operands(rows, shape, dtype, device)
    for added in (bias, None):
        out = nowhere(rows, shape[0], x)
        kernel.launch(out, x, weight, added, tile)
        torch.testing.assert_close(out, reference.linear(x, weight, added), **CLOSE[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rows", [1, 5, 17, *([32] if ON_GPU else [])])
def test_the_gated_one_equals_the_reference(rows, shape, dtype, device):
    x, weight, _ = operands(rows, shape, dtype, device)
    out = nowhere(rows, shape[0] // 2, x)
    kernel.launch(out, x, weight, None, GATED if ON_GPU else Tile(16, 32, 1, 2), gated=True)
    torch.testing.assert_close(out, reference.gated_linear(x, weight), **CLOSE[dtype])


@pytest.mark.parametrize("rows", [1, 32, 33])
def test_few_rows_and_many_give_the_same(rows, device):
    x, weight, bias = operands(rows, (1024, 64), torch.float16, device)
    torch.testing.assert_close(
        linear(x, weight, bias), reference.linear(x, weight, bias), **CLOSE[torch.float16]
    )
    torch.testing.assert_close(
        gated_linear(x, weight), reference.gated_linear(x, weight), **CLOSE[torch.float16]
    )


def test_a_gated_layer_is_not_split(device):
    x, weight, _ = operands(1, (64, 64), torch.float16, device)
    with pytest.raises(ValueError, match="64 columns, gated: True, can't be split 2 ways"):
        kernel.launch(x.new_empty(1, 64), x, weight, None, Tile(16, 32, 2, 2), gated=True)


@pytest.mark.parametrize(
    ("columns", "inner", "expected"),
    [
        (3584, 18944, Tile(64, 128, 2, 6)),
        (576, 576, Tile(64, 128, 5, 6)),  # never more parts than tiles
        (152064, 3584, WIDE),
        (15360, 5120, WIDE),
    ],
)
def test_wide_layers_share_processors_and_narrow_ones_are_split(columns, inner, expected):
    assert pays(1, columns, 132)
    assert tile(columns, inner, 132) == expected


@pytest.mark.parametrize(("rows", "columns"), [(1, 4608), (33, 3584), (1, 5120)])
def test_uneven_layers_and_many_rows_are_left_to_cublas(rows, columns):
    assert not pays(rows, columns, 132)
