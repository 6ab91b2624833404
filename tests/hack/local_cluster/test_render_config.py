import json
import tomllib
from ipaddress import IPv4Network
from pathlib import Path

import yaml
from local_cluster import addons, render_config
from local_cluster.components import Components
from local_cluster.layout import INSIDE
from local_cluster.network import Network

NETWORK = Network(IPv4Network("10.200.0.0/16"))


def test_containerds_configuration_is_toml_that_names_the_pause_image() -> None:
    config = tomllib.loads(render_config.containerd("localhost/pause:1"))
    cri = config["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == "localhost/pause:1"
    assert cri["restrict_oom_score_adj"] is True
    assert config["root"].startswith(str(INSIDE))


def test_pods_get_addresses_of_the_clusters_own_block() -> None:
    plugin = json.loads(render_config.pod_network(NETWORK))["plugins"][0]
    assert plugin["ipam"]["ranges"] == [[{"subnet": NETWORK.pods}]]
    assert plugin["ipMasq"] is False


def test_the_kubelet_keeps_to_its_own_control_group() -> None:
    config = yaml.safe_load(render_config.kubelet(NETWORK, "kvasir-abc"))
    assert config["cgroupRoot"] == "/kvasir-abc"
    assert config["clusterDNS"] == [NETWORK.dns_service]


def test_sockets_paths_fit_into_a_socket_address() -> None:
    config = yaml.safe_load(render_config.kubelet(NETWORK, "kvasir-abc"))
    assert len(config["containerRuntimeEndpoint"]) < 100


def test_no_program_is_told_a_path_of_the_state_folder() -> None:
    parts = Components(Path("/programs"), NETWORK)
    words = [*parts.etcd(), *parts.api_server(), *parts.kubelet(), *parts.containerd()]
    paths = [word.partition("=")[2] for word in words if "=/" in word]
    allowed = (str(INSIDE), "/var/lib/kubelet")
    assert paths
    assert all(path.startswith(allowed) for path in paths)


def test_the_dns_has_the_address_that_pods_are_told() -> None:
    text = addons.dns_manifests("localhost/coredns:1", NETWORK.dns_service)
    objects = list(yaml.safe_load_all(text))
    service = next(one for one in objects if one["kind"] == "Service")
    deployment = next(one for one in objects if one["kind"] == "Deployment")
    assert service["spec"]["clusterIP"] == NETWORK.dns_service
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "localhost/coredns:1"
    assert "$" not in text.partition("\napiVersion")[2]
