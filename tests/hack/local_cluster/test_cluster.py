import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import local_cluster
import pytest
from local_cluster import Cluster
from local_cluster.errors import CommandFailed, NotRunning
from local_cluster.image_store import ImageStore
from local_cluster.layout import Layout
from local_cluster.namespaces import HOLDER, enter
from local_cluster.processes import Daemons, end, wait_gone
from local_cluster.progress import Steps
from local_cluster.shell import run, wait_until

from support import probe_pod
from support.machine import Machine, processes_naming

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="a cluster needs root"),
]
PACKAGE_FOLDER = Path(local_cluster.__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Pair:
    """Two clusters that run side by side, the probe in each."""

    one: Cluster
    other: Cluster


@pytest.fixture(scope="module")
def probe_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield probe_pod.build_image(tmp_path_factory.mktemp("probe"))
    run(["buildah", "rmi", probe_pod.IMAGE])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, probe_image: str) -> Iterator[Pair]:
    # The first folder's path is longer than a socket's may be.
    long_name = "-".join(["a-folder-with-a-long-name"] * 6)
    folder = tmp_path_factory.mktemp("clusters")
    clusters = Pair(Cluster(folder / long_name / "state"), Cluster(folder / "other"))
    try:
        for cluster in (clusters.one, clusters.other):
            cluster.up(Steps())
            probe_pod.start(cluster)
        yield clusters
    finally:
        clusters.one.destroy()
        clusters.other.destroy()


def ask_from_host(cluster: Cluster) -> str:
    url = f"http://{probe_pod.service_address(cluster)}/"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as answer:
        return str(answer.read().decode())


def serves(cluster: Cluster) -> bool:
    """Whether the Service answers within the time that a Ready pod takes to become an endpoint."""

    def answers() -> bool:
        try:
            inside = probe_pod.ask_from_pod(cluster, f"http://{probe_pod.SERVICE}/")
            return inside == ask_from_host(cluster) == probe_pod.NAME
        except (CommandFailed, OSError):
            return False

    wait_until("an answer of the Service", answers, timeout_s=20, every_s=0.5)
    return True


def test_services_answer_in_both_clusters_from_pods_and_from_the_machine(pair: Pair) -> None:
    assert serves(pair.one)
    assert serves(pair.other)


def test_the_two_clusters_share_no_address(pair: Pair) -> None:
    assert pair.one.host_address != pair.other.host_address
    assert probe_pod.service_address(pair.one) != probe_pod.service_address(pair.other)


def test_a_second_up_leaves_every_process_as_it_is(pair: Pair) -> None:
    daemons = Daemons(Layout.of(pair.one.state))
    before = sorted(daemons.marked())
    pair.one.up(Steps())
    assert sorted(daemons.marked()) == before


def test_a_name_outside_the_cluster_does_not_exist(pair: Pair) -> None:
    with pytest.raises(local_cluster.ClusterError, match="no such host"):
        probe_pod.ask_from_pod(pair.one, "http://example.com/")


def test_an_image_that_is_there_is_not_loaded_again(pair: Pair) -> None:
    assert pair.one.load_image(probe_pod.IMAGE) is False


def test_another_name_for_an_image_that_is_there_costs_no_copy(pair: Pair) -> None:
    other_name = f"{probe_pod.IMAGE}-again"
    run(["buildah", "tag", probe_pod.IMAGE, other_name])
    told: list[float] = []
    layout = Layout.of(pair.one.state)
    holder = Daemons(layout).pid(HOLDER)
    assert holder is not None
    store = ImageStore(enter(holder))
    try:
        log = layout.logs / "again.log"
        assert store.load(other_name, log, lambda done, total: told.append(done))
    finally:
        run(["buildah", "rmi", other_name])
    assert store.has(other_name)
    assert told == []


def test_the_node_keeps_no_packed_layer_beside_the_unpacked_one(pair: Pair) -> None:
    layers = list((pair.one.state / "containerd").glob("**/blobs/sha256/*"))
    assert layers  # manifests and configurations
    assert max(file.stat().st_size for file in layers) < 100_000


def test_killed_daemons_are_cleared_away_and_the_other_cluster_keeps_running(pair: Pair) -> None:
    daemons = Daemons(Layout.of(pair.one.state))
    other_before = sorted(Daemons(Layout.of(pair.other.state)).marked())
    agents = [daemons.pid(name) for name in ("kubelet", "containerd", "etcd", "kube-apiserver")]
    killed = [pid for pid in agents if pid is not None]
    end(killed, signal.SIGKILL)
    assert wait_gone(killed, 10)
    assert not pair.one.is_up()
    assert pair.one.leftovers()  # the shims, the pods and the rest of the daemons
    pair.one.up(Steps())
    probe_pod.wait_ready(pair.one)
    assert serves(pair.one)
    assert serves(pair.other)
    assert sorted(Daemons(Layout.of(pair.other.state)).marked()) == other_before


def test_everything_killed_at_once_is_no_hindrance(pair: Pair) -> None:
    layout = Layout.of(pair.one.state)
    marked = Daemons(layout).marked()
    end(marked, signal.SIGKILL)
    assert wait_gone(marked, 10)
    pair.one.up(Steps())
    probe_pod.wait_ready(pair.one)
    assert serves(pair.one)


def test_an_interrupted_start_is_no_hindrance(pair: Pair) -> None:
    pair.one.down()
    command = [sys.executable, "-m", "local_cluster", "up", "--state", str(pair.one.state)]
    env = {**os.environ, "PYTHONPATH": str(PACKAGE_FOLDER)}
    daemons = Daemons(Layout.of(pair.one.state))
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as start:
        wait_until("the API server", lambda: daemons.pid("kube-apiserver") is not None)
        start.kill()
    pair.one.up(Steps())
    probe_pod.wait_ready(pair.one)
    assert serves(pair.one)


def test_images_and_objects_outlive_a_stop(pair: Pair) -> None:
    pair.one.down()
    pair.one.up(Steps())
    holder = Daemons(Layout.of(pair.one.state)).pid(HOLDER)
    assert holder is not None
    assert ImageStore(enter(holder)).has(probe_pod.IMAGE)
    probe_pod.wait_ready(pair.one)
    assert serves(pair.one)


def test_a_stop_leaves_nothing_and_the_other_cluster_running(pair: Pair) -> None:
    pair.one.down()
    assert pair.one.leftovers() == []
    assert serves(pair.other)
    pair.one.down()  # and once more is no error


def test_a_start_and_a_stop_leave_the_machine_as_it_was(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "state")
    names = (str(tmp_path), Layout.of(cluster.state).id)
    before = Machine.seen_now(*names)
    try:
        cluster.up(Steps())
        during = Machine.seen_now(*names)
    finally:
        cluster.destroy()
    after = Machine.seen_now(*names)
    assert len(during.named) > 4  # the cable, its routes, the control groups
    assert during.packet_rules == before.packet_rules
    assert after == before
    assert processes_naming(str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_is_down_says_how_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match="make cluster-up"):
        Cluster(tmp_path / "state").load_image("localhost/any:1")
