"""The front's half of a request: its sequences' tokens in, text that is final out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from kvasir_runtime.engine.detokenize import Decoder, IncrementalDetokenizer, StopStrings
from kvasir_runtime.errors import InvalidParamsError, PromptTooLongError, RequestError
from kvasir_runtime.messages import ModelInfo, NewRequest, OutputDelta, TokenOutput
from kvasir_runtime.sampling_params import SamplingParams


class CompletionOutput:
    """One completion of a request, as its tokens arrive."""

    def __init__(
        self, index: int, prompt: Sequence[int], params: SamplingParams, decoder: Decoder | None
    ) -> None:
        """Begin the completion number `index`; without a decoder it has tokens and no text."""
        self.index, self.finished = index, False
        self._params, self._generated = params, 0
        self._detokenizer = (
            None
            if decoder is None
            else IncrementalDetokenizer(
                decoder, prompt, skip_special_tokens=params.skip_special_tokens
            )
        )
        self._stops = StopStrings(params.stop_strings, include=params.include_stop_str_in_output)

    def push(self, output: TokenOutput) -> OutputDelta:
        """Take the tokens of a step; the delta says so when they end the completion."""
        self._generated += len(output.token_ids)
        reason, stop_reason = output.finish_reason, output.stop_reason
        last = reason is not None
        text = self._text(output)
        if self._generated < self._params.min_tokens:
            stop = None
        else:
            text, stop = self._stops.push(text, last=last)
        if stop is not None:
            reason, stop_reason = "stop", stop
        self.finished = reason is not None
        return OutputDelta(
            index=self.index,
            text=text,
            token_ids=output.token_ids,
            logprobs=output.logprobs,
            prompt_logprobs=output.prompt_logprobs,
            finish_reason=reason,
            stop_reason=stop_reason,
            num_cached_tokens=output.num_cached_tokens,
            timings=output.timings,
            error=output.error,
        )

    def _text(self, output: TokenOutput) -> str:
        """Return the new text, without that of a token that ended the sequence."""
        if self._detokenizer is None:
            return ""
        ends_by_token = output.finish_reason == "stop" and output.token_ids
        hidden = ends_by_token and not self._params.include_stop_str_in_output
        ids = output.token_ids[:-1] if hidden else output.token_ids
        return self._detokenizer.push(ids, last=output.finish_reason is not None)


def check_request(prompt: Sequence[int], params: SamplingParams, model: ModelInfo) -> None:
    """Raise a RequestError for a prompt the model can't take, with the numbers."""
    if not prompt:
        raise RequestError("the prompt is empty", "send at least one token")
    if len(prompt) >= model.max_model_len:
        raise PromptTooLongError(
            f"the prompt has {len(prompt):,} tokens, the model's length is "
            f"{model.max_model_len:,} and one is needed for the answer",
            f"shorten it to at most {model.max_model_len - 1:,} tokens",
        )
    wanted = params.max_tokens
    if wanted is not None and len(prompt) + wanted > model.max_model_len:
        raise PromptTooLongError(
            f"the prompt has {len(prompt):,} tokens and max_tokens is {wanted:,}, together "
            f"{len(prompt) + wanted:,}; the model's length is {model.max_model_len:,}",
            f"set max_tokens to at most {model.max_model_len - len(prompt):,}, or leave it out",
        )
    _require_tokens("the prompt", prompt, model)
    _require_tokens("logit_bias", params.logit_bias or (), model, "logit_bias")
    _require_tokens("allowed_token_ids", params.allowed_token_ids or (), model, "allowed_token_ids")


def _require_tokens(
    what: str, ids: Iterable[int], model: ModelInfo, param: str | None = None
) -> None:
    """Raise InvalidParamsError unless the model's vocabulary has all the ids."""
    wrong = next((token for token in ids if not 0 <= token < model.vocab_size), None)
    if wrong is not None:
        raise InvalidParamsError(
            f"{what} holds the token id {wrong}", f"ids go from 0 to {model.vocab_size - 1}", param
        )


def split(
    request_id: str,
    prompt: Sequence[int],
    params: SamplingParams,
    arrived_s: float,
    priority: int = 0,
) -> list[NewRequest]:
    """Return one engine request for each of the `n` completions; seeds differ, so texts do."""
    prompt = tuple(prompt)
    if params.n == 1:
        return [NewRequest(request_id, prompt, params, arrived_s, priority)]
    return [
        NewRequest(
            f"{request_id}-{index}",
            prompt,
            dataclasses.replace(
                params,
                n=1,
                seed=None if params.seed is None else params.seed + index,
                prompt_logprobs=params.prompt_logprobs if index == 0 else None,
            ),
            arrived_s,
            priority,
            leader_id=f"{request_id}-0" if index else None,
        )
        for index in range(params.n)
    ]
