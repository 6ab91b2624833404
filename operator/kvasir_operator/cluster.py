"""A thin client of the API server: plain dicts in and out, one method a verb.

Built on `kubernetes.aio`'s connection and authentication; its generated models are left out,
because turning every answer into objects costs more than everything else a reconcile does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kubernetes.aio import client, config

from kvasir_operator import names
from kvasir_operator.errors import ApiError, SettingsError

Object = dict[str, Any]

REQUEST_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object and where the API server keeps it."""

    path: str
    plural: str
    labelled: bool = True
    """Only those that carry the operator's label are its own."""

    def url(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """The path of a collection, an object or its subresource."""
        within = f"/namespaces/{namespace}" if namespace else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{self.path}{within}/{self.plural}{tail}"


SERVICES_WANTED = Resource(f"/apis/{names.API_VERSION}", names.PLURAL, labelled=False)
DEPLOYMENTS = Resource("/apis/apps/v1", "deployments")
REVISIONS = Resource("/apis/apps/v1", "controllerrevisions")
SERVICES = Resource("/api/v1", "services")
PODS = Resource("/api/v1", "pods")
EVENTS = Resource("/api/v1", "events", labelled=False)


async def connect() -> client.ApiClient:
    """A client of the cluster the process runs in, else of the current kubeconfig context.

    Raises:
        SettingsError: when neither is there.
    """
    configuration = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        try:
            await config.load_kube_config(_kubeconfig(), client_configuration=configuration)
        except (config.ConfigException, OSError) as error:
            raise SettingsError(
                f"no cluster: not in a pod, and the kubeconfig cannot be used ({error}); "
                "set KUBECONFIG"
            ) from error
    return client.ApiClient(configuration)


def _kubeconfig() -> str:
    """The kubeconfig that counts now: the client looks at the variable when it is imported."""
    return os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())


class Cluster:
    """The requests the operator makes."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api

    async def list(self, resource: Resource, namespace: str | None, **query: str) -> Object:
        """A list object; of all namespaces where `namespace` is None."""
        return await self._request("GET", resource.url(namespace), query)

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """An object, None if it does not exist."""
        try:
            return await self._request("GET", resource.url(namespace, name), {})
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Create an object.

        Raises:
            ApiError: status 409 if the name is taken.
        """
        query = {"fieldManager": names.FIELD_MANAGER}
        url = resource.url(obj["metadata"]["namespace"])
        return await self._request("POST", url, query, obj)

    async def apply(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """Server-side apply with the operator's field manager; never conflicts."""
        meta = obj["metadata"]
        url = resource.url(meta["namespace"], meta["name"], subresource)
        query = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
        return await self._request("PATCH", url, query, obj)

    async def delete(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete an object; one that is gone already is as good."""
        try:
            await self._request("DELETE", resource.url(namespace, name), {})
        except ApiError as error:
            if error.status != 404:
                raise

    async def _request(
        self, method: str, url: str, query: Mapping[str, str], body: Object | None = None
    ) -> Object:
        headers = {"Accept": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/apply-patch+yaml"
        target = f"{self._api.configuration.host}{url}"
        if query:
            target = f"{target}?{urlencode(query)}"
        await self._api.update_params_for_auth(headers, {}, ["BearerToken"], url, method, body)
        answer = await self._api.rest_client.request(
            method, target, headers=headers, body=body, _request_timeout=REQUEST_TIMEOUT_S
        )
        data = await answer.read()
        if answer.status >= 400:
            raise _error(answer.status, data)
        parsed: Object = json.loads(data)
        return parsed


def _error(status: int, data: bytes) -> ApiError:
    try:
        said = json.loads(data)
    except ValueError:
        said = {}
    message = said.get("message") or data[:256].decode(errors="replace")
    return ApiError(status, said.get("reason") or f"HTTP{status}", message)
