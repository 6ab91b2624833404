"""The workers that empty the queue, and the resync that fills it when no event does.

The resync lists everything once a minute: it finds what a broken watch has missed, and gives every
service a look, changed or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import aiohttp

from kvasir_operator.cluster import SERVICES_WANTED, Cluster, Object, Resource
from kvasir_operator.errors import ApiError
from kvasir_operator.health import Health
from kvasir_operator.names import LABEL_SERVICE
from kvasir_operator.observe import WATCHED, Key, Store, key_of
from kvasir_operator.reconcile import Reconciler
from kvasir_operator.settings import Settings
from kvasir_operator.workqueue import WorkQueue

logger = logging.getLogger(__name__)

TRANSIENT = (ApiError, aiohttp.ClientError, TimeoutError, OSError)


class Work:
    """Worker and resync tasks."""

    def __init__(
        self,
        cluster: Cluster,
        store: Store,
        reconciler: Reconciler,
        queue: WorkQueue[Key],
        health: Health,
        settings: Settings,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._reconciler = reconciler
        self._queue = queue
        self._health = health
        self._settings = settings
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the tasks in the running event loop."""
        workers = [self._worker() for _ in range(self._settings.workers)]
        self._tasks = [asyncio.create_task(task) for task in (*workers, self._resync_forever())]

    async def stop(self) -> None:
        """Stop the tasks; a write that is under way may or may not happen, both are safe."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _worker(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._look(key)
            finally:
                self._queue.done(key)

    async def _look(self, key: Key) -> None:
        """One reconcile; whatever fails is tried again with growing patience."""
        try:
            after = await self._reconciler.reconcile(key)
        except TRANSIENT as error:
            delay_s = self._queue.retry(key)
            logger.warning("%s/%s: %s; again in %.1f s", *key, _say(error), delay_s)
            return
        except Exception:
            logger.exception("%s/%s: the reconcile failed", *key)
            self._queue.retry(key)
            return
        if after.is_failure:
            self._queue.retry(key)
            return
        self._queue.forget_failures(key)
        if after.after_s is not None:
            self._queue.add_after(key, after.after_s)

    async def _resync_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.resync_s)
            try:
                await self._resync()
            except TRANSIENT as error:
                logger.warning("resync: %s", _say(error))
            self._health.resynced()

    async def _resync(self) -> None:
        for resource in WATCHED:
            for listing in await self._listings(resource):
                for obj in listing["items"]:
                    self._enqueue(resource, obj)

    async def _listings(self, resource: Resource) -> list[Object]:
        query = {"labelSelector": LABEL_SERVICE} if resource.labelled else {}
        listings = [
            await self._cluster.list(resource, namespace, **query)
            for namespace in self._settings.namespaces or (None,)
        ]
        missed = self._store.listed(resource, listings)
        if missed:
            logger.info("resync: %d %s changed unseen", missed, resource.plural)
        return listings

    def _enqueue(self, resource: Resource, obj: Object) -> None:
        key = key_of(resource, obj) if resource is SERVICES_WANTED else None
        if key is not None:
            self._queue.add(key)


def _say(error: BaseException) -> str:
    return str(error) or type(error).__name__
