"""Offline inference: `LLM(model).generate(prompts)`, for notebooks, scripts and tests.

The engine runs in the caller's process: no server, no main guard, several LLMs side by side.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tqdm.auto import tqdm

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.core import Engine
from kvasir_runtime.engine.output import CompletionOutput as Completion
from kvasir_runtime.engine.output import check_request, split
from kvasir_runtime.messages import NewRequest, OutputDelta, TokenLogprobs
from kvasir_runtime.models.resolve import resolve_model
from kvasir_runtime.sampling_params import SamplingParams
from kvasir_runtime.tokenizer import load_tokenizer

Prompt = str | Sequence[int]


@dataclass(slots=True)
class CompletionOutput:
    """One completion, with the names vLLM's users know."""

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None

    def add(self, delta: OutputDelta) -> None:
        """Append what a step brought."""
        self.text += delta.text
        self.token_ids.extend(delta.token_ids)
        if delta.logprobs:
            self.logprobs = [*(self.logprobs or ()), *delta.logprobs]
        self.finish_reason, self.stop_reason = delta.finish_reason, delta.stop_reason


@dataclass(slots=True)
class RequestOutput:
    """A prompt and its completions."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool = False
    num_cached_tokens: int = 0


class LLM:
    """A model loaded in this process."""

    def __init__(self, model: str, **settings: Any) -> None:
        """Load `model`, a folder or a hub repository.

        `settings` are EngineConfig's fields, the same as `kvasir-runtime serve`'s flags; a wrong
        one raises InvalidConfigError, a model that can't be loaded another StartupError.
        """
        self.config = EngineConfig(model=model, **settings)
        folder = resolve_model(self.config.model, self.config.revision)
        self._tokenizer = load_tokenizer(
            self.config.tokenizer or str(folder),
            trust_remote_code=self.config.trust_remote_code,
        )
        self.engine: Engine | None = Engine(self.config, folder)
        self._ids = itertools.count()

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Complete each prompt (text or token ids), all together; results in the prompts' order.

        One SamplingParams serves all prompts, or there is one for each. Raises RequestError for a
        prompt the model can't take; nothing is generated then.
        """
        engine = self._running_engine()
        batch = _as_batch(prompts)
        params = _one_each(sampling_params or SamplingParams(), len(batch))
        results: list[RequestOutput] = []
        routes: dict[str, tuple[RequestOutput, Completion]] = {}
        requests: list[NewRequest] = []
        for prompt, own in zip(batch, params, strict=True):
            result = self._new_result(prompt, own.n)
            ids = result.prompt_token_ids
            check_request(ids, own, engine.model)
            results.append(result)
            children = split(result.request_id, ids, own, time.monotonic())
            requests.extend(children)
            for index, child in enumerate(children):
                completion = Completion(index, ids, own, self._tokenizer)
                routes[child.request_id] = (result, completion)
        for request in requests:
            engine.add(request)
        self._run(engine, routes, use_tqdm=use_tqdm)
        return results

    def chat(
        self,
        messages: Sequence[dict[str, Any]] | Sequence[Sequence[dict[str, Any]]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Answer one conversation, or several, through the model's chat template."""
        single = bool(messages) and isinstance(messages[0], dict)
        conversations: Any = [messages] if single else messages
        prompts = [self._tokenizer.apply_chat_template(chat) for chat in conversations]
        return self.generate(prompts, sampling_params, use_tqdm=use_tqdm)

    def get_tokenizer(self) -> Any:
        """Return the tokenizer in use."""
        return self._tokenizer

    def shutdown(self) -> None:
        """Give the model's memory back; the LLM can't be used afterwards."""
        self.engine = None

    def _running_engine(self) -> Engine:
        if self.engine is None:
            raise RuntimeError("this LLM was shut down: make a new one")
        return self.engine

    def _new_result(self, prompt: Prompt, n: int) -> RequestOutput:
        text = prompt if isinstance(prompt, str) else None
        ids = list(prompt) if text is None else self._tokenizer.encode(text)
        completions = [CompletionOutput(index) for index in range(n)]
        return RequestOutput(str(next(self._ids)), text, cast("list[int]", ids), completions)

    def _run(
        self,
        engine: Engine,
        routes: dict[str, tuple[RequestOutput, Completion]],
        *,
        use_tqdm: bool,
    ) -> None:
        """Step until every routed request has ended; an interruption aborts what is left."""
        bar = tqdm(total=len(routes), desc="Generating", disable=not use_tqdm, dynamic_ncols=True)
        started, tokens = time.monotonic(), 0
        try:
            while routes:
                for output in engine.step().outputs:
                    if output.request_id not in routes:
                        continue
                    result, completion = routes[output.request_id]
                    delta = completion.push(output)
                    result.outputs[completion.index].add(delta)
                    result.num_cached_tokens = output.num_cached_tokens
                    tokens += len(output.token_ids)
                    if completion.finished:
                        engine.abort((output.request_id,))
                        del routes[output.request_id]
                        result.finished = all(out.finish_reason for out in result.outputs)
                        rate = tokens / (time.monotonic() - started)
                        bar.set_postfix_str(f"{rate:.1f} output tokens/s", refresh=False)
                        bar.update()
        finally:
            engine.abort(tuple(routes))
            bar.close()


def _as_batch(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """Return the prompts as a list; a text, or a list of token ids, is one prompt."""
    if isinstance(prompts, str):
        return [prompts]
    if prompts and isinstance(prompts[0], int):
        return [cast("Sequence[int]", prompts)]
    return list(cast("Sequence[Prompt]", prompts))


def _one_each(
    params: SamplingParams | Sequence[SamplingParams], count: int
) -> Sequence[SamplingParams]:
    if isinstance(params, SamplingParams):
        return [params] * count
    if len(params) != count:
        raise ValueError(f"{len(params)} sampling_params for {count} prompts: give one each")
    return params
