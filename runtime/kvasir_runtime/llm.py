"""Offline inference: `LLM(model).generate(prompts)`, for notebooks, scripts and tests.

The engine runs in the caller's process: no server, no main guard, several LLMs side by side.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

from tqdm.auto import tqdm

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.core import Engine
from kvasir_runtime.engine.output import CompletionOutput as Completion
from kvasir_runtime.engine.output import check_request, split
from kvasir_runtime.errors import InvalidConfigError
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.models.resolve import resolve_model
from kvasir_runtime.outputs import CompletionOutput, RequestOutput
from kvasir_runtime.sampling_params import SamplingParams
from kvasir_runtime.tokenizer import Tokenizer, load_tokenizer

Prompt = str | Sequence[int]
Value = TypeVar("Value")
Routes = dict[str, tuple[RequestOutput, Completion]]


class LLM:
    """A model loaded in this process."""

    def __init__(self, model: str, *, use_tqdm: bool = True, **settings: Any) -> None:
        """Load `model`, a folder or a hub repository.

        `settings` are EngineConfig's fields, the same as `kvasir-runtime serve`'s flags; a wrong
        one raises InvalidConfigError, a model that can't be loaded another StartupError.
        """
        self.config = EngineConfig(model=model, **settings)
        folder = resolve_model(self.config.model, self.config.revision)
        # Its library takes seconds to import, while which the engine's stages leave a core free.
        with ThreadPoolExecutor(1) as beside:
            tokenizer = beside.submit(_tokenizer, self.config, folder)
            self.engine: Engine | None = _load_engine(
                self.config, folder, tokenizer, use_tqdm=use_tqdm
            )
            self._tokenizer = tokenizer.result()
        self._ids = itertools.count()

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        priority: int | Sequence[int] = 0,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Complete each prompt (text or token ids), all together; results in the prompts' order.

        One SamplingParams serves all prompts, or there is one for each; the same for `priority`.
        Raises RequestError for a prompt the model can't take; nothing is generated then.
        """
        engine = self._running_engine()
        batch = _as_batch(prompts)
        params = _one_each(sampling_params or SamplingParams(), batch, "sampling_params")
        priorities = _one_each(priority, batch, "priority")
        results: list[RequestOutput] = []
        routes: Routes = {}
        requests: list[NewRequest] = []
        for prompt, own, urgency in zip(batch, params, priorities, strict=True):
            result = self._new_result(prompt, own.n)
            ids = result.prompt_token_ids
            own = own.tokenized(self._encode_plain)
            check_request(ids, own, engine.model)
            children = split(result.request_id, ids, own, time.monotonic(), urgency)
            for index, child in enumerate(children):
                routes[child.request_id] = (result, Completion(index, ids, own, self._tokenizer))
            results.append(result)
            requests.extend(children)
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
        # The template writes special tokens itself: encoding must not add them a second time.
        texts = [self.get_tokenizer().apply_chat_template(chat) for chat in conversations]
        outputs = self.generate(
            [self._encode_plain(text) for text in texts], sampling_params, use_tqdm=use_tqdm
        )
        for output, text in zip(outputs, texts, strict=True):
            output.prompt = text
        return outputs

    def get_tokenizer(self) -> Tokenizer:
        """Return the tokenizer in use; InvalidConfigError where none was loaded."""
        if self._tokenizer is None:
            raise InvalidConfigError(
                "no tokenizer is loaded", "give token ids, or leave skip_tokenizer_init out"
            )
        return self._tokenizer

    def shutdown(self) -> None:
        """Give the model's memory back; the LLM can't be used afterwards."""
        self.engine = None

    def _running_engine(self) -> Engine:
        if self.engine is None:
            raise RuntimeError("this LLM was shut down: make a new one")
        return self.engine

    def _encode_plain(self, text: str) -> list[int]:
        return self.get_tokenizer().encode(text, add_special_tokens=False)

    def _decode(self, token_ids: list[int]) -> str:
        return self._tokenizer.decode(token_ids) if self._tokenizer else ""

    def _new_result(self, prompt: Prompt, n: int) -> RequestOutput:
        text = prompt if isinstance(prompt, str) else None
        ids = list(prompt) if text is None else self.get_tokenizer().encode(text)
        completions = [CompletionOutput(index) for index in range(n)]
        return RequestOutput(str(next(self._ids)), text, cast("list[int]", ids), completions)

    def _run(self, engine: Engine, routes: Routes, *, use_tqdm: bool) -> None:
        """Step until every routed request has ended; an interruption aborts what is left."""
        bar = tqdm(total=len(routes), desc="Generating", disable=not use_tqdm, dynamic_ncols=True)
        started, tokens = time.monotonic(), 0
        try:
            while routes:
                for output in engine.step().outputs:
                    if output.request_id not in routes:
                        continue
                    result, completion = routes[output.request_id]
                    result.add(completion.push(output), self._decode)
                    tokens += len(output.token_ids)
                    if completion.finished:
                        engine.abort((output.request_id,))
                        del routes[output.request_id]
                        rate = tokens / (time.monotonic() - started)
                        bar.set_postfix_str(f"{rate:.1f} output tokens/s", refresh=False)
                        bar.update()
        finally:
            engine.abort(tuple(routes))
            bar.close()


def _tokenizer(config: EngineConfig, folder: Path) -> Tokenizer | None:
    if config.skip_tokenizer_init:
        return None
    return load_tokenizer(
        config.tokenizer or str(folder), trust_remote_code=config.trust_remote_code
    )


def _load_engine(
    config: EngineConfig, folder: Path, tokenizer: Future[Tokenizer | None], *, use_tqdm: bool
) -> Engine:
    """Load the engine under a progress bar that shows the stage it is in.

    It ends early, with the tokenizer's error, where that one can't be loaded.
    """
    with tqdm(total=100, desc="Loading", disable=not use_tqdm, unit="%", leave=False) as bar:

        def on_progress(stage: str, percent: int) -> None:
            if tokenizer.done():
                tokenizer.result()
            bar.set_description(stage.capitalize(), refresh=False)
            bar.n = percent
            bar.refresh()

        return Engine(config, folder, on_progress)


def _as_batch(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """Return the prompts as a list; a text, or a list of token ids, is one prompt."""
    if isinstance(prompts, str):
        return [prompts]
    if prompts and isinstance(prompts[0], int):
        return [cast("Sequence[int]", prompts)]
    return list(cast("Sequence[Prompt]", prompts))


def _one_each(value: Value | Sequence[Value], batch: list[Prompt], name: str) -> Sequence[Value]:
    """Return one value for each prompt: the given ones, or the same for all."""
    if not isinstance(value, Sequence):
        return [value] * len(batch)
    if len(value) != len(batch):
        raise ValueError(f"{len(value)} {name} for {len(batch)} prompts: give one each")
    return value
