"""The benchmark on a real engine, and against the real server, as a user starts it."""

import json
import shutil
import subprocess
import sys

import pytest

from kvasir_runtime.__main__ import main
from runtime.server.serving import serving

SIZES = ("--requests", "6", "--input-len", "12", "--output-len", "5", "--rates", "20,40")
SMALL = ("--device", "cpu", "--kv-cache-gib", "0.01", "--max-num-seqs", "8")
NEEDS_NOTHING_OF = "fastapi", "pydantic", "uvicorn", "starlette", "httpx", "matplotlib"


@pytest.fixture(scope="module")
def model(tiny_models, tmp_path_factory):
    return shutil.copytree(tiny_models.folder("llama"), tmp_path_factory.mktemp("m") / "tiny")


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serving")
    flags = ("--kv-cache-gib", "0.01", "--served-model-name", "tiny", "--api-key", "secret")
    with serving(folder, "--model", str(model), *flags) as server:
        yield server.wait_ready()


def bench(server, *arguments):
    return main(
        ["bench", "serving", "--base-url", f"{server.url}/v1", "--vocab-size", "256", *arguments]
    )  # fmt: skip


def check(line, rate):
    assert (line["rate"], line["requests"], line["completed"]) == (rate, 6, 6)
    assert line["complete"] is True
    assert line["errors"] == {}
    assert line["output_tokens"] == 30
    assert line["prompt_tokens"] == 72
    assert line["output_tokens_per_s"] == pytest.approx(30 / line["elapsed_s"], rel=0.01)
    assert 0 < line["ttft_p50"] <= line["ttft_p99"] <= line["e2e_p99"] <= line["elapsed_s"]
    assert 0 < line["tpot_p50"] <= line["tpot_p99"]
    assert 0 <= line["itl_p50"] <= line["itl_p99"]


def test_the_engine_without_http_needs_no_web_package(model, tmp_path):
    """A process that can import none of them: the GPU machines that measure have torch alone."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({NEEDS_NOTHING_OF!r}))"
    script = tmp_path / "run.py"
    script.write_text(
        f"{blocked}\nfrom kvasir_runtime.__main__ import main\n"
        "if __name__ == '__main__':\n    sys.exit(main(sys.argv[1:]))\n"
    )
    run = subprocess.run(
        [sys.executable, str(script), "bench", "serving", str(model), "--load-format", "dummy",
         *SMALL, *SIZES],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    for line, rate in zip(lines, (20.0, 40.0), strict=True):
        check(line, rate)
        assert (line["engine"], line["model"]) == ("kvasir", "tiny")
        assert line["start_s"] > 0
        assert line["itl_p99"] > 0
    assert "ttft_p99" in run.stderr


def test_a_server_is_measured_over_http_and_drawn(server, tmp_path, capsys):
    file, picture = tmp_path / "out.jsonl", tmp_path / "out.svg"
    key = ("--api-key", "secret")
    assert bench(server, *SIZES, *key, "--json", str(file), "--plot", str(picture)) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == lines
    for line, rate in zip(lines, (20.0, 40.0), strict=True):
        check(line, rate)
        assert line["model"] == "tiny"
    assert "<svg" in picture.read_text()


def test_words_stand_in_for_token_ids(server, capsys):
    arguments = (*SIZES[:-1], "20", "--api-key", "secret", "--prompt-type", "words")
    assert bench(server, *arguments) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["complete"] is True
    assert line["prompt_tokens"] > 6 * 12  # this tokenizer has a token for each byte


def test_requests_too_long_are_counted_and_named(server, tmp_path, capsys):
    trace = tmp_path / "trace"
    short, long = {"input_len": 12, "output_len": 5}, {"input_len": 600, "output_len": 5}
    # The first eight are what warms up, and has to succeed.
    lines = [{"offset_s": 0.01 * n} | short for n in range(8)] + [{"offset_s": 0.2} | long] * 2
    trace.write_text("\n".join(map(json.dumps, lines)))
    assert bench(server, "--arrivals", str(trace), "--api-key", "secret") == 0
    printed = capsys.readouterr()
    line = json.loads(printed.out)
    assert (line["requests"], line["completed"], line["complete"]) == (10, 8, False)
    assert line["errors"] == {"HTTP 400": 2}
    assert line["arrivals"] == "trace"
    assert "HTTP 400, for example: the server answered 400" in printed.err
    assert "600" in printed.err


@pytest.mark.parametrize("named", [(), ("--served-model-name", "tiny")])
def test_a_refused_key_ends_it_with_what_to_do(server, capsys, named):
    assert bench(server, *SIZES, *named) == 1
    assert "401 wants --api-key" in capsys.readouterr().err


@pytest.mark.parametrize("named", [(), ("--served-model-name", "tiny")])
def test_a_server_that_is_not_there_is_said(capsys, named):
    arguments = ["--base-url", "http://127.0.0.1:1/v1", *named, *SIZES]
    assert main(["bench", "serving", *arguments]) == 1
    printed = capsys.readouterr()
    assert "ConnectError" in printed.err
    assert printed.out == ""
