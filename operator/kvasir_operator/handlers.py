"""Watching: kopf's events and indices in, keys into the work queue out; and the workers.

Only `kopf.index` and `on.event` are used: they leave no annotation, finalizer or Event on anything.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import kopf
from kubernetes.aio.client import ApiClient

from kvasir_operator import names
from kvasir_operator.cluster import SERVICES_WANTED, Cluster, Resource, connect
from kvasir_operator.health import Health, serve_health
from kvasir_operator.observe import WATCHED, Indices, Key, Store, key_of, slim
from kvasir_operator.reconcile import Reconciler
from kvasir_operator.settings import Settings
from kvasir_operator.work import Work
from kvasir_operator.workqueue import WorkQueue

logger = logging.getLogger(__name__)

SERVER_TIMEOUT_S = 300
CLIENT_TIMEOUT_S = 330


async def run(settings: Settings) -> None:
    """Run the operator until it is told to stop (SIGTERM, SIGINT)."""
    api = await connect()
    try:
        await _Operator(settings, api).run()
    finally:
        await api.close()


class _Operator:
    """The parts of one running operator, and how events reach them."""

    def __init__(self, settings: Settings, api: ApiClient) -> None:
        self._settings = settings
        self._api = api
        self._cluster = Cluster(api)
        self._queue: WorkQueue[Key] = WorkQueue()
        self._health = Health(self._queue, settings.resync_s)
        self._store = Store({})
        self._reconciler = Reconciler(self._cluster, self._store, settings)
        self._work: Work | None = None

    async def run(self) -> None:
        """Watch, reconcile and answer health checks."""
        registry = kopf.OperatorRegistry()
        self._register(registry)
        watching = kopf.operator(
            registry=registry,
            settings=_kopf_settings(),
            standalone=True,
            clusterwide=not self._settings.namespaces,
            namespaces=self._settings.namespaces,
        )
        async with serve_health(self._health, self._settings.health_port):
            await watching

    def _register(self, registry: kopf.OperatorRegistry) -> None:
        kopf.on.login(registry=registry)(self._login)
        kopf.on.startup(registry=registry)(self._start)
        kopf.on.cleanup(registry=registry)(self._stop)
        for resource in WATCHED:
            group, version = _group_version(resource)
            where = (group, version, resource.plural)
            kopf.index(*where, id=resource.plural, registry=registry)(_indexer(resource))
            on_event = self._listener(resource)
            kopf.on.event(*where, id=f"{resource.plural}-event", registry=registry)(on_event)

    async def _login(self, **_: Any) -> kopf.ConnectionInfo:
        """kopf connects as the client does: one way to find the cluster, not two."""
        conf = self._api.configuration
        header = await conf.get_api_key_with_prefix("BearerToken", alias="authorization")
        return kopf.ConnectionInfo(
            server=conf.host,
            ca_path=conf.ssl_ca_cert,
            insecure=not conf.verify_ssl,
            token=header.split(" ", 1)[-1] if header else None,
            certificate_path=conf.cert_file,
            private_key_path=conf.key_file,
            proxy_url=conf.proxy,
        )

    async def _start(self, **kwargs: Any) -> None:
        """Give the store kopf's indices, and start the workers."""
        indices: Indices = {resource.plural: kwargs[resource.plural] for resource in WATCHED}
        self._store.bind(indices)
        self._work = Work(
            self._cluster, self._store, self._reconciler, self._queue, self._health, self._settings
        )
        self._work.start()

    async def _stop(self, **_: Any) -> None:
        if self._work is not None:
            await self._work.stop()

    def _listener(self, resource: Resource) -> Any:
        """An event function: something of `resource` changed, so its service needs a look."""

        async def listen(event: Mapping[str, Any], **_: Any) -> None:
            self._saw(resource, event["object"], is_deleted=event["type"] == "DELETED")

        return listen

    def _saw(self, resource: Resource, obj: Mapping[str, Any], *, is_deleted: bool) -> None:
        self._health.saw_event()
        self._store.saw(resource, obj, is_deleted=is_deleted)
        if is_deleted:
            self._reconciler.forget(obj)
        key = key_of(resource, obj)
        if key is not None:
            self._queue.add(key)


def _indexer(resource: Resource) -> Any:
    """An index function: the object under the key of its service."""

    async def index(body: Mapping[str, Any], **_: Any) -> dict[Key, dict[str, Any]]:
        obj = slim(dict(body))
        key = key_of(resource, obj)
        return {key: obj} if key is not None else {}

    return index


def _group_version(resource: Resource) -> tuple[str, str]:
    parts = resource.path.strip("/").split("/")
    return ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])


def _kopf_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.watching.server_timeout = SERVER_TIMEOUT_S
    settings.watching.client_timeout = CLIENT_TIMEOUT_S
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    for resource in WATCHED:
        if resource is not SERVICES_WANTED:
            where = (*_group_version(resource), resource.plural)
            settings.watching.label_selectors[where] = names.LABEL_SERVICE
    return settings
