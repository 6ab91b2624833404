"""kubectl and helm for one cluster: what the demo says to it, and what comes back."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local_cluster.errors import CommandFailed
from local_cluster.shell import run

FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")


@dataclass(frozen=True, slots=True)
class Kube:
    """One cluster, as the user who runs the demo."""

    kubectl_program: str
    helm_program: str
    kubectl_options: Sequence[str]
    helm_options: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def kubectl(self, *words: str, input_text: str | None = None, timeout_s: float = 60) -> str:
        """Return what kubectl prints; raise `CommandFailed` with what it said otherwise."""
        command = [self.kubectl_program, *self.kubectl_options, *words]
        return run(command, input_text=input_text, env=self.env, timeout_s=timeout_s)

    def helm(self, *words: str, timeout_s: float = 300) -> str:
        """Return what helm prints; raise `CommandFailed` with what it said otherwise."""
        return run(
            [self.helm_program, *self.helm_options, *words], env=self.env, timeout_s=timeout_s
        )

    def find(self, *words: str) -> dict[str, Any] | None:
        """Return one object, or None where there is none."""
        found = self.kubectl("get", *words, "--ignore-not-found", "--output=json")
        return dict(json.loads(found)) if found.strip() else None

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects server-side, so that a second time changes nothing."""
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        words = ["apply", "--server-side", "--force-conflicts", "--filename=-"]
        self.kubectl(*words, input_text=manifest)

    def said(self, *words: str) -> str:
        """Return what kubectl prints, or why it printed nothing: for reports on failures."""
        try:
            return self.kubectl(*words)
        except CommandFailed as error:
            return f"{error}\n"

    def feed(self, source: Sequence[str], *words: str) -> None:
        """Pipe a program's output into kubectl, e.g. an archive into a pod.

        Raises:
            CommandFailed: either of the two ended with an error.
        """
        with subprocess.Popen(source, stdout=subprocess.PIPE) as producer:
            command = [self.kubectl_program, *self.kubectl_options, *words]
            done = subprocess.run(
                command,
                stdin=producer.stdout,
                capture_output=True,
                text=True,
                env=self.env,
                check=False,
            )
        if producer.returncode or done.returncode:
            raise CommandFailed(f"`{source[0]} | kubectl {words[0]}` failed: {done.stderr.strip()}")

    @contextmanager
    def forwarded(self, namespace: str, target: str, port: int) -> Iterator[int]:
        """Give the local port that reaches a pod's or Service's port while the body runs."""
        words = ["port-forward", f"--namespace={namespace}", target, f":{port}"]
        with subprocess.Popen(
            [self.kubectl_program, *self.kubectl_options, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.env,
        ) as process:
            try:
                yield _forwarded_port(process)
            finally:
                process.terminate()


def _forwarded_port(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    said = process.stdout.readline()
    if match := FORWARDING.match(said):
        return int(match[1])
    raise CommandFailed(f"kubectl port-forward: {said.strip()}")


def local_kube(programs: Path, kubeconfig: Path, env: Mapping[str, str]) -> Kube:
    """Return access to the cluster that this checkout runs."""
    option = [f"--kubeconfig={kubeconfig}"]
    return Kube(str(programs / "kubectl"), str(programs / "helm"), option, option, env)


def context_kube(context: str) -> Kube:
    """Return access to a cluster of the user's own kubeconfig, by their own programs."""
    return Kube("kubectl", "helm", [f"--context={context}"], [f"--kube-context={context}"])
