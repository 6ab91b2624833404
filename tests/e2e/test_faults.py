"""What cannot be served says why, in REASON and in lastFailure, and disturbs nothing else."""

from collections.abc import Iterator

import pytest

from support.inference_services import InferenceServices, condition, poll

BROKEN = {
    "missing-path": {"model": {"uri": "pvc://models/no-such-folder"}},
    "mystery": {"model": {"uri": "pvc://models/unknown-architecture"}},
    "corrupt": {"model": {"uri": "pvc://models/corrupt-weights"}},
    "no-claim": {"model": {"uri": "pvc://no-such-claim/x"}},
    "no-image": {"engine": {"image": "localhost/no-such-image:1"}},
    "no-node": {"nodeSelector": {"kvasir.dev/moon": "full"}},
    "too-parallel": {"parallelism": {"tensor": 2}},
}


@pytest.fixture(scope="module")
def broken(services: InferenceServices, chat: str) -> Iterator[None]:
    """One InferenceService of each kind of fault, beside one that serves."""
    for name, spec in BROKEN.items():
        services.apply(name, **spec)
    yield
    services.delete(*BROKEN)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("name", "reason", "says", "hint"),
    [
        ("missing-path", "ModelNotFound", "no-such-folder", ""),
        ("mystery", "UnsupportedArchitecture", "MysteryForCausalLM", ""),
        ("corrupt", "CorruptWeights", "model.safetensors", ""),
        ("no-claim", "ClaimNotFound", "no-such-claim", "create the PersistentVolumeClaim"),
        ("no-image", "ImagePullBackOff", "localhost/no-such-image:1", "imagePullSecrets"),
        ("no-node", "Unschedulable", "node affinity/selector", "nodeSelector"),
    ],
)
def test_cause_reaches_the_user(
    services: InferenceServices, name: str, reason: str, says: str, hint: str
) -> None:
    status = services.wait_reason(name, reason)["status"]
    failure = status["lastFailure"]
    assert failure["reason"] == reason
    assert says in failure["message"]
    assert hint in failure["hint"]
    assert len(failure["hint"]) > 20
    assert failure["pod"].startswith(name)
    assert status["phase"] in ("Failed", "Pending")
    assert condition({"status": status}, "Ready")["status"] == "False"
    assert [event["reason"] for event in services.events(name)].count(reason) == 1


@pytest.mark.usefixtures("broken")
def test_what_this_version_cannot_run_makes_no_pod(services: InferenceServices) -> None:
    status = services.wait_reason("too-parallel", "ParallelismUnsupported")["status"]
    assert status["phase"] == "Blocked"
    accepted = condition({"status": status}, "Accepted")
    assert accepted["status"] == "False"
    assert "set it to 1 or leave it out" in accepted["message"]
    assert services.children("too-parallel") == []


@pytest.mark.usefixtures("broken")
def test_pod_that_cannot_start_is_held_back(services: InferenceServices) -> None:
    def waits() -> bool:
        [pod] = services.pods("missing-path")
        [container] = pod["status"]["containerStatuses"]
        return container["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"

    services.wait_reason("missing-path", "ModelNotFound")
    poll("the pod waits before its next try", 60, waits)
    assert services.get("missing-path")["status"]["phase"] == "Failed"


@pytest.mark.usefixtures("broken")
def test_what_serves_beside_is_not_disturbed(services: InferenceServices, chat: str) -> None:
    for name in ("missing-path", "mystery", "corrupt"):
        poll(f"{name} failed", 90, lambda: services.get(name)["status"]["phase"] == "Failed")  # noqa: B023
    served = services.get(chat)
    [pod] = services.pods(chat)
    assert condition(served, "Ready")["status"] == "True"
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    with services.openai(chat) as client:
        assert client.completions.create(model=chat, prompt="Hi", max_tokens=1)


@pytest.mark.usefixtures("broken")
def test_corrected_manifest_recovers(services: InferenceServices) -> None:
    services.wait_reason("corrupt", "CorruptWeights")
    services.patch("corrupt", model={"uri": "pvc://models/tiny-llama"})
    status = services.wait_ready("corrupt")["status"]
    assert status["reason"] == ""
    assert status["lastFailure"]["reason"] == "CorruptWeights"
