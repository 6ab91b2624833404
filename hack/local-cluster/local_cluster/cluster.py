"""One cluster: started, asked, fed with images and stopped. The way in for the demo and the tests.

Enters: a state folder. Leaves: a kubeconfig, a folder of programs for PATH, and a Kubernetes that
runs until `down`. Images and objects stay in the state folder over `down` and `up`.
"""

import os
import shutil
from pathlib import Path

from local_cluster import binaries, disk, network, packages, teardown
from local_cluster.errors import NotRunning
from local_cluster.image_store import ImageStore
from local_cluster.kubectl import Kubectl, without_proxies
from local_cluster.layout import NODE_NAME, Layout
from local_cluster.locks import locked
from local_cluster.namespaces import HOLDER, enter
from local_cluster.network import Network
from local_cluster.processes import Daemons
from local_cluster.progress import Step, Steps
from local_cluster.shell import system_path
from local_cluster.start import Start

STATE_GIB = 1.0  # the store, the logs and the images of every cluster
DAEMONS = (HOLDER, "etcd", "containerd", "kube-apiserver", *teardown.NODE_AGENTS)


class Cluster:
    """A cluster in one state folder."""

    def __init__(self, state: Path) -> None:
        self._layout = Layout.of(state)

    @property
    def state(self) -> Path:
        """The folder that holds all of it."""
        return self._layout.state

    @property
    def logs(self) -> Path:
        """One log for each daemon."""
        return self._layout.logs

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; written by `up`."""
        return self._layout.kubeconfig

    @property
    def bin(self) -> Path:
        """The folder with kubectl and helm."""
        return binaries.folder()

    @property
    def host_address(self) -> str:
        """The machine's address as pods see it."""
        return self._network().host

    @property
    def addresses(self) -> str:
        """The block that holds every address of the cluster."""
        return str(self._network().block)

    @property
    def kubectl(self) -> Kubectl:
        """kubectl for this cluster: `cluster.kubectl("get", "pods")` returns what it prints."""
        return Kubectl(self.bin / "kubectl", self.kubeconfig)

    def env(self) -> dict[str, str]:
        """The environment for programs that use the cluster."""
        path = f"{self.bin}:{system_path()}"
        kubeconfig = str(self.kubeconfig)
        return {**without_proxies(dict(os.environ)), "KUBECONFIG": kubeconfig, "PATH": path}

    def is_up(self) -> bool:
        """Whether every daemon runs, the API server answers and the node is Ready."""
        daemons = Daemons(self._layout)
        if any(daemons.pid(name) is None for name in DAEMONS):
            return False
        return self.kubectl.api_is_ready() and self.kubectl.node_is_ready(NODE_NAME)

    def up(self, steps: Steps) -> None:
        """Starts the cluster, or does next to nothing where it runs as it should."""
        packages.require_root()
        packages.ensure(steps)
        programs = binaries.ensure(steps)
        with locked(self._layout.lock):
            self._layout.claim()
            if self._runs_current(programs):
                start = Start(self._layout, self._network(), programs)
                steps.info("The cluster is up already")
            else:
                start = self._start_afresh(programs, steps)
            start.add_dns(self._holder(), steps)

    def down(self) -> None:
        """Stops everything; quiet where nothing runs."""
        packages.require_root()
        if not self.state.exists() and not self.leftovers():
            return
        with locked(self._layout.lock):
            teardown.tear_down(self._layout)

    def destroy(self) -> None:
        """Stops everything and removes the state folder."""
        self.down()
        if self.state.exists():
            self._layout.require_claimed()
            shutil.rmtree(self.state)
        self._layout.lock.unlink(missing_ok=True)

    def load_image(self, name: str, step: Step | None = None) -> bool:
        """Brings an image from buildah's storage to the node; False where it is there already.

        `step` shows how far it is.
        """
        store, log = ImageStore(enter(self._holder())), self.logs / "image-import.log"
        return store.load(name, log, step.advance_to if step else None)

    def leftovers(self) -> list[str]:
        """What of the cluster is on the machine, in words: empty after `down`."""
        return teardown.leftovers(self._layout)

    def _start_afresh(self, programs: Path, steps: Steps) -> Start:
        steps.info(disk.require(self.state, STATE_GIB, "A cluster without its users' images"))
        if self.leftovers():
            with steps.step("Clear away what an earlier run left"):
                teardown.tear_down(self._layout)
        block = network.choose(self._layout, network.used_blocks(self._layout.host_link))
        start = Start(self._layout, block, programs)
        try:
            start.run(steps)
        except BaseException:
            teardown.tear_down(self._layout)
            raise
        return start

    def _runs_current(self, programs: Path) -> bool:
        if not self._layout.fingerprint.exists() or not self.is_up():
            return False
        wanted = Start(self._layout, self._network(), programs).fingerprint()
        return self._layout.fingerprint.read_text() == wanted

    def _network(self) -> Network:
        kept = network.kept(self._layout)
        if kept is None:
            raise NotRunning(f"no cluster was started in {self.state}: run `make cluster-up`")
        return kept

    def _holder(self) -> int:
        holder = Daemons(self._layout).pid(HOLDER)
        if holder is None:
            raise NotRunning(f"the cluster in {self.state} is down: run `make cluster-up`")
        return holder


def report(cluster: Cluster, steps: Steps) -> None:
    """The lines that a user copies into a shell."""
    steps.raw(f"export KUBECONFIG={cluster.kubeconfig}")
    steps.raw(f"export PATH={cluster.bin}:$PATH")
    if without_proxies(dict(os.environ)) != dict(os.environ):
        steps.raw(f"export NO_PROXY={cluster.addresses},$NO_PROXY")
