"""The cluster's own network and mounts, held by one small process.

Two clusters on one machine share no port, no socket, no packet filter and no mount, and a cluster
leaves none behind however it died: the kernel drops the namespaces with their last process. The
machine's files are all seen inside; `/run` is private, with the state folder under it, the
kubelet's folder lies in the state folder, and the pod network's notes end with the cluster.
"""

from pathlib import Path

from local_cluster.errors import ClusterError
from local_cluster.layout import CNI_CACHE, INSIDE, KUBELET_ROOT, Layout
from local_cluster.processes import Daemons
from local_cluster.shell import system_env, wait_until

HOLDER = "holder"

HOLD = f"""
cd /
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p {INSIDE} /run/lock /run/netns
mount --bind "$1" {INSIDE}
mount --bind {INSIDE}/kubelet {KUBELET_ROOT}
mount -t tmpfs tmpfs {CNI_CACHE}
mount --make-rshared /
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
echo ready
exec sleep infinity
"""


def hold(layout: Layout, daemons: Daemons) -> int:
    """Starts the process that holds the namespaces; returns its number once all is in place."""
    if Path("/run") in layout.state.parents:
        raise ClusterError(f"the state folder must not lie under /run: {layout.state}")
    for mount_point in (KUBELET_ROOT, CNI_CACHE):
        mount_point.mkdir(parents=True, exist_ok=True)
    unshare = ["unshare", "--net", "--mount", "--propagation", "slave"]
    command = [*unshare, "sh", "-euc", HOLD, "holder", str(layout.state)]
    pid = daemons.start(HOLDER, command, system_env())
    log = layout.logs / f"{HOLDER}.log"
    wait_until(
        "the cluster's namespaces",
        lambda: "ready" in log.read_text().split() or daemons.pid(HOLDER) is None,
        timeout_s=20,
        log=log,
    )
    if daemons.pid(HOLDER) is None:
        raise ClusterError("the cluster's namespaces could not be made", log=log)
    return pid


def enter(holder_pid: int) -> list[str]:
    """What to put before a command so that it runs inside."""
    return ["nsenter", f"--net=/proc/{holder_pid}/ns/net", f"--mount=/proc/{holder_pid}/ns/mnt"]
