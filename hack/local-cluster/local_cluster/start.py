"""Starts a cluster's parts in order, each one waited for, on a machine cleared of leftovers.

Enters: the layout of a state folder and the folder of programs. Leaves: running daemons, a Ready
node, DNS. The fingerprint says what was started, so that a later `up` sees when that changed.
"""

import hashlib
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from local_cluster import addons, cgroups, kubeconfig, namespaces, network, pki, render_config
from local_cluster.addons import ProgramImage
from local_cluster.components import Components
from local_cluster.errors import NotReady
from local_cluster.image_store import ImageStore
from local_cluster.kubectl import Kubectl
from local_cluster.layout import CONTAINERD_SOCKET, NODE_NAME, Layout
from local_cluster.network import Network
from local_cluster.processes import Daemons
from local_cluster.progress import Steps
from local_cluster.shell import run, succeeds, system_path, wait_until


@dataclass(frozen=True, slots=True)
class Start:
    """One start of one cluster."""

    layout: Layout
    network: Network
    bin: Path

    def run(self, steps: Steps) -> None:
        """Starts everything; raises `NotReady` with the log to read."""
        logs = self.layout.logs
        with steps.step("Lay out network, certificates and configuration"):
            self._prepare()
        with steps.step("Start the API server", log=logs / "kube-apiserver.log"):
            holder = self._control_plane()
        with steps.step("Start the node", log=logs / "kubelet.log"):
            self._node(holder)
        self.layout.fingerprint.write_text(self.fingerprint())

    def add_dns(self, holder: int, steps: Steps) -> None:
        """Applies the cluster's DNS and waits until it answers."""
        kubectl = self._kubectl()
        log = self.layout.logs / "image-import.log"
        with steps.step("Start the cluster's DNS", log=log):
            image = ProgramImage(self.bin / "coredns").ensure(self._store(holder), log)
            kubectl.apply(addons.dns_manifests(image, self.network.dns_service))
            wait = ["rollout", "status", "deployment/coredns", "--timeout=120s"]
            kubectl("--namespace=kube-system", *wait, timeout_s=130)
            wait_until("an answer from the DNS", self._dns_answers, log=log)

    def _dns_answers(self) -> bool:
        try:
            socket.create_connection((self.network.dns_service, 53), timeout=1).close()
        except OSError:
            return False
        return True

    def fingerprint(self) -> str:
        """Changes with every command line and every configuration file."""
        parts = Components(self.bin, self.network)
        commands = [parts.etcd(), parts.api_server(), parts.controller_manager()]
        commands += [parts.scheduler(), parts.kubelet(), parts.proxy(), parts.containerd()]
        text = namespaces.HOLD + repr(commands) + "".join(self._configs().values())
        return hashlib.sha256(text.encode()).hexdigest()

    def _prepare(self) -> None:
        network.remember(self.layout, self.network)
        pki.ensure(self.layout.pki, self.network.node, self.network.api_service)
        kubeconfig.write_all(self.layout, self.network.api_server)
        for name, text in self._configs().items():
            path = self.layout.config / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def _configs(self) -> dict[str, str]:
        pause = ProgramImage(self.bin / "pause").name
        return {
            "containerd.toml": render_config.containerd(pause),
            "kubelet.yaml": render_config.kubelet(self.network, self.layout.cgroup),
            "cni/10-kvasir.conflist": render_config.pod_network(self.network),
            "resolv.conf": "",
        }

    def _control_plane(self) -> int:
        daemons, parts = Daemons(self.layout), Components(self.bin, self.network)
        holder = namespaces.hold(self.layout, daemons)
        network.connect(self.layout, self.network, holder)
        self._start(holder, "etcd", parts.etcd())
        self._start(holder, "containerd", parts.containerd())
        self._start(holder, "kube-apiserver", parts.api_server())
        kubectl = self._kubectl()
        self._wait("kube-apiserver", "the API server", kubectl.api_is_ready)
        self._start(holder, "kube-controller-manager", parts.controller_manager())
        self._start(holder, "kube-scheduler", parts.scheduler())
        return holder

    def _node(self, holder: int) -> None:
        parts, store = Components(self.bin, self.network), self._store(holder)
        enter = namespaces.enter(holder)
        self._wait(
            "containerd",
            "containerd",
            lambda: succeeds([*enter, "ctr", "-a", str(CONTAINERD_SOCKET), "version"]),
        )
        import_log = self.layout.logs / "image-import.log"
        ProgramImage(self.bin / "pause").ensure(store, import_log)
        cgroups.make(self.layout.cgroup)
        now = datetime.now(UTC).replace(microsecond=0)
        self._start(holder, "kubelet", parts.kubelet())
        self._start(holder, "kube-proxy", parts.proxy())
        kubectl = self._kubectl()
        self._wait("kubelet", "a Ready node", lambda: kubectl.node_is_ready(NODE_NAME, now))
        self._wait("kubelet", "the pods", lambda: kubectl.pods_are_of_this_start(now))
        self._wait("kube-proxy", "the Services' packet rules", lambda: self._has_rules(enter))

    def _has_rules(self, enter: list[str]) -> bool:
        rules = run([*enter, "iptables-save", "-t", "nat"])
        return f"-d {self.network.api_service}/32" in rules

    def _start(self, holder: int, name: str, command: list[str]) -> None:
        env = {"PATH": f"{self.bin}:{system_path()}", "HOME": "/root", "LANG": "C.UTF-8"}
        Daemons(self.layout).start(name, [*namespaces.enter(holder), *command], env)

    def _wait(self, daemon: str, what: str, ready: Callable[[], bool]) -> None:
        log = self.layout.logs / f"{daemon}.log"

        def ready_or_dead() -> bool:
            if Daemons(self.layout).pid(daemon) is None:
                raise NotReady(f"{daemon} has ended by itself", log=log)
            return ready()

        wait_until(what, ready_or_dead, timeout_s=120, log=log)

    def _kubectl(self) -> Kubectl:
        return Kubectl(self.bin / "kubectl", self.layout.kubeconfig)

    def _store(self, holder: int) -> ImageStore:
        return ImageStore(namespaces.enter(holder))
