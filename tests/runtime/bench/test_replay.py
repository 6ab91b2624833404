import asyncio
import time

import pytest

from kvasir_runtime.bench.latency import Answer
from kvasir_runtime.bench.replay import Planned, replay, warm_up
from kvasir_runtime.errors import AnswerError, EngineDiedError


class Slow:
    """Answers after a while; a prompt that is empty fails."""

    def __init__(self, seconds=0.0):
        self.seconds, self.sent, self.at_once, self.most_at_once = seconds, [], 0, 0

    async def ask(self, prompt, output_len):
        now = time.perf_counter()
        self.sent.append((prompt, now))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.seconds)
        self.at_once -= 1
        if not prompt:
            raise AnswerError("no", kind="HTTP 400")
        return Answer(now, (time.perf_counter(),) * output_len, output_len, len(prompt))


async def test_requests_are_sent_when_due_whether_or_not_others_have_ended():
    target = Slow(seconds=0.3)
    start = time.perf_counter()
    run = await replay(target, [Planned(0.05 * n, (n + 1,), 2) for n in range(4)])
    assert target.most_at_once == 4
    for number, (prompt, sent) in enumerate(target.sent):
        assert prompt == (number + 1,)
        assert sent - start >= 0.05 * number
    assert run.elapsed_s >= 0.45
    assert len(run.answers) == 4
    assert len(run.late_s) == 4


async def test_failed_requests_are_counted_by_kind_and_disturb_no_other():
    run = await replay(Slow(), [Planned(0.0, prompt, 2) for prompt in ((), (1,), ())])
    assert run.errors_by_kind == {"HTTP 400": 2}
    assert [answer.prompt_tokens for answer in run.answers] == [1]


async def test_an_engine_that_dies_ends_the_run_with_its_own_error():
    class Broken:
        async def ask(self, prompt, output_len):
            raise EngineDiedError("the engine died")

    with pytest.raises(EngineDiedError):
        await replay(
            Broken(), [Planned(0.0, (1,), 2), Planned(0.0, (1,), 2), Planned(999, (1,), 2)]
        )


async def test_warming_up_raises_what_fails():
    with pytest.raises(AnswerError, match="no"):
        await warm_up(Slow(), [Planned(0.0, (1,), 2), Planned(5.0, (), 2)])
