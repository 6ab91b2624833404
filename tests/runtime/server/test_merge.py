import asyncio
from contextlib import aclosing

import pytest

from kvasir_runtime.server.merge import merge


class Source:
    def __init__(self, *values, error=None, forever=False):
        self.values, self.error, self.forever = values, error, forever
        self.closed = False

    async def __call__(self):
        try:
            for value in self.values:
                await asyncio.sleep(0)
                yield value
            if self.error:
                raise self.error
            if self.forever:
                await asyncio.Event().wait()
        finally:
            self.closed = True


async def test_all_values_arrive_with_their_sources_number():
    got = [item async for item in merge([Source("a", "b")(), Source("c")()])]
    assert sorted(got) == [(0, "a"), (0, "b"), (1, "c")]


async def test_values_dont_wait_for_a_slow_source():
    async with aclosing(merge([Source("a", forever=True)(), Source("b", "c")()])) as merged:
        got = [await anext(merged) for _ in range(3)]
    assert sorted(got) == [(0, "a"), (1, "b"), (1, "c")]


async def test_an_error_ends_it_and_closes_the_other_sources():
    waiting = Source(forever=True)
    with pytest.raises(ValueError, match="broken"):
        [item async for item in merge([waiting(), Source(error=ValueError("broken"))()])]
    assert waiting.closed


async def test_leaving_early_closes_every_source():
    sources = [Source("a", forever=True), Source("b", forever=True)]
    async with aclosing(merge([source() for source in sources])) as merged:
        await anext(merged)
        await anext(merged)
    assert all(source.closed for source in sources)
