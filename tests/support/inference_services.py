"""InferenceServices on a real cluster, as a user handles them: with kubectl."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import openai

from kube import Kube
from kvasir_operator import names

Object = dict[str, Any]

CHILDREN = "deployments,replicasets,services,controllerrevisions,pods"
POLL_S = 0.25


def poll(what: str, timeout_s: float, check: Callable[[], Any]) -> Any:
    """The first true value of `check`; a failure that says what was awaited, and seen last."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = check()
        if seen:
            return seen
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(POLL_S)


def condition(service: Object, kind: str) -> Object:
    """A condition of an InferenceService, empty while there is none."""
    entries = service.get("status", {}).get("conditions", [])
    return next((dict(entry) for entry in entries if entry["type"] == kind), {})


def is_ready(service: Object) -> bool:
    """Ready, and said about the generation that is there now."""
    ready = condition(service, "Ready")
    return (
        ready.get("status") == "True"
        and ready["observedGeneration"] == service["metadata"]["generation"]
    )


@dataclass(frozen=True, slots=True)
class InferenceServices:
    """The InferenceServices of one namespace."""

    kube: Kube
    namespace: str

    def manifest(self, name: str, **spec: Any) -> Object:
        """A small one on cpu; keywords replace fields of its spec."""
        return {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "model": {"uri": "pvc://models/tiny-llama"},
                "device": "cpu",
                "engine": {"kvCacheGiB": 0.125},
                "resources": {"cpu": "50m"},
                "lifecycle": {"preStopSeconds": 1, "drainSeconds": 5},
                **spec,
            },
        }

    def apply(self, name: str, **spec: Any) -> str:
        """`kubectl apply`; what it prints, or CommandFailed with its complaint."""
        text = json.dumps(self.manifest(name, **spec))
        return self.kube.kubectl("apply", "--filename=-", input_text=text)

    def patch(self, name: str, **spec: Any) -> int:
        """Change fields of the spec; the new generation."""
        change = json.dumps({"spec": spec})
        self._kubectl("patch", f"kvs/{name}", "--type=merge", f"--patch={change}")
        generation: int = self.get(name)["metadata"]["generation"]
        return generation

    def delete(self, *found: str) -> None:
        """Delete, and don't wait."""
        self._kubectl("delete", "kvs", *found, "--wait=false", "--ignore-not-found")

    def get(self, name: str) -> Object:
        """The object as it is stored."""
        return self.find("kvs", name) or {}

    def find(self, kind: str, name: str) -> Object | None:
        """Any object of the namespace, None if it isn't there."""
        return self.kube.find(kind, name, f"--namespace={self.namespace}")

    def children(self, name: str, kinds: str = CHILDREN) -> list[Object]:
        """What carries the label of the service."""
        selector = f"--selector={names.LABEL_SERVICE}={name}"
        listing: Object = json.loads(self._kubectl("get", kinds, selector, "--output=json"))
        return list(listing["items"])

    def pods(self, name: str) -> list[Object]:
        """Its pods that are not on their way out."""
        pods = self.children(name, "pods")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def events(self, name: str) -> list[Object]:
        """Events about it."""
        selector = f"--field-selector=involvedObject.kind={names.KIND},involvedObject.name={name}"
        listing: Object = json.loads(self._kubectl("get", "events", selector, "--output=json"))
        return list(listing["items"])

    def wait(
        self, name: str, what: str, check: Callable[[Object], Any], timeout_s: float
    ) -> Object:
        """The object once `check` holds; a failure shows the status it got stuck with."""
        seen: Object = {}

        def look() -> bool:
            seen.clear()
            seen.update(self.get(name))
            return bool(seen) and bool(check(seen))

        try:
            poll(what, timeout_s, look)
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {json.dumps(seen.get('status'))}") from None
        return seen

    def wait_ready(self, name: str, timeout_s: float = 120) -> Object:
        """The object once it is Ready in its current generation."""
        return self.wait(name, f"{name} Ready", is_ready, timeout_s)

    def wait_reason(self, name: str, reason: str, timeout_s: float = 90) -> Object:
        """The object once its REASON column says `reason`."""
        return self.wait(
            name, f"{name} says {reason}", lambda s: s.get("status", {}).get("reason") == reason,
            timeout_s,
        )  # fmt: skip

    def address(self, name: str) -> str:
        """The URL of its Service on this machine, which has a route to it."""
        service = self.find("service", name)
        assert service is not None
        return f"http://{service['spec']['clusterIP']}:{names.PORT}"

    def openai(self, name: str) -> openai.OpenAI:
        """A client of it, past any proxy of this machine, that never tries twice.

        Each request gets its own connection: one that is kept stays with its pod for good.
        """
        limits = httpx.Limits(max_keepalive_connections=0)
        http = httpx.Client(trust_env=False, timeout=120, limits=limits)
        return openai.OpenAI(
            base_url=f"{self.address(name)}/v1", api_key="none", http_client=http, max_retries=0
        )

    @contextmanager
    def watched(self, kind: str, name: str) -> Iterator[list[Object]]:
        """Every version of an object that the API server shows while the body runs."""
        words = [f"--namespace={self.namespace}", "--watch", "--output=json"]
        selector = f"--field-selector=metadata.name={name}"
        command = [self.kube.kubectl_program, *self.kube.kubectl_options, "get", kind, selector]
        process = subprocess.Popen(
            [*command, *words], stdout=subprocess.PIPE, text=True, env=dict(self.kube.env)
        )
        versions: list[Object] = []
        reader = threading.Thread(target=_read_objects, args=(process, versions), daemon=True)
        reader.start()
        try:
            yield versions
        finally:
            process.terminate()
            process.wait()
            reader.join()
            if process.stdout is not None:
                process.stdout.close()

    def _kubectl(self, *words: str) -> str:
        return self.kube.kubectl(*words, f"--namespace={self.namespace}")


def _read_objects(process: subprocess.Popen[str], versions: list[Object]) -> None:
    """kubectl prints one indented object after another: each ends with a line that is `}`."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.rstrip() == "}":
            versions.append(json.loads("".join(lines)))
            lines.clear()
