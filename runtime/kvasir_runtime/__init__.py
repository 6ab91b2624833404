"""Kvasir's data plane: an LLM engine with an OpenAI-compatible server.

`from kvasir_runtime import LLM, SamplingParams` runs a model in this process.
"""

from typing import TYPE_CHECKING, Any

from kvasir_runtime.sampling_params import SamplingParams

if TYPE_CHECKING:
    from kvasir_runtime.llm import LLM

__all__ = ["LLM", "SamplingParams"]


def __getattr__(name: str) -> Any:
    """Import LLM, and with it torch, only when it is asked for: `--help` stays quick."""
    if name == "LLM":
        from kvasir_runtime.llm import LLM

        return LLM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
