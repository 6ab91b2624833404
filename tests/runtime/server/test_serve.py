"""The command as a process, with a small real model: its start, its end, and how it fails."""

import json
import os
import shutil
import signal
import threading

import httpx
import pytest

from runtime.server.serving import serving

SMALL = ("--kv-cache-gib", "0.01", "--max-num-seqs", "8", "--served-model-name", "tiny")
LONG = {"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "stream": True}


@pytest.fixture
def model(tiny_models, tmp_path):
    """A folder of its own, which a test may break."""
    return shutil.copytree(tiny_models.folder("llama"), tmp_path / "model")


def edit_config(model, **values):
    path = model / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_it_serves_drains_on_sigterm_and_leaves_nothing_behind(model, tmp_path, eventually):
    with serving(tmp_path, str(model), *SMALL) as server:
        server.wait_ready()
        engines = server.engine_pids()
        assert len(engines) == 1, "the engine has a process of its own"
        assert "KV cache size: " in server.text
        with httpx.stream("POST", f"{server.url}/v1/completions", json=LONG, timeout=60) as stream:
            lines = stream.iter_lines()
            next(lines)
            server.terminate()
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert (
            json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
        )
        assert server.wait() == 0
        assert not server.termination.exists()
        assert not any(os.path.exists(f"/proc/{pid}") for pid in engines)


def test_a_second_signal_ends_it_at_once(model, tmp_path, eventually):
    with serving(tmp_path, str(model), *SMALL) as server:
        server.wait_ready()
        reader = threading.Thread(target=_read_whatever_comes, args=(server.url,), daemon=True)
        reader.start()
        eventually(lambda: _running(server.url) == 1)
        server.terminate(signal.SIGINT)
        eventually(lambda: "draining" in server.text)
        server.terminate(signal.SIGINT)
        assert server.wait(10) == 128 + signal.SIGINT


def test_a_killed_engine_ends_its_streams_with_an_error_and_the_process_too(
    model, tmp_path, eventually
):
    with serving(tmp_path, str(model), *SMALL) as server:
        server.wait_ready()
        (engine,) = server.engine_pids()
        with httpx.stream("POST", f"{server.url}/v1/completions", json=LONG, timeout=60) as stream:
            lines = stream.iter_lines()
            next(lines)
            os.kill(engine, signal.SIGKILL)
            rest = [line.removeprefix("data: ") for line in lines if line]
        assert json.loads(rest[-2])["error"]["code"] == "engine_failed"
        assert server.wait() == 1
        assert json.loads(server.termination.read_text())["reason"] == "EngineDied"


def test_an_engine_whose_server_is_killed_ends_too(model, tmp_path, eventually):
    with serving(tmp_path, str(model), *SMALL) as server:
        server.wait_ready()
        (engine,) = server.engine_pids()
        server.process.kill()
        eventually(lambda: not os.path.exists(f"/proc/{engine}"))


def missing_folder(model):
    return "/no/such/model", "ModelNotFound", "/no/such/model"


def unknown_architecture(model):
    edit_config(model, architectures=["MambaForCausalLM"])
    return str(model), "UnsupportedArchitecture", "MambaForCausalLM"


def corrupt_weights(model):
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    return str(model), "CorruptWeights", "model.safetensors"


def no_tokenizer(model):
    for path in model.glob("token*"):
        path.unlink()
    return str(model), "ModelNotFound", "tokenizer"


@pytest.mark.parametrize(
    "fault", [missing_folder, unknown_architecture, corrupt_weights, no_tokenizer]
)
def test_a_start_that_cant_succeed_ends_with_one_line_that_says_why(model, tmp_path, fault):
    argument, reason, named = fault(model)
    with serving(tmp_path, argument, *SMALL) as server:
        assert server.wait() == 1
        message = json.loads(server.termination.read_text())
        assert message["reason"] == reason
        assert named in message["message"]
        assert message["hint"]
        assert "Traceback" not in server.text
        lines = [line for line in server.text.splitlines() if f"{reason}: " in line]
        assert len(lines) == 1
        assert message["hint"] in lines[0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--max-model-len", "0"), "InvalidConfig"),
        (("--max-model-len", "99999"), "InvalidConfig"),
        (("--num-gpu-blocks-override", "1", "--max-model-len", "512"), "KVCacheTooSmall"),
        (("--tensor-parallel-size", "2"), "UnsupportedFeature"),
    ],
)
def test_settings_that_cant_work_end_it_with_the_reason(model, tmp_path, arguments, reason):
    with serving(tmp_path, str(model), *arguments) as server:
        assert server.wait() == 1
        assert json.loads(server.termination.read_text())["reason"] == reason
        assert "Traceback" not in server.text


def test_the_log_can_be_json_throughout(model, tmp_path, eventually):
    with serving(tmp_path, str(model), *SMALL, "--log-format", "json") as server:
        server.wait_ready()
        lines = [json.loads(line) for line in server.text.splitlines()]
        loggers = {line["logger"] for line in lines}
        assert "kvasir_runtime.engine.build" in loggers, "the engine process too"
        assert "kvasir_runtime.server.supervisor" in loggers


def _running(url):
    for line in httpx.get(f"{url}/metrics").text.splitlines():
        if line.startswith("vllm:num_requests_running{"):
            return float(line.split()[-1])
    return None


def _read_whatever_comes(url):
    try:
        httpx.post(f"{url}/v1/completions", json=LONG, timeout=60)
    except httpx.TransportError:
        return
