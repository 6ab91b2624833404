"""The body of POST /v1/completions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from kvasir_runtime.server.errors import BadRequestError
from kvasir_runtime.server.fields import SamplingFields

MAX_CHOICES = 4096

Prompt = str | list[int]


def _as_prompts(value: Any) -> list[Prompt]:
    """Return a list of prompts, whichever of OpenAI's four forms `value` has."""
    if isinstance(value, str) or (isinstance(value, list) and value and _all_ints(value)):
        return [value]
    if not isinstance(value, list) or not value:
        raise ValueError("a prompt is a text, a list of texts, token ids or a list of those")
    for prompt in value:
        if not isinstance(prompt, str) and not (isinstance(prompt, list) and _all_ints(prompt)):
            raise ValueError("each prompt of a list is a text or a list of token ids")
    return value


def _all_ints(values: list[Any]) -> bool:
    return all(type(value) is int for value in values)


class CompletionRequest(SamplingFields):
    """Prompts to continue; `prompt` is always a list once checked."""

    prompt: Annotated[list[Prompt], BeforeValidator(_as_prompts)]
    logprobs: int | None = None
    add_special_tokens: bool | None = None

    def check_fields(self) -> None:
        """Refuse what isn't served yet, and more choices than one request may have."""
        super().check_fields()
        choices = len(self.prompt) * (self.n or 1)
        if choices > MAX_CHOICES:
            raise BadRequestError(
                f"{len(self.prompt)} prompts with n={self.n or 1} make {choices} choices",
                f"ask for at most {MAX_CHOICES} in one request",
                "n",
            )

    def num_logprobs(self) -> int | None:
        """Return how many alternatives each token comes with."""
        return self.logprobs
