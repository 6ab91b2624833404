import datetime
import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from local_cluster import pki

NODE, SERVICE = "10.200.0.2", "10.200.128.1"


def load(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pki.ensure(tmp_path, NODE, SERVICE)
    return tmp_path


def test_the_api_server_answers_to_every_name_pods_use(folder: Path) -> None:
    names = load(folder, "apiserver").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert set(names.value.get_values_for_type(x509.DNSName)) >= {
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    }
    addresses = names.value.get_values_for_type(x509.IPAddress)
    assert {ipaddress.ip_address(NODE), ipaddress.ip_address(SERVICE)} <= set(addresses)


@pytest.mark.parametrize("name", ["apiserver", "admin", "kubelet", "proxy", "scheduler"])
def test_the_main_authority_signed_it(folder: Path, name: str) -> None:
    load(folder, name).verify_directly_issued_by(load(folder, "ca"))


def test_the_front_proxy_has_an_authority_of_its_own(folder: Path) -> None:
    load(folder, "front-proxy").verify_directly_issued_by(load(folder, "front-proxy-ca"))
    with pytest.raises(ValueError, match="does not match"):
        load(folder, "front-proxy").verify_directly_issued_by(load(folder, "ca"))


def test_the_kubelet_is_a_node_to_the_api_server(folder: Path) -> None:
    subject = load(folder, "kubelet").subject
    assert subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:nodes"


def test_keys_are_for_their_owner_only(folder: Path) -> None:
    assert all(key.stat().st_mode & 0o077 == 0 for key in folder.glob("*.key"))


def test_a_second_time_changes_nothing(folder: Path) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    pki.ensure(folder, NODE, SERVICE)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_certificates_near_their_end_are_renewed_and_tokens_stay_valid(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, tokens = load(folder, "ca"), (folder / "service-accounts.key").read_bytes()
    monkeypatch.setattr(pki, "RENEW_BEFORE", pki.VALID + datetime.timedelta(days=1))
    pki.ensure(folder, NODE, SERVICE)
    assert load(folder, "ca").serial_number != before.serial_number
    assert (folder / "service-accounts.key").read_bytes() == tokens
