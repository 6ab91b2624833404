"""Asks the cluster's API server through its own kubectl, past any proxy the user may have set."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from local_cluster.errors import CommandFailed
from local_cluster.shell import run

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")


def without_proxies(environment: dict[str, str]) -> dict[str, str]:
    """The environment without what would send requests for the cluster to another machine."""
    return {key: value for key, value in environment.items() if key.lower() not in PROXY_VARIABLES}


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl for one cluster, as its administrator."""

    program: Path
    kubeconfig: Path

    def __call__(self, *words: str, input_text: str | None = None, timeout_s: float = 60) -> str:
        """Its standard output; raises `CommandFailed` with its message."""
        command: list[str | Path] = [self.program, "--kubeconfig", self.kubeconfig, *words]
        env = without_proxies(dict(os.environ))
        return run(command, input_text=input_text, env=env, timeout_s=timeout_s)

    def apply(self, manifests: str) -> None:
        """Applies objects server-side, so that a second time changes nothing."""
        words = ["apply", "--server-side", "--force-conflicts", "-f", "-"]
        self(*words, input_text=manifests)

    def api_is_ready(self) -> bool:
        """Whether the API server says it is ready."""
        return self._answers("ok", "get", "--raw", "/readyz", "--request-timeout=3s")

    def node_is_ready(self, name: str, since: datetime | None = None) -> bool:
        """Whether the node is Ready, and said so after `since`: etcd keeps what it said before."""
        fields = "{.status} {.lastHeartbeatTime}"
        path = f'{{range .status.conditions[?(@.type=="Ready")]}}{fields}{{end}}'
        try:
            status, _, said = self("get", "node", name, "-o", f"jsonpath={path}").partition(" ")
        except CommandFailed:
            return False
        return status == "True" and (since is None or moment(said) >= since)

    def pods_are_of_this_start(self, since: datetime) -> bool:
        """Whether no pod's status is left from before `since`, when its containers ended."""
        pods = json.loads(self("get", "pods", "--all-namespaces", "-o", "json"))["items"]
        return all(moment(started) >= since for pod in pods for started in _started(pod))

    def _answers(self, expected: str, *words: str) -> bool:
        try:
            return self(*words, timeout_s=10).strip() == expected
        except CommandFailed:
            return False


def moment(text: str) -> datetime:
    """A time as the API writes it, to the second."""
    return datetime.fromisoformat(text.strip())


def _started(pod: dict[str, Any]) -> Iterator[str]:
    for container in pod["status"].get("containerStatuses", []):
        if running := container["state"].get("running"):
            yield running["startedAt"]
