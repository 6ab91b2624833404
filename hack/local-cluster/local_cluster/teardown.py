"""Brings a cluster to nothing, in the order that lets each part end by itself.

The same function clears what an unclean death left: every part of it is a no-op where there is
nothing. It finds things by the cluster's own mark, control group and cable, so that it never
touches another cluster, even when the state folder has been deleted.
"""

import os
import signal
from contextlib import suppress

from local_cluster import cgroups, network
from local_cluster.errors import CommandFailed, NotReady
from local_cluster.image_store import ImageStore
from local_cluster.layout import Layout
from local_cluster.namespaces import HOLDER, enter
from local_cluster.processes import Daemons, end, wait_gone

NODE_AGENTS = ("kubelet", "kube-proxy", "kube-scheduler", "kube-controller-manager")


def tear_down(layout: Layout) -> None:
    """Stops everything of the cluster; raises `NotReady` if something would not end."""
    daemons = Daemons(layout)
    daemons.stop(NODE_AGENTS)
    cgroups.kill(layout.cgroup)
    _remove_containers(daemons)
    # The API server before its store: the other way round it waits for the store for a minute.
    daemons.stop(["kube-apiserver"], patience_s=15)
    daemons.stop(["etcd", "containerd"])
    _end_rest(layout, daemons)
    cgroups.remove(layout.cgroup)
    network.disconnect(layout)
    daemons.forget()


def leftovers(layout: Layout) -> list[str]:
    """What of the cluster is still there, each in words: nothing after a clean stop."""
    daemons = Daemons(layout)
    found = [f"process {pid}" for pid in daemons.marked()]
    found += [f"process {pid} of a pod" for pid in cgroups.processes(layout.cgroup)]
    found += [f"control group {top}" for top in cgroups.tops(layout.cgroup)]
    if layout.host_link in network.links():
        found.append(f"network interface {layout.host_link}")
    return found


def _remove_containers(daemons: Daemons) -> None:
    holder = daemons.pid(HOLDER)
    if holder is None or daemons.pid("containerd") is None:
        return
    # Without them the next start merely has more to clear away.
    with suppress(CommandFailed):
        ImageStore(enter(holder)).remove_containers()


def _end_rest(layout: Layout, daemons: Daemons) -> None:
    """Shims, the holder, and whatever an interrupted start left."""
    rest = [pid for pid in daemons.marked() if pid != os.getpid()]
    end(rest, signal.SIGKILL)
    cgroups.kill(layout.cgroup)
    if not wait_gone(rest, 20):
        raise NotReady(f"processes that do not end: {daemons.marked()}")
