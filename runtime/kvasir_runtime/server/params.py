"""From a request's fields and the model's own defaults to checked SamplingParams.

The order of precedence: what the request says, then the model's `generation_config.json`, then
OpenAI's defaults.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvasir_runtime.errors import InvalidConfigError, InvalidParamsError
from kvasir_runtime.sampling_params import SamplingParams
from kvasir_runtime.server.fields import SamplingFields

GENERATION_CONFIG = "generation_config.json"
MODEL_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")

# What a request calls a parameter where it isn't the parameter's own name.
OTHER_NAMES = {"max_tokens": "max_completion_tokens", "logprobs": "top_logprobs"}


def sampling_params(request: SamplingFields, defaults: dict[str, Any]) -> SamplingParams:
    """Return the request's parameters; without max_tokens, as many as the model's length leaves."""
    try:
        return SamplingParams(**{"max_tokens": None} | defaults | request.sampling_values())
    except InvalidParamsError as error:
        raise _in_the_words_of(request, error) from error


def _in_the_words_of(request: SamplingFields, error: InvalidParamsError) -> InvalidParamsError:
    other = OTHER_NAMES.get(error.param or "")
    if other is None or error.param is None or getattr(request, other, None) is None:
        return error
    return InvalidParamsError(error.message.replace(error.param, other), error.hint, other)


def load_sampling_defaults(folder: Path) -> dict[str, Any]:
    """Return the sampling defaults that the model's authors ship; none where there is no file.

    Raises InvalidConfigError for a file that can't be read or holds values no request may have.
    """
    path = folder / GENERATION_CONFIG
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        given = {name: config.get(name) for name in MODEL_DEFAULTS}
        defaults = {name: value for name, value in given.items() if value is not None}
        SamplingParams(**defaults)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InvalidConfigError(
            f"{path} can't be used ({error})", "correct it, or remove it from the model's folder"
        ) from error
    return defaults
