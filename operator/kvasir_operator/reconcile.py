"""One look at one InferenceService: what is observed in; what is wanted, and a true status, out.

Level-triggered: it may run at any moment, any number of times, after any crash. It writes only
what differs, so a second look writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kvasir_operator import names, render
from kvasir_operator.apply import Applier
from kvasir_operator.cluster import DEPLOYMENTS, SERVICES, Cluster, Resource
from kvasir_operator.diagnose import find_failure
from kvasir_operator.errors import ApiError, InvalidSpec, NameTaken, Waiting
from kvasir_operator.model.observed import Object, Observed
from kvasir_operator.model.outcome import Outcome
from kvasir_operator.model.plan import Refusal, Resolved
from kvasir_operator.model.service import InferenceService, Ref
from kvasir_operator.observe import Key, Store, mount_failures, observe, stuck_on_volumes
from kvasir_operator.plan import plan
from kvasir_operator.revisions import Revisions
from kvasir_operator.settings import Settings
from kvasir_operator.tell import Teller

logger = logging.getLogger(__name__)

MOUNT_PATIENCE_S = 10.0
"""How long a pod may wait for its volumes before Events are asked why."""

NAME_TAKEN_RETRY_S = 30.0


def utc_now() -> str:
    """The time as the API server writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Next:
    """When a service needs another look, besides when something changes."""

    after_s: float | None = None
    is_failure: bool = False
    """Look again with growing patience."""


class Reconciler:
    """Reconciles services one at a time; holds nothing that a restart would miss."""

    def __init__(
        self,
        cluster: Cluster,
        store: Store,
        settings: Settings,
        now: Callable[[], str] = utc_now,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._settings = settings
        self._now = now
        self._applier = Applier(cluster)
        self._revisions = Revisions(cluster, store)
        self._teller = Teller(cluster, store, settings.status_interval_s, time.monotonic)

    async def reconcile(self, key: Key) -> Next:
        """Look at the service `key` once.

        Raises:
            ApiError: where the API server is at fault and not the service: try again.
        """
        raw = self._store.wanted(key)
        if raw is None or raw["metadata"].get("deletionTimestamp"):
            self._teller.forget(key)
            return Next()  # children go with their owner
        outcome, after = await self._decide(key, raw)
        wait_s = await self._teller.tell(outcome, self._now())
        waits = [s for s in (after.after_s, wait_s) if s is not None]
        return replace(after, after_s=min(waits, default=None))

    def forget(self, obj: Mapping[str, Any]) -> None:
        """Drop what is remembered of a deleted object."""
        self._applier.forget(obj)

    async def _decide(self, key: Key, raw: Object) -> tuple[Outcome, Next]:
        """Do what has to be done, and gather what is to be said about it."""
        outcome = Outcome(Ref.of(raw), raw.get("status") or {}, observe(self._store, key))
        try:
            service = InferenceService.parse(raw)
        except InvalidSpec as error:
            message = f"{error}: correct the field, or upgrade the operator if it is a newer one"
            return replace(outcome, refusal=Refusal("InvalidSpec", message)), Next()
        spec = service.spec
        outcome = replace(
            outcome, replicas=spec.replicas, paused=spec.paused, revision=service.revision
        )
        planned = plan(service, self._settings)
        if isinstance(planned, Refusal):
            return replace(outcome, refusal=planned), Next()
        outcome = replace(outcome, resolved=planned)
        return await self._bring_about(service, planned, outcome)

    async def _bring_about(
        self, service: InferenceService, resolved: Resolved, outcome: Outcome
    ) -> tuple[Outcome, Next]:
        after = Next()
        if not service.spec.paused:
            try:
                await self._apply(service, resolved, outcome.observed)
            except (ApiError, NameTaken, Waiting) as error:
                outcome, after = _refused(outcome, error)
        key = (service.ref.namespace, service.ref.name)
        observed, wait_s = await self._look_closer(observe(self._store, key), service.revision)
        failure = find_failure(observed, service.revision)
        outcome = replace(outcome, observed=observed, failure=failure)
        return outcome, after if after.after_s else replace(after, after_s=wait_s)

    async def _apply(
        self, service: InferenceService, resolved: Resolved, observed: Observed
    ) -> None:
        rendered = render.pod_template(service, resolved)
        template = await self._revisions.keep(service, observed, rendered)
        await asyncio.gather(
            self._ensure(
                service.ref,
                DEPLOYMENTS,
                render.deployment(service, resolved, template),
                observed.deployment,
            ),
            self._ensure(service.ref, SERVICES, render.service(service.ref), observed.service),
        )
        if len(observed.revisions) > names.REVISIONS_KEPT:
            await self._revisions.prune(service, observed)

    async def _ensure(
        self, ref: Ref, resource: Resource, wanted: Object, live: Object | None
    ) -> None:
        after = await self._applier.ensure(ref, resource, wanted, live)
        if after is not None:
            self._store.wrote(resource, after)

    async def _look_closer(
        self, observed: Observed, revision: str
    ) -> tuple[Observed, float | None]:
        """Ask Events about pods that wait for their volumes for long; they alone know why."""
        stuck = stuck_on_volumes(observed, (names.LABEL_REVISION, revision))
        if not stuck:
            return observed, None
        late = [pod for pod in stuck if _age_s(pod) >= MOUNT_PATIENCE_S]
        found = await mount_failures(self._cluster, late)
        return replace(observed, mount_failures=found), MOUNT_PATIENCE_S


def _age_s(pod: Object) -> float:
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    return (datetime.now(UTC) - created).total_seconds()


def _refused(outcome: Outcome, error: ApiError | NameTaken | Waiting) -> tuple[Outcome, Next]:
    """What a refused write says in status, and when it is tried again."""
    if isinstance(error, Waiting):
        return outcome, Next(after_s=error.retry_after_s)
    if isinstance(error, NameTaken):
        refusal = Refusal("NameTaken", str(error))
        return replace(outcome, refusal=refusal), Next(after_s=NAME_TAKEN_RETRY_S)
    if error.status not in (400, 403, 404, 413, 422):
        raise error
    logger.warning("%s/%s: %s", outcome.ref.namespace, outcome.ref.name, error)
    message = f"the API server refused a child object: {error}"
    refusal = Refusal("ChildRefused", message[:1024])
    return replace(outcome, refusal=refusal), Next(is_failure=True)
