"""The cluster's keys and certificates, kept in the state folder, renewed as they near their end.

Two authorities: one for clients and servers, one for the front proxy alone, so that no client
certificate can pose as the API server's aggregator.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local_cluster.layout import NODE_NAME

VALID = datetime.timedelta(days=730)
RENEW_BEFORE = datetime.timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a certificate is for: its file's name, its user and group, the names it answers to."""

    file: str
    user: str
    group: str | None = None
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


def identities(node: str, api_service: str) -> list[Identity]:
    """Everyone the main authority signs for."""
    api_names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    return [
        Identity(
            "apiserver",
            "kube-apiserver",
            names=("localhost", *api_names, "kubernetes.default.svc.cluster.local"),
            addresses=("127.0.0.1", node, api_service),
        ),
        Identity("admin", "admin", "system:masters"),
        Identity("controller-manager", "system:kube-controller-manager"),
        Identity("scheduler", "system:kube-scheduler"),
        Identity("proxy", "system:kube-proxy"),
        Identity(
            "kubelet",
            f"system:node:{NODE_NAME}",
            "system:nodes",
            names=(NODE_NAME,),
            addresses=(node,),
        ),
    ]


def ensure(folder: Path, node: str, api_service: str) -> None:
    """Writes whatever is missing or old."""
    wanted = identities(node, api_service)
    if not (folder / "service-accounts.key").exists():
        _new_service_account_key(folder)
    if _is_current(folder, [identity.file for identity in wanted]):
        return
    ca = Authority.create(folder, "ca", "kvasir-local")
    for identity in wanted:
        ca.sign(identity)
    Authority.create(folder, "front-proxy-ca", "kvasir-local-front-proxy").sign(
        Identity("front-proxy", "front-proxy")
    )


@dataclass(frozen=True, slots=True)
class Authority:
    """A key that signs, with its own certificate."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls, folder: Path, file: str, name: str) -> "Authority":
        """A new authority, written to `file`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name, None)
        certificate = (
            _certificate(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        _write(folder, file, key, certificate)
        return cls(folder, key, certificate)

    def sign(self, identity: Identity) -> None:
        """Writes a key and a certificate for `identity`, good for both ends of a connection."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(
            _subject(identity.user, identity.group), self.certificate.subject, key.public_key()
        )
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        builder = builder.add_extension(_key_usage(signs=False), critical=True)
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in identity.names]
        names += [x509.IPAddress(ipaddress.ip_address(one)) for one in identity.addresses]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        _write(self.folder, identity.file, key, builder.sign(self.key, hashes.SHA256()))


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + VALID)
    )


def _subject(user: str, group: str | None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _new_service_account_key(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (folder / "service-accounts.pub").write_bytes(public)
    _write_key(folder / "service-accounts.key", key)


def _write(
    folder: Path, file: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> None:
    _write_key(folder / f"{file}.key", key)
    (folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


def _is_current(folder: Path, files: Sequence[str]) -> bool:
    soon = datetime.datetime.now(datetime.UTC) + RENEW_BEFORE
    for file in ["ca", *files, "front-proxy-ca", "front-proxy"]:
        certificate, key = folder / f"{file}.crt", folder / f"{file}.key"
        if not certificate.exists() or not key.exists():
            return False
        if x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc < soon:
            return False
    return True
