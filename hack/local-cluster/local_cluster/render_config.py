"""Renders the configuration files of containerd, the pod network and the kubelet.

Pure: enters the cluster's addresses and names, leaves text. Paths are those seen inside.
"""

import json
from typing import Any

import yaml

from local_cluster.layout import CONTAINERD_SOCKET, inside
from local_cluster.network import Network

CNI_PLUGINS = "/usr/lib/cni"


def containerd(pause_image: str) -> str:
    """containerd's: images and snapshots stay in the state folder, all else is private to the run.

    `restrict_oom_score_adj`: without the right to lower a score (CAP_SYS_RESOURCE) runc would
    refuse to start a container at all.
    """
    return f"""version = 2
root = "{inside("containerd")}"
state = "/run/containerd"

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause_image}"
  restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{CNI_PLUGINS}"
  conf_dir = "{inside("config", "cni")}"
"""


def pod_network(network: Network) -> str:
    """Each pod on a cable of its own, routed by the node.

    Without a bridge every packet passes the node's packet filter, so that Services work between
    pods of one node whether or not the kernel has the bridge filter. Address leases lie on the
    private `/run` and end with it.
    """
    ipam = {
        "type": "host-local",
        "dataDir": "/run/pod-addresses",
        "ranges": [[{"subnet": network.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugins: list[dict[str, Any]] = [
        {"type": "ptp", "ipMasq": False, "ipam": ipam},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "kvasir", "plugins": plugins}, indent=2)


def kubelet(network: Network, cgroup: str) -> str:
    """The kubelet's: it runs beside other kubelets, on any memory, on both kinds of cgroups."""
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": inside("pki", "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": inside("pki", "kubelet.crt"),
        "tlsPrivateKeyFile": inside("pki", "kubelet.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "clusterDNS": [network.dns_service],
        "clusterDomain": "cluster.local",
        "resolvConf": inside("config", "resolv.conf"),
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        "containerLogMaxSize": "10Mi",
        "containerLogMaxFiles": 2,
    }
    return yaml.safe_dump(config, sort_keys=False)
