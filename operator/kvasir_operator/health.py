"""The operator's own health endpoint.

/healthz fails when the operator itself is stuck: the resync loop stands still, or a reconcile
hangs. An API server that is down is not the operator's illness: restarting would not help.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from kvasir_operator.observe import Key
from kvasir_operator.workqueue import WorkQueue

RESYNCS_MISSED = 5
RECONCILE_MOST_S = 300.0


class Health:
    """What is known about the operator's own progress."""

    def __init__(
        self,
        queue: WorkQueue[Key],
        resync_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._resync_s = resync_s
        self._clock = clock
        self._last_event = self._last_resync = clock()

    def saw_event(self) -> None:
        """A watch delivered something."""
        self._last_event = self._clock()

    def resynced(self) -> None:
        """The resync loop came round, whether the API server answered or not."""
        self._last_resync = self._clock()

    def report(self) -> dict[str, object]:
        """The figures, and whether they are good."""
        resync_age_s = self._clock() - self._last_resync
        work_s = self._queue.longest_work_s
        stuck = resync_age_s > RESYNCS_MISSED * self._resync_s or work_s > RECONCILE_MOST_S
        return {
            "ok": not stuck,
            "lastEventAgeSeconds": round(self._clock() - self._last_event, 1),
            "lastResyncAgeSeconds": round(resync_age_s, 1),
            "queued": len(self._queue),
            "longestReconcileSeconds": round(work_s, 1),
        }


@asynccontextmanager
async def serve_health(health: Health, port: int) -> AsyncIterator[None]:
    """Answer GET /healthz on `port` while the context is open; port 0 serves nothing."""
    if port == 0:
        yield
        return

    async def healthz(_: web.Request) -> web.Response:
        report = health.report()
        return web.json_response(report, status=200 if report["ok"] else 503)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    try:
        yield
    finally:
        await runner.cleanup()
