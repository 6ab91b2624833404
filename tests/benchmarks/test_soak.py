import itertools
import json
import subprocess
import sys

import pytest
import soak
from soak_load import soak_requests

from kvasir_runtime.engine.output import check_request
from runtime.server.scripted_engine import MODEL

GOOD = {"errors": {}, "late_kernels": 0, "process_mib": [900, 950], "device_mib": [8000, 8000]}


def test_every_request_is_one_the_model_takes():
    requests = list(itertools.islice(soak_requests(MODEL, seed=1), 2000))
    for request in requests:
        check_request(request.prompt, request.params, MODEL)
    leaving = sum(request.patience_s is not None for request in requests)
    assert 0.2 < leaving / len(requests) < 0.3
    for name in ("logprobs", "prompt_logprobs", "logit_bias", "allowed_token_ids", "seed"):
        assert any(getattr(request.params, name) is not None for request in requests), name
    assert any(request.params.penalised for request in requests)
    assert any(request.params.n > 1 for request in requests)
    assert any(request.params.greedy for request in requests)


def test_the_same_seed_makes_the_same_requests():
    first, again, other = (
        list(itertools.islice(soak_requests(MODEL, seed=seed), 20)) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, []),
        ({"errors": {"EngineDied": 2}}, ["2 x EngineDied"]),
        ({"late_kernels": 1}, ["1 kernels were not ready before serving"]),
        ({"process_mib": [900, 1100]}, ["process_mib grew from 900 to 1100, bound 100"]),
        ({"device_mib": [8000, 8101]}, ["device_mib grew from 8000 to 8101, bound 100"]),
        ({"device_mib": [8000, 7000]}, []),
    ],
)
def test_a_report_fails_for_what_is_wrong_with_it(change, sentence):
    assert soak.failures(GOOD | change, 100) == sentence


def test_a_tiny_model_soaks(tiny_models):
    command = [
        sys.executable, soak.__file__, str(tiny_models.folder("llama")), "--minutes", "0.15",
        "--clients", "24", "--device", "cpu", "--num-gpu-blocks-override", "64",
        "--max-num-seqs", "8", "--preemption-mode", "swap", "--swap-space", "0.01",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["requests"] >= 24
    assert report["aborted"] > 0
    assert report["output_tokens"] >= report["received_tokens"] > 0
    assert min(report["process_mib"]) > 50
