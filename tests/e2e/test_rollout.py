"""Changes of a running service: rollout, crash of the operator, scale, pause, deletion."""

from collections.abc import Callable

from kube import Kube
from support.inference_services import InferenceServices, Object, condition, is_ready, poll


def seqs_of(pod: Object) -> str | None:
    """The --max-num-seqs a pod runs with."""
    args = pod["spec"]["containers"][0]["args"]
    return args[args.index("--max-num-seqs") + 1] if "--max-num-seqs" in args else None


def check_honest(versions: list[Object], generation: int) -> None:
    """Ready is never claimed for a generation that is not fully rolled out."""
    claims = [v for v in versions if condition(v, "Ready").get("status") == "True"]
    for version in claims:
        status = version["status"]
        assert status["updatedReplicas"] == status["replicas"] >= 1
        assert status["readyReplicas"] >= 1
        assert condition(version, "Ready")["observedGeneration"] == status["observedGeneration"]
    told = [v for v in versions if v.get("status", {}).get("observedGeneration") == generation]
    assert condition(told[0], "Ready")["status"] == "False"
    assert condition(told[-1], "Ready")["status"] == "True"


def test_changed_field_rolls_out_and_ready_stays_honest(
    services: InferenceServices, rolling: str
) -> None:
    [before] = services.pods(rolling)
    with services.watched("kvs", rolling) as versions:
        poll("the watch shows the service", 10, lambda: versions)
        generation = services.patch(rolling, engine={"maxNumSeqs": 8})
        services.wait_ready(rolling)
        after = services.pods(rolling)
        poll("the watch has caught up", 10, lambda: is_ready(versions[-1]))
    check_honest(versions, generation)
    assert [seqs_of(pod) for pod in after] == ["8"]
    assert before["metadata"]["name"] != after[0]["metadata"]["name"]


def test_old_pod_serves_until_the_new_one_does(services: InferenceServices, rolling: str) -> None:
    services.patch(rolling, engine={"maxNumSeqs": 9})
    with services.openai(rolling) as client:
        while not is_ready(services.get(rolling)):
            assert client.completions.create(model=rolling, prompt="x", max_tokens=1)


def test_operator_that_is_killed_mid_rollout_finishes_it(
    services: InferenceServices, rolling: str, kill_operator: Callable[[], str]
) -> None:
    generation = services.patch(rolling, engine={"maxNumSeqs": 10})
    services.wait(
        rolling, "the rollout is under way", lambda s: s["status"]["phase"] == "Updating", 30
    )
    with services.watched("kvs", rolling) as versions:
        kill_operator()
        services.wait_ready(rolling)
        poll("the watch has caught up", 10, lambda: versions and is_ready(versions[-1]))
    check_honest(versions, generation)
    assert [seqs_of(pod) for pod in services.pods(rolling)] == ["10"]


def test_operator_that_is_killed_before_it_saw_a_change_makes_it(
    services: InferenceServices, rolling: str, kill_operator: Callable[[], str]
) -> None:
    kill_operator()
    services.patch(rolling, engine={"maxNumSeqs": 11})
    services.wait_ready(rolling)
    assert [seqs_of(pod) for pod in services.pods(rolling)] == ["11"]


def test_scale_leaves_running_pods_as_they_are(
    services: InferenceServices, kube: Kube, rolling: str
) -> None:
    [first] = services.pods(rolling)
    where = f"--namespace={services.namespace}"
    kube.kubectl("scale", f"kvs/{rolling}", "--replicas=2", where)
    services.wait(rolling, "2/2", lambda s: s["status"]["replicaSummary"] == "2/2", 120)
    pods = services.pods(rolling)
    assert len(pods) == 2
    assert first["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in pods}
    kube.kubectl("scale", f"kvs/{rolling}", "--replicas=1", where)
    services.wait(rolling, "1/1", lambda s: s["status"]["replicaSummary"] == "1/1", 60)


def test_change_that_cannot_run_leaves_what_runs(services: InferenceServices, rolling: str) -> None:
    [before] = services.pods(rolling)
    services.patch(rolling, parallelism={"tensor": 2})
    blocked = services.wait_reason(rolling, "ParallelismUnsupported")
    assert condition(blocked, "Available")["status"] == "True"
    services.patch(rolling, parallelism=None)
    services.wait_ready(rolling)
    [after] = services.pods(rolling)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_pause_holds_changes_back_until_it_ends(services: InferenceServices, rolling: str) -> None:
    [before] = services.pods(rolling)
    services.patch(rolling, paused=True, engine={"maxNumSeqs": 12})
    services.wait(rolling, "paused", lambda s: s["status"]["phase"] == "Paused", 30)
    assert [pod["metadata"]["uid"] for pod in services.pods(rolling)] == [before["metadata"]["uid"]]
    services.patch(rolling, paused=False)
    services.wait_ready(rolling)
    assert [seqs_of(pod) for pod in services.pods(rolling)] == ["12"]


def test_deletion_leaves_no_child(services: InferenceServices, rolling: str) -> None:
    assert len({child["kind"] for child in services.children(rolling)}) == 5
    services.delete(rolling)
    poll("every child is gone", 90, lambda: not services.children(rolling))
    assert services.get(rolling) == {}


def test_same_name_can_be_used_again_at_once(services: InferenceServices) -> None:
    services.apply("again", replicas=0)
    services.wait_reason("again", "ScaledToZero")
    services.delete("again")
    services.apply("again", replicas=0)
    reborn = services.wait_reason("again", "ScaledToZero", 60)
    owners = {
        child["metadata"]["ownerReferences"][0]["uid"]
        for child in services.children("again", "deployments,services")
    }
    assert owners == {reborn["metadata"]["uid"]}
    services.delete("again")
