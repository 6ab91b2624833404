"""Says in status, and in a few Events, what a reconcile found; writes only what changed.

Statuses that follow one another quickly are drawn together: what clients wait for (another
generation, Ready) is written at once, the rest at most once an interval.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kvasir_operator import names, render
from kvasir_operator.cluster import EVENTS, SERVICES_WANTED, Cluster, Object
from kvasir_operator.errors import ApiError
from kvasir_operator.model.outcome import Outcome
from kvasir_operator.model.service import Ref
from kvasir_operator.observe import Key, Store
from kvasir_operator.status import Notice, is_urgent, notices, summarize

logger = logging.getLogger(__name__)


class Teller:
    """Writes statuses and Events."""

    def __init__(
        self, cluster: Cluster, store: Store, interval_s: float, clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._interval_s = interval_s
        self._clock = clock
        self._written: dict[Key, float] = {}

    async def tell(self, outcome: Outcome, now: str) -> float | None:
        """Write the outcome's status if it is new; seconds to wait where it is too early."""
        key = (outcome.ref.namespace, outcome.ref.name)
        status = summarize(outcome, now)
        if status == outcome.previous:
            return None
        wait_s = self._written.get(key, float("-inf")) + self._interval_s - self._clock()
        if wait_s > 0 and not is_urgent(outcome.previous, status):
            return wait_s
        if await self._write(outcome.ref, status):
            self._written[key] = self._clock()
            for notice in notices(outcome.previous, status):
                await self._post(outcome.ref, notice, now)
        return None

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a deleted service."""
        self._written.pop(key, None)

    async def _write(self, ref: Ref, status: Object) -> bool:
        """Apply the status; False if the service is gone, or is another one by now."""
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": ref.uid},
            "status": status,
        }
        try:
            after = await self._cluster.apply(SERVICES_WANTED, body, "status")
        except ApiError as error:
            if error.status in (404, 409):
                return False
            raise
        self._store.wrote(SERVICES_WANTED, after)
        return True

    async def _post(self, ref: Ref, notice: Notice, now: str) -> None:
        """An Event that is refused is not worth failing for: status has said it already."""
        try:
            await self._cluster.create(
                EVENTS, render.event(ref, notice.kind, notice.reason, notice.message, now)
            )
        except ApiError as error:
            logger.warning("%s/%s: no Event: %s", ref.namespace, ref.name, error)
