"""The command line of each of the cluster's programs.

Pure: enters the folder of programs and the addresses, leaves words. Every cluster has a network
namespace to itself, so ports are the usual ones and never collide.
"""

from dataclasses import dataclass
from pathlib import Path

from local_cluster.layout import KUBELET_ROOT, NODE_NAME, inside
from local_cluster.network import API_SERVER_PORT, Network

ETCD_CLIENT = "http://127.0.0.1:2379"
ETCD_PEER = "http://127.0.0.1:2380"


@dataclass(frozen=True, slots=True)
class Components:
    """Renders the programs' command lines."""

    bin: Path
    network: Network

    def containerd(self) -> list[str]:
        """The container runtime, of the distribution's package."""
        return ["containerd", "--config", inside("config", "containerd.toml")]

    def etcd(self) -> list[str]:
        """The store. A crash of the machine, not of the process, may lose its last writes."""
        return [
            self._program("etcd"),
            f"--data-dir={inside('etcd')}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={ETCD_CLIENT}",
            f"--advertise-client-urls={ETCD_CLIENT}",
            f"--listen-peer-urls={ETCD_PEER}",
            f"--initial-advertise-peer-urls={ETCD_PEER}",
            f"--initial-cluster=default={ETCD_PEER}",
        ]

    def api_server(self) -> list[str]:
        """The API server, with the aggregator on the way to pods' own addresses."""
        return [
            self._program("kube-apiserver"),
            f"--etcd-servers={ETCD_CLIENT}",
            "--bind-address=0.0.0.0",
            f"--secure-port={API_SERVER_PORT}",
            f"--advertise-address={self.network.node}",
            f"--service-cluster-ip-range={self.network.services}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction,ExtendedResourceToleration",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            *self._api_server_keys(),
            *_front_proxy(),
        ]

    def controller_manager(self) -> list[str]:
        """The controllers; the autoscaler looks and calms down faster than by default."""
        config = inside("config", "controller-manager.kubeconfig")
        return [
            self._program("kube-controller-manager"),
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--root-ca-file={_pki('ca.crt')}",
            f"--service-account-private-key-file={_pki('service-accounts.key')}",
            f"--cluster-signing-cert-file={_pki('ca.crt')}",
            f"--cluster-signing-key-file={_pki('ca.key')}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--horizontal-pod-autoscaler-sync-period=5s",
            "--horizontal-pod-autoscaler-downscale-stabilization=10s",
        ]

    def scheduler(self) -> list[str]:
        """The scheduler."""
        config = inside("config", "scheduler.kubeconfig")
        return [
            self._program("kube-scheduler"),
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ]

    def kubelet(self) -> list[str]:
        """The node's agent."""
        return [
            self._program("kubelet"),
            f"--kubeconfig={inside('config', 'kubelet.kubeconfig')}",
            f"--config={inside('config', 'kubelet.yaml')}",
            f"--root-dir={KUBELET_ROOT}",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={self.network.node}",
        ]

    def proxy(self) -> list[str]:
        """The Services' packet rules; connection tracking's limits are the machine's, not ours."""
        return [
            self._program("kube-proxy"),
            f"--kubeconfig={inside('config', 'proxy.kubeconfig')}",
            f"--hostname-override={NODE_NAME}",
            "--proxy-mode=iptables",
            f"--cluster-cidr={self.network.pods}",
            "--conntrack-max-per-core=0",
            "--conntrack-min=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ]

    def _api_server_keys(self) -> list[str]:
        return [
            f"--tls-cert-file={_pki('apiserver.crt')}",
            f"--tls-private-key-file={_pki('apiserver.key')}",
            f"--client-ca-file={_pki('ca.crt')}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={_pki('service-accounts.pub')}",
            f"--service-account-signing-key-file={_pki('service-accounts.key')}",
            f"--kubelet-certificate-authority={_pki('ca.crt')}",
            f"--kubelet-client-certificate={_pki('admin.crt')}",
            f"--kubelet-client-key={_pki('admin.key')}",
        ]

    def _program(self, name: str) -> str:
        return str(self.bin / name)


def _front_proxy() -> list[str]:
    return [
        "--enable-aggregator-routing=true",
        f"--requestheader-client-ca-file={_pki('front-proxy-ca.crt')}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={_pki('front-proxy.crt')}",
        f"--proxy-client-key-file={_pki('front-proxy.key')}",
    ]


def _pki(file: str) -> str:
    return inside("pki", file)
