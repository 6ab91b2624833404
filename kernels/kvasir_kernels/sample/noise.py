"""The noise of a draw in plain torch: Philox 4x32-10, bit for bit what the kernel computes.

Philox is a function of a key and a counter (Salmon et al., SC 2011,
https://doi.org/10.1145/2063384.2063405), so a row's noise depends on its seed, its position and the
token alone: not on the batch, the device, or what was drawn before.
"""

from __future__ import annotations

import torch

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
MASK = 0xFFFFFFFF


def exponential_noise(seed: torch.Tensor, position: torch.Tensor, vocab: int) -> torch.Tensor:
    """Return Exp(1) noise for every token, float32 [rows, vocab]; seed, position: int64 [rows]."""
    uniform = random_words(seed, position, vocab).float() * 2.0**-32 + 2.0**-33
    rest = 1.0 - uniform
    # log1p by way of log (Goldberg, 1991, theorem 4): small noise, which wins, keeps its digits.
    return torch.where(rest == 1.0, uniform, -rest.log() * (uniform / (1.0 - rest)))


def random_words(seed: torch.Tensor, position: torch.Tensor, vocab: int) -> torch.Tensor:
    """Return 32 random bits for every token, int64 [rows, vocab].

    Token t has word t % 4 of the block whose counter is (t // 4, position, 0, 0) and key the seed.
    """
    counter = torch.arange(-(-vocab // 4), device=seed.device)[None, :]
    zeros = torch.zeros_like(counter)
    words = (counter, (position & MASK)[:, None], zeros, zeros)
    key = (seed[:, None] & MASK, (seed[:, None] >> 32) & MASK)
    for _ in range(ROUNDS):
        words = _round(words, key)
        key = ((key[0] + WEYL[0]) & MASK, (key[1] + WEYL[1]) & MASK)
    return torch.stack(words, dim=-1).flatten(1)[:, :vocab]


Words = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _round(words: Words, key: tuple[torch.Tensor, torch.Tensor]) -> Words:
    high_0, low_0 = _multiply(words[0], MULTIPLIERS[0])
    high_2, low_2 = _multiply(words[2], MULTIPLIERS[1])
    return high_2 ^ words[1] ^ key[0], low_2, high_0 ^ words[3] ^ key[1], low_0


def _multiply(x: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the high and low 32 bits of a product that doesn't fit torch's signed 64."""
    low = x * (factor & 0xFFFF)  # below 2**48
    high = x * (factor >> 16) + (low >> 16)  # below 2**49
    return high >> 16, ((high << 16) | (low & 0xFFFF)) & MASK
