"""Several asynchronous generators as one, each value as soon as it is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")


async def merge(sources: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[tuple[int, T], None]:
    """Yield (source's number, value); the first source that raises ends it all with its error.

    Leaving early closes every source.
    """
    arrived: asyncio.Queue[tuple[int, T] | Exception | None] = asyncio.Queue()

    async def pump(number: int, source: AsyncGenerator[T, None]) -> None:
        try:
            async with aclosing(source):
                async for value in source:
                    arrived.put_nowait((number, value))
        except Exception as error:  # handed on to the reader, which raises it
            arrived.put_nowait(error)
        else:
            arrived.put_nowait(None)

    pumps = [asyncio.create_task(pump(number, source)) for number, source in enumerate(sources)]
    left = len(pumps)
    try:
        while left:
            item = await arrived.get()
            if item is None:
                left -= 1
            elif isinstance(item, Exception):
                raise item
            else:
                yield item
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
