import torch

from kvasir_kernels.rms_norm import add_rms_norm, rms_norm
from kvasir_kernels.rotary import apply_rotary
from kvasir_kernels.silu_mul import silu_mul


def test_rms_norm_gives_unit_mean_square_before_the_scale():
    x = torch.randn(7, 48) * 13
    normal = rms_norm(x, torch.ones(48), 0.0)
    torch.testing.assert_close(normal.pow(2).mean(-1), torch.ones(7))
    scale = torch.randn(48)
    torch.testing.assert_close(rms_norm(x, scale, 0.0), normal * scale)


def test_add_rms_norm_returns_the_sum_for_the_next_layer():
    x, residual, weight = torch.randn(3, 8), torch.randn(3, 8), torch.randn(8)
    normal, total = add_rms_norm(x, residual, weight, 1e-5)
    torch.testing.assert_close(total, x + residual)
    torch.testing.assert_close(normal, torch.nn.functional.rms_norm(total, (8,), weight, 1e-5))


def test_rotary_makes_scores_depend_on_distance_alone():
    angles = torch.outer(torch.arange(40.0), 1 / 100 ** (torch.arange(8) / 8))
    cos, sin = angles.cos(), angles.sin()
    q, k = torch.randn(16), torch.randn(16)

    def score(query_at, key_at):
        rotated = [
            apply_rotary(x.view(1, 1, -1), cos[at : at + 1], sin[at : at + 1]).flatten()
            for x, at in ((q, query_at), (k, key_at))
        ]
        return rotated[0] @ rotated[1]

    torch.testing.assert_close(score(9, 4), score(39, 34), rtol=1e-4, atol=1e-4)
    assert not torch.isclose(score(9, 4), score(9, 5))


def test_silu_mul_gates_the_second_half_with_the_first():
    gate, up = torch.randn(5, 12), torch.randn(5, 12)
    expected = gate * torch.sigmoid(gate) * up
    torch.testing.assert_close(silu_mul(torch.cat((gate, up), -1)), expected)
