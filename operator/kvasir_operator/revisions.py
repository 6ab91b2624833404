"""Keeps each rendered template in a ControllerRevision for as long as its hash is wanted.

A running pod is restarted by nothing but a change of its own template's inputs: while the hash of
those inputs is the same, the kept template is applied again as it is, whatever a newer operator
would render. Old revisions are pruned.
"""

from __future__ import annotations

from typing import Any

from kvasir_operator import names
from kvasir_operator.apply import OLD_CHILD_RETRY_S, check_owner
from kvasir_operator.cluster import REVISIONS, Cluster
from kvasir_operator.errors import ApiError, Waiting
from kvasir_operator.model.observed import Object, Observed, labels_of
from kvasir_operator.model.service import InferenceService
from kvasir_operator.observe import Store
from kvasir_operator.render import controller_revision


class Revisions:
    """The kept templates of every service."""

    def __init__(self, cluster: Cluster, store: Store) -> None:
        self._cluster = cluster
        self._store = store

    async def keep(
        self, service: InferenceService, observed: Observed, rendered: dict[str, Any]
    ) -> dict[str, Any]:
        """The template to apply: the kept one of this hash, else `rendered`, kept from now on."""
        kept = self._find(service, observed)
        if kept is None:
            number = 1 + max((entry["revision"] for entry in observed.revisions), default=0)
            kept = await self._create(service, controller_revision(service, rendered, number))
        template: dict[str, Any] = kept["data"]["template"]
        return template

    async def prune(self, service: InferenceService, observed: Observed) -> None:
        """Delete the oldest revisions beyond those that are kept; never the wanted one."""
        mine = [entry for entry in observed.revisions if self._is_owned(service, entry)]
        newest_first = sorted(mine, key=lambda entry: entry["revision"], reverse=True)
        for entry in newest_first[names.REVISIONS_KEPT :]:
            if labels_of(entry).get(names.LABEL_REVISION) != service.revision:
                await self._cluster.delete(
                    REVISIONS, service.ref.namespace, entry["metadata"]["name"]
                )
                self._store.forget(REVISIONS, entry)

    def _find(self, service: InferenceService, observed: Observed) -> Object | None:
        wanted = names.revision_name(service.ref.name, service.revision)
        return next(
            (
                entry
                for entry in observed.revisions
                if entry["metadata"]["name"] == wanted and self._is_owned(service, entry)
            ),
            None,
        )

    async def _create(self, service: InferenceService, revision: Object) -> Object:
        """Create the revision; one that another moment created first counts as it is."""
        try:
            kept = await self._cluster.create(REVISIONS, revision)
        except ApiError as error:
            if error.status != 409:
                raise
            meta = revision["metadata"]
            existing = await self._cluster.get(REVISIONS, meta["namespace"], meta["name"])
            if existing is None:
                raise Waiting(f"{meta['name']} has just been deleted", OLD_CHILD_RETRY_S) from error
            check_owner(service.ref, existing)
            kept = existing
            if not self._is_owned(service, existing):
                bare = {key: revision[key] for key in ("apiVersion", "kind", "metadata")}
                kept = await self._cluster.apply(REVISIONS, bare)
        self._store.wrote(REVISIONS, kept)
        return kept

    @staticmethod
    def _is_owned(service: InferenceService, entry: Object) -> bool:
        owners = entry["metadata"].get("ownerReferences") or []
        return any(owner["uid"] == service.ref.uid for owner in owners)
