"""Runs steps on the device: a plan in, a flight whose results come later out.

`launch` queues everything a step does and waits for nothing; `Flight.results` waits for that step
alone. The next step may be launched in between: a token that is not yet known on the host is read
from the device's own state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from kvasir_kernels.sample import sample
from kvasir_runtime.engine import logits as logits_rules
from kvasir_runtime.engine.graphs import GraphPool
from kvasir_runtime.engine.logprobs import LogprobTensors, compute, to_host
from kvasir_runtime.engine.sampling_state import SamplingState
from kvasir_runtime.engine.scheduler import Chunk, StepPlan
from kvasir_runtime.engine.step_inputs import InputBuilder, StepInputs, StepOutput
from kvasir_runtime.engine.swap import HostCache, copy_blocks
from kvasir_runtime.layers.attention import AttentionInputs
from kvasir_runtime.layers.rope import rope_tables
from kvasir_runtime.messages import TokenLogprobs
from kvasir_runtime.models.decoder import Decoder


@dataclass(frozen=True, slots=True)
class Result:
    """What a step computed of one chunk: a token if it samples, and asked-for probabilities."""

    chunk: Chunk
    token_id: int | None
    logprobs: TokenLogprobs | None
    prompt_logprobs: tuple[TokenLogprobs, ...]


@dataclass(slots=True)
class Flight:
    """A step that was launched; its tensors are on their way to the host."""

    chunks: list[Chunk]
    tokens: torch.Tensor
    logprobs: LogprobTensors | None = None
    prompts: dict[int, LogprobTensors] = field(default_factory=dict)
    done: torch.Event | None = None

    def results(self) -> list[Result]:
        """Wait for the step, and return what it computed of each chunk."""
        if self.done is not None:
            self.done.synchronize()
        tokens = self.tokens.tolist()
        return [self._result(row, chunk, tokens[row]) for row, chunk in enumerate(self.chunks)]

    def _result(self, row: int, chunk: Chunk, token: int) -> Result:
        params, prompt = chunk.seq.params, self.prompts.get(row)
        wanted = params.logprobs if chunk.samples else None
        described = None
        if wanted is not None and self.logprobs is not None:
            described = self.logprobs.describe(row, wanted)
        of_prompt = (
            ()
            if prompt is None
            else tuple(
                prompt.describe(i, params.prompt_logprobs or 0) for i in range(len(prompt.rank))
            )
        )
        return Result(chunk, token if chunk.samples else None, described, of_prompt)


class ModelRunner:
    """A model, its KV cache, and the device's state of the running sequences."""

    def __init__(
        self, model: Decoder, *, block_size: int, max_len: int, max_tokens: int, max_seqs: int
    ) -> None:
        """Wrap a loaded model for steps of up to `max_tokens` tokens of `max_seqs` sequences."""
        self.model, self.block_size = model, block_size
        self.max_tokens, self.max_seqs = max_tokens, max_seqs
        self.device = model.embed_tokens.device
        config = model.config
        self.eos = frozenset(config.eos_token_ids)
        self.cos, self.sin = rope_tables(dict(config.rope), config.head_dim, max_len, self.device)
        self.state = SamplingState(max_seqs, config.vocab_size, self.device)
        self.inputs = InputBuilder(
            max_tokens=max_tokens, max_seqs=max_seqs, max_len=max_len,
            block_size=block_size, device=self.device,
        )  # fmt: skip
        self.pool = torch.empty(0, device=self.device)
        self.host: HostCache | None = None
        self.graphs: GraphPool | None = None

    @torch.inference_mode()
    def launch(self, plan: StepPlan) -> Flight:
        """Queue one step; its block moves come first, in the plan's order."""
        self._move_blocks(plan)
        chunks = plan.chunks
        self.state.enter([chunk.seq for chunk in chunks if chunk.enters])
        if not chunks:
            return Flight([], torch.empty(0, dtype=torch.long))
        output, inputs = self._forward(chunks)
        return self._finish(chunks, output, inputs)

    def forward(self, inputs: StepInputs) -> StepOutput:
        """Compute a step; the tokens it chooses are in the state, too, for the step after it."""
        attention = AttentionInputs(
            query_start=inputs.query_start,
            context_lens=inputs.context_lens,
            block_tables=inputs.block_tables,
            positions=inputs.positions,
            slots=inputs.slots,
            cos=self.cos,
            sin=self.sin,
        )
        embedded = self.model.embed(inputs.token_ids, inputs.source, self.state.last_token)
        hidden = self.model(embedded, self.pool, attention)
        decode = len(inputs.token_ids) == len(inputs.context_lens)
        logits = self.model.logits(hidden if decode else hidden[inputs.last_rows])
        return StepOutput(hidden, logits, self._sample(logits, inputs))

    def _sample(self, logits: torch.Tensor, inputs: StepInputs) -> torch.Tensor:
        """Choose a token for each row of logits, and keep it in the state."""
        state, count = self.state, len(logits)
        return sample(
            logits,
            state.temperature,
            state.top_k,
            state.top_p,
            state.min_p,
            state.seed,
            inputs.context_lens[:count],
            rows=inputs.state_rows[:count],
            pool=state.last_token,
        )

    def _forward(self, chunks: list[Chunk]) -> tuple[StepOutput, StepInputs]:
        tokens, seqs = sum(chunk.count for chunk in chunks), len(chunks)
        graph = self.graphs.find(tokens, seqs) if self.graphs else None
        if graph is None:
            inputs = self.inputs.build(chunks, tokens, seqs)
            return self.forward(inputs), inputs
        inputs = self.inputs.build(chunks, graph.tokens, graph.seqs)
        return graph.replay(), inputs

    def _finish(self, chunks: list[Chunk], output: StepOutput, inputs: StepInputs) -> Flight:
        """Choose again where requests change their scores, and send what was asked for home.

        Chunks that don't sample get a token nobody reads.
        """
        count = len(chunks)
        logits, tokens = output.logits[:count], output.tokens[:count]
        prompts = self._prompt_logprobs(chunks, output.hidden, inputs)
        if logits_rules.concern(chunks):
            tokens = self._choose_again(chunks, logits, inputs)
        wanted = [chunk.seq.params.logprobs for chunk in chunks if chunk.samples]
        asked = [number for number in wanted if number is not None]
        logprobs = compute(logits, tokens, max(asked)) if asked else None
        flight = Flight(chunks, to_host(tokens), logprobs, prompts)
        if self.device.type == "cuda":
            flight.done = torch.Event(self.device)
            flight.done.record()
        return flight

    def _choose_again(
        self, chunks: list[Chunk], logits: torch.Tensor, inputs: StepInputs
    ) -> torch.Tensor:
        """Choose by the scores as the requests' rules change them; count what was chosen."""
        rows, state = inputs.state_rows[: len(chunks)], self.state
        scores = logits.float() if logits.dtype != torch.float32 else logits.clone()
        logits_rules.adjust(scores, chunks, rows, state, self.eos)
        tokens = self._sample(scores, inputs)
        if any(chunk.seq.params.penalised for chunk in chunks):
            sampled = torch.tensor([chunk.samples for chunk in chunks], dtype=torch.int32)
            state.generated[rows, tokens] += sampled.to(self.device, non_blocking=True)
        return tokens

    def _prompt_logprobs(
        self, chunks: list[Chunk], hidden: torch.Tensor, inputs: StepInputs
    ) -> dict[int, LogprobTensors]:
        """Score the prompt tokens that follow each computed one, for requests that ask for them."""
        found: dict[int, LogprobTensors] = {}
        start = 0
        for row, chunk in enumerate(chunks):
            seq, first = chunk.seq, start
            start += chunk.count
            count = min(chunk.count, seq.num_prompt - 1 - chunk.start)
            if seq.params.prompt_logprobs is None or count <= 0:
                continue
            following = seq.token_ids[chunk.start + 1 : chunk.start + 1 + count]
            tokens = torch.tensor(following).to(self.device)
            logits = self.model.logits(hidden[first : first + count])
            found[row] = compute(logits, tokens, seq.params.prompt_logprobs)
        return found

    def _move_blocks(self, plan: StepPlan) -> None:
        if self.host is not None:
            self.host.swap_out(plan.swap_out)
            self.host.swap_in(plan.swap_in)
        if plan.copies:
            copy_blocks(self.pool, plan.copies)
