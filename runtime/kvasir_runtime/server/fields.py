"""What both completion endpoints accept: OpenAI's sampling fields and vLLM's further ones.

A field that is accepted changes the output or is known to have no influence on it. A field that is
known but not served yet is refused by name, unless its value asks for nothing. Any other field is
ignored, with one line in the log.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from kvasir_runtime.sampling_params import SamplingParams
from kvasir_runtime.server.errors import BadRequestError

logger = logging.getLogger(__name__)

# Fields that describe the caller or the bookkeeping, never the text.
WITHOUT_INFLUENCE = frozenset(
    {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}
    | {"parallel_tool_calls", "request_id"}
)

# Fields not served yet, each with the values (beside null) that ask for nothing.
NOT_SERVED: dict[str, tuple[Any, ...]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "echo": (False,),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "verbosity": ("medium",),
    "web_search_options": (),
    "use_beam_search": (False,),
    "length_penalty": (1.0,),
    "early_stopping": (False,),
    "prompt_logprobs": (),
    "prompt_embeds": (),
    "truncate_prompt_tokens": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    "structural_tag": (),
    "logits_processors": ([],),
    "spaces_between_special_tokens": (True,),
    "detokenize": (True,),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "documents": ([],),
    "chat_template": (),
    "mm_processor_kwargs": ({},),
    "priority": (0,),
    "kv_transfer_params": (),
    "cache_salt": (),
    "thinking_token_budget": (),
}

MAX_REMEMBERED_FIELDS = 256


class StreamOptions(BaseModel):
    """How a stream reports usage."""

    model_config = ConfigDict(strict=True)

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class SamplingFields(BaseModel):
    """The fields that /v1/completions and /v1/chat/completions share; null means: not given."""

    model_config = ConfigDict(strict=True, extra="allow", protected_namespaces=())

    ignored_fields: ClassVar[set[str]] = set()

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    best_of: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], Field(max_length=64)] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    min_tokens: int | None = None
    skip_special_tokens: bool | None = None
    include_stop_str_in_output: bool | None = None
    logit_bias: dict[str, float] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] | None = None

    def check_fields(self) -> None:
        """Refuse what isn't served yet, and what can't be meant together."""
        for name, value in (self.model_extra or {}).items():
            self._check_extra(name, value)
        if self.best_of is not None and self.best_of != (self.n or 1):
            raise BadRequestError(
                f"best_of is {self.best_of}", "it is not supported yet: use n", "best_of"
            )
        if self.stream_options is not None and not self.stream:
            raise BadRequestError(
                "stream_options is given without stream", "set stream to true", "stream_options"
            )

    def _check_extra(self, name: str, value: Any) -> None:
        if value is None or name in WITHOUT_INFLUENCE:
            return
        if name not in NOT_SERVED:
            self._ignore(name)
        elif value not in NOT_SERVED[name]:
            raise BadRequestError(f"{name} is not supported yet", "leave it out", name)

    def _ignore(self, name: str) -> None:
        seen = self.ignored_fields
        if name not in seen and len(seen) < MAX_REMEMBERED_FIELDS:
            seen.add(name)
            logger.warning("Requests carry the unknown field %r, which is ignored", name[:100])

    def sampling_values(self) -> dict[str, Any]:
        """Return the given fields under SamplingParams' names."""
        names = {field.name for field in dataclasses.fields(SamplingParams) if field.init}
        known = sorted(names & type(self).model_fields.keys())
        values = {name: getattr(self, name) for name in known} | {"logprobs": self.num_logprobs()}
        values["logit_bias"] = self._logit_bias()
        return {name: value for name, value in values.items() if value is not None}

    def _logit_bias(self) -> dict[int, float] | None:
        """Return the biases by token id: JSON's keys are texts."""
        if self.logit_bias is None:
            return None
        for key in self.logit_bias:
            if not (key.isascii() and key.isdigit()):
                raise BadRequestError(
                    f"logit_bias has the key {key[:100]!r}", "keys are token ids", "logit_bias"
                )
        return {int(key): bias for key, bias in self.logit_bias.items()}

    def num_logprobs(self) -> int | None:
        """Return how many alternatives each token comes with; None: no log-probabilities."""
        raise NotImplementedError
