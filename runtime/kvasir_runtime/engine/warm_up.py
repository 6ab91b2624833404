"""Runs every kind of step once before requests do, so that none has to wait for a first time.

Triton compiles a kernel, or loads it from its cache, when it is first launched; cuBLAS and torch
load theirs lazily too (`CUDA_MODULE_LOADING`). What is computed here is nonsense on whatever the
pool's first blocks hold, which nobody reads. The steps run as they would without CUDA graphs, so
the captures that follow find every kernel ready.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvasir_runtime.engine.runner import ModelRunner
from kvasir_runtime.engine.scheduler import Chunk, StepPlan
from kvasir_runtime.engine.sequence import Sequence
from kvasir_runtime.messages import NewRequest
from kvasir_runtime.sampling_params import MAX_LOGPROBS, SamplingParams

# A prompt's length chooses its attention kernel and that one's tile: these reach all of them.
PROMPTS = (2, 16, 128, 1024)
LONGEST_PROMPT = PROMPTS[-1]
FEW = 32  # sequences, whose linear layers have tiles of their own
PLAIN = SamplingParams(max_tokens=1)
ALLOWED = 64  # tokens, more than any model's ends of sequence, which are forbidden beside them


def warm_up(runner: ModelRunner) -> None:
    """Run prompts and decodes of every kind, and every move of blocks, on the runner's pool."""
    runner.launch(block_moves(runner)).results()
    run_steps(runner)


def run_steps(runner: ModelRunner) -> None:
    """Run steps that between them launch each of the model's kernels."""
    run_prompts(runner, 2, 1, everything(runner.model.config.vocab_size))
    for tokens, seqs in step_sizes(runner):
        run_prompts(runner, tokens, seqs, PLAIN)


def everything(vocab: int) -> SamplingParams:
    """Return parameters that ask for all a request can ask for at once."""
    return SamplingParams(
        max_tokens=2, min_tokens=1, temperature=0.8, top_k=10, top_p=0.9, min_p=0.01,
        presence_penalty=0.1, frequency_penalty=0.1, repetition_penalty=1.1,
        logit_bias={0: 1.0}, bad_word_ids=((1,),), allowed_token_ids=range(min(vocab, ALLOWED)),
        logprobs=min(vocab, MAX_LOGPROBS), prompt_logprobs=min(vocab, MAX_LOGPROBS),
    )  # fmt: skip


def step_sizes(runner: ModelRunner) -> Iterator[tuple[int, int]]:
    """Yield (tokens, sequences): prompts of one sequence, then decodes of one, few and the most."""
    longest = min(
        runner.max_tokens, runner.cos.shape[0] - 1, runner.pool.shape[2] * runner.block_size
    )
    for tokens in sorted({*PROMPTS, longest}):
        if tokens <= min(longest, LONGEST_PROMPT):
            yield tokens, 1
    for seqs in sorted({1, min(FEW, runner.max_seqs), runner.max_seqs}):
        yield seqs, seqs


def block_moves(runner: ModelRunner) -> StepPlan:
    """Return a plan without chunks that copies a block in every direction there is."""
    if runner.pool.shape[2] < 2:
        return StepPlan()
    swaps = [(0, 0)] if runner.host is not None else []
    return StepPlan(swap_out=swaps, swap_in=swaps, copies=[(0, 1)])


def run_prompts(runner: ModelRunner, tokens: int, seqs: int, params: SamplingParams) -> None:
    """Run a step of `seqs` prompts, `tokens` in all, and wait for its end.

    The prompts share the blocks at the start of the pool.
    """
    per_seq = tokens // seqs
    request = NewRequest("warm-up", (0,) * per_seq, params, arrived_s=0.0)
    plan = StepPlan()
    for slot in range(seqs):
        seq = Sequence.from_request(request, max_model_len=per_seq + 2, seed=0)
        seq.blocks, seq.slot = list(range(-(-per_seq // runner.block_size))), slot
        plan.chunks.append(Chunk(seq, 0, per_seq, samples=True, enters=True))
    runner.launch(plan).results()
