"""The decoder of the Llama family: Llama, Mistral, Qwen2 and Qwen3 differ in a few switches.

Attention, then a gated feed-forward, each behind an RMSNorm with a residual around it (Touvron et
al., 2023, https://arxiv.org/abs/2302.13971). Tokens of all sequences lie in one flat dimension.
"""

from __future__ import annotations

import torch
from torch import nn

from kvasir_kernels.embed import embed
from kvasir_kernels.kv_scales import UNSCALED
from kvasir_kernels.linear import gated_linear, linear
from kvasir_kernels.silu_mul import silu_mul
from kvasir_runtime.layers.attention import AttentionInputs, LayerCache, attend
from kvasir_runtime.layers.linear import Linear, StackedLinear
from kvasir_runtime.layers.norm import RMSNorm
from kvasir_runtime.models.config import ModelConfig


class Attention(nn.Module):
    """Grouped-query self-attention of one layer."""

    def __init__(self, config: ModelConfig, window: int | None, *, qk_norm: bool) -> None:
        """Allocate projections; `qk_norm` adds Qwen3's norms of each head."""
        super().__init__()
        self.heads, self.kv_heads = config.num_heads, config.num_kv_heads
        self.head_dim, self.window = config.head_dim, window
        q_rows, kv_rows = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.kv_scales = UNSCALED
        self.qkv_proj = StackedLinear(
            config.hidden_size,
            {"q_proj": q_rows, "k_proj": kv_rows, "v_proj": kv_rows},
            bias=config.attention_bias,
        )
        self.o_proj = Linear(q_rows, config.hidden_size, bias=config.attention_out_bias)
        eps = config.rms_norm_eps
        self.q_norm = RMSNorm(self.head_dim, eps) if qk_norm else None
        self.k_norm = RMSNorm(self.head_dim, eps) if qk_norm else None

    def forward(
        self, x: torch.Tensor, cache: torch.Tensor, inputs: AttentionInputs
    ) -> torch.Tensor:
        """Map [tokens, hidden] to the same."""
        q, k, v = self.qkv_proj(x).split(self.qkv_proj.sizes, dim=-1)
        q = q.unflatten(-1, (self.heads, self.head_dim))  # [tokens, heads, head_dim]
        k = k.unflatten(-1, (self.kv_heads, self.head_dim))
        v = v.unflatten(-1, (self.kv_heads, self.head_dim))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        kept = LayerCache(cache[0], cache[1], self.kv_scales)
        mixed = attend(q, k, v, kept, inputs, window=self.window)
        output: torch.Tensor = self.o_proj(mixed.flatten(1))
        return output


class FeedForward(nn.Module):
    """The gated feed-forward of one layer."""

    def __init__(self, config: ModelConfig) -> None:
        """Allocate gate and up as one weight, and down."""
        super().__init__()
        inner = config.intermediate_size
        self.gate_up_proj = StackedLinear(
            config.hidden_size, {"gate_proj": inner, "up_proj": inner}, bias=config.mlp_bias
        )
        self.down_proj = Linear(inner, config.hidden_size, bias=config.mlp_bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [tokens, hidden] to the same."""
        merged = self.gate_up_proj
        inner = gated_linear(x, merged.weight) if merged.bias is None else silu_mul(merged(x))
        output: torch.Tensor = self.down_proj(inner)
        return output


class Layer(nn.Module):
    """One decoder layer."""

    def __init__(self, config: ModelConfig, window: int | None, *, qk_norm: bool) -> None:
        """Allocate attention, feed-forward and their norms."""
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, window, qk_norm=qk_norm)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FeedForward(config)

    def forward(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        cache: torch.Tensor,
        inputs: AttentionInputs,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the layer's output and the residual stream, not yet added to each other."""
        if residual is None:
            x, residual = self.input_layernorm(x), x
        else:
            x, residual = self.input_layernorm.add(x, residual)
        x = self.self_attn(x, cache, inputs)
        x, residual = self.post_attention_layernorm.add(x, residual)
        return self.mlp(x), residual


class Decoder(nn.Module):
    """A whole decoder-only model."""

    def __init__(self, config: ModelConfig, *, qk_norm: bool = False) -> None:
        """Allocate every weight, uninitialised, on torch's default device and dtype."""
        super().__init__()
        self.config = config
        shape = (config.vocab_size, config.hidden_size)
        self.embed_tokens = nn.Parameter(torch.empty(shape), requires_grad=False)
        self.layers = nn.ModuleList(
            Layer(config, window, qk_norm=qk_norm) for window in config.windows
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        tied = config.tie_word_embeddings
        self.lm_head = (
            self.embed_tokens if tied else nn.Parameter(torch.empty(shape), requires_grad=False)
        )

    def embed(
        self, token_ids: torch.Tensor, source: torch.Tensor, pool: torch.Tensor
    ) -> torch.Tensor:
        """Embed pool[source], or token_ids where source is -1; [tokens, hidden]."""
        return embed(token_ids, source, pool, self.embed_tokens)

    def forward(
        self, x: torch.Tensor, caches: torch.Tensor, inputs: AttentionInputs
    ) -> torch.Tensor:
        """Map embeddings, [tokens, hidden], to normalised hidden states of the same shape.

        caches: [layers, 2, blocks, block_size, kv_heads, head_dim].
        """
        residual: torch.Tensor | None = None
        for layer, cache in zip(self.layers, caches, strict=True):
            x, residual = layer(x, residual, cache, inputs)
        if residual is None:
            return self.norm(x)  # type: ignore[no-any-return]
        return self.norm.add(x, residual)[0]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map hidden states, [rows, hidden], to scores of every token, [rows, vocab]."""
        return linear(hidden, self.lm_head)
