"""The cluster's addresses, and the cable that joins its network namespace to the machine.

Enters: the blocks that the machine's routes and addresses use. Leaves: one /16 for the cluster,
and two routes on the machine, to the pods and to the Services. Nothing else on the machine
changes: no forwarding, no default route, no packet filter; kube-proxy's rules live inside.
"""

import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass

from local_cluster.errors import CommandFailed, NoFreeNetwork
from local_cluster.layout import Layout
from local_cluster.shell import run

FIRST_BLOCK, BLOCKS = 170, 64  # 10.170.0.0/16 to 10.233.0.0/16
API_SERVER_PORT = 6443
# Above the pods that one kubelet runs (110), with room for addresses not yet given back.
POD_PREFIX_BITS = 22


@dataclass(frozen=True, slots=True)
class Network:
    """A cluster's block 10.N.0.0/16: the cable first, then the pods, then the Services."""

    block: ipaddress.IPv4Network

    @property
    def host(self) -> str:
        """The machine, as pods see it."""
        return str(self.block[1])

    @property
    def node(self) -> str:
        """The node, where the API server listens."""
        return str(self.block[2])

    @property
    def pods(self) -> str:
        """The pods' addresses."""
        return f"{self.block[64 * 256]}/{POD_PREFIX_BITS}"

    @property
    def services(self) -> str:
        """The Services' addresses."""
        return f"{self.block[128 * 256]}/20"

    @property
    def api_service(self) -> str:
        """The Service `kubernetes`."""
        return str(self.block[128 * 256 + 1])

    @property
    def dns_service(self) -> str:
        """The Service `kube-dns`."""
        return str(self.block[128 * 256 + 10])

    @property
    def api_server(self) -> str:
        """The API server's address, the same inside and outside."""
        return f"https://{self.node}:{API_SERVER_PORT}"


def choose(layout: Layout, used: Iterable[ipaddress.IPv4Network]) -> Network:
    """The cluster's own block of an earlier start, or the first free one from a place of its own.

    Raises `NoFreeNetwork` where the earlier block is taken: the Services' addresses kept in etcd
    are of that block.
    """
    taken = list(used)
    earlier = kept(layout)
    if earlier is not None:
        if any(earlier.block.overlaps(other) for other in taken):
            raise NoFreeNetwork(
                f"the machine now has a route into {earlier.block}, this cluster's addresses: "
                "remove that route, or start afresh after `down --delete`"
            )
        return earlier
    first = int(layout.id, 16) % BLOCKS
    for offset in range(BLOCKS):
        number = FIRST_BLOCK + (first + offset) % BLOCKS
        block = ipaddress.IPv4Network(f"10.{number}.0.0/16")
        if not any(block.overlaps(other) for other in taken):
            return Network(block)
    raise NoFreeNetwork(
        f"no block from 10.{FIRST_BLOCK}.0.0/16 on is free: see `ip route`, remove what is stale"
    )


def kept(layout: Layout) -> Network | None:
    """The block of an earlier start, or None."""
    if not layout.network.exists():
        return None
    return Network(ipaddress.IPv4Network(json.loads(layout.network.read_text())["block"]))


def remember(layout: Layout, network: Network) -> None:
    """Keeps the block for the next start."""
    layout.network.write_text(json.dumps({"block": str(network.block)}) + "\n")


def used_blocks(own_link: str) -> list[ipaddress.IPv4Network]:
    """What the machine's routes and addresses cover, without its default and our own cable."""
    routes = json.loads(run(["ip", "-j", "-4", "route", "show", "table", "all"]) or "[]")
    return [
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in routes
        if route["dst"] not in ("default", "0.0.0.0/0") and route.get("dev") != own_link
    ]


def connect(layout: Layout, network: Network, holder_pid: int) -> None:
    """Lays the cable between the machine and the namespace of process `holder_pid`."""
    link, enter = layout.host_link, ["nsenter", f"--net=/proc/{holder_pid}/ns/net"]
    peer = ["peer", "name", "eth0", "netns", str(holder_pid)]
    run(["ip", "link", "add", link, "type", "veth", *peer])
    run(["ip", "addr", "add", f"{network.host}/30", "dev", link])
    run(["ip", "link", "set", link, "up"])
    run([*enter, "ip", "addr", "add", f"{network.node}/30", "dev", "eth0"])
    run([*enter, "ip", "link", "set", "eth0", "up"])
    # A Service without rules yet must end here, not travel back to the machine and round again.
    run([*enter, "ip", "route", "add", network.services, "dev", "eth0", "src", network.node])
    for block in (network.pods, network.services):
        run(["ip", "route", "add", block, "via", network.node, "dev", link])


def disconnect(layout: Layout) -> None:
    """Removes the cable where one is left; its routes go with it."""
    if layout.host_link not in links():
        return
    try:
        run(["ip", "link", "del", layout.host_link])
    except CommandFailed:  # the namespace's end may take it down at the same moment
        if layout.host_link in links():
            raise


def links() -> list[str]:
    """The names of the machine's network interfaces."""
    return [link["ifname"] for link in json.loads(run(["ip", "-j", "link"]))]
