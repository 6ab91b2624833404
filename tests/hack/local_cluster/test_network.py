from ipaddress import IPv4Network
from pathlib import Path

import pytest
from local_cluster import network
from local_cluster.errors import NoFreeNetwork
from local_cluster.layout import Layout
from local_cluster.network import Network


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.of(tmp_path)


def every_block() -> list[IPv4Network]:
    numbers = range(network.FIRST_BLOCK, network.FIRST_BLOCK + network.BLOCKS)
    return [IPv4Network(f"10.{number}.0.0/16") for number in numbers]


def test_cable_pods_and_services_share_no_address() -> None:
    chosen = Network(IPv4Network("10.200.0.0/16"))
    cable, pods, services = (
        IPv4Network(text) for text in (f"{chosen.block[0]}/30", chosen.pods, chosen.services)
    )
    assert not cable.overlaps(pods)
    assert not pods.overlaps(services)
    assert all(part.subnet_of(chosen.block) for part in (cable, pods, services))
    assert {chosen.host, chosen.node} <= {str(address) for address in cable.hosts()}
    assert IPv4Network(chosen.dns_service).subnet_of(services)


def test_a_block_that_a_route_covers_is_passed_over(layout: Layout) -> None:
    first = network.choose(layout, []).block
    second = network.choose(layout, [IPv4Network(f"{first[7]}/32")]).block
    assert second != first


def test_the_last_free_block_is_found(layout: Layout) -> None:
    *used, last = every_block()
    assert network.choose(layout, used).block == last


def test_no_free_block_says_where_to_look(layout: Layout) -> None:
    with pytest.raises(NoFreeNetwork, match="ip route"):
        network.choose(layout, [IPv4Network("10.0.0.0/8")])


def test_a_cluster_keeps_its_block(layout: Layout) -> None:
    kept = Network(IPv4Network("10.99.0.0/16"))
    network.remember(layout, kept)
    assert network.choose(layout, every_block()) == kept


def test_a_kept_block_that_was_taken_is_refused(layout: Layout) -> None:
    network.remember(layout, Network(IPv4Network("10.99.0.0/16")))
    with pytest.raises(NoFreeNetwork, match=r"10\.99\.0\.0/16.*--delete"):
        network.choose(layout, [IPv4Network("10.99.3.0/24")])


def test_the_machines_own_addresses_count_as_used() -> None:
    assert any(block.is_loopback for block in network.used_blocks("none"))
