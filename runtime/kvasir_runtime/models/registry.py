"""Which architecture names this runtime runs, and the module for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kvasir_runtime.errors import UnsupportedArchitectureError, UnsupportedFeatureError
from kvasir_runtime.models.config import ModelConfig
from kvasir_runtime.models.decoder import Decoder

ARCHITECTURES: dict[str, Callable[[ModelConfig], Decoder]] = {
    "LlamaForCausalLM": Decoder,
    "MistralForCausalLM": Decoder,
    "Qwen2ForCausalLM": Decoder,
    "Qwen3ForCausalLM": partial(Decoder, qk_norm=True),
}


def require_supported(config: ModelConfig) -> None:
    """Raise an Unsupported…Error for a model that can't be run, before anything is allocated."""
    if config.architecture not in ARCHITECTURES:
        raise UnsupportedArchitectureError(
            f"the model's architecture is {config.architecture}",
            f"this version runs {', '.join(sorted(ARCHITECTURES))}",
        )
    if config.hidden_act != "silu":
        raise UnsupportedFeatureError(
            f"the model's activation is {config.hidden_act!r}", "this version runs silu alone"
        )
    if config.quant_method is not None:
        raise UnsupportedFeatureError(
            f"the checkpoint is quantized with {config.quant_method}",
            "this version runs unquantized checkpoints: use the model's 16-bit repository",
        )


def build_model(config: ModelConfig) -> Decoder:
    """Return the module for `config`, its weights allocated and not yet filled."""
    require_supported(config)
    return ARCHITECTURES[config.architecture](config)
