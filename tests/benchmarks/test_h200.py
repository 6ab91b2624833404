"""The script itself, with programs of a few lines in the peers' places; Kvasir is the real one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "h200.sh"
VLLM = """\
import json, sys, time
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print("a line that is no result")
for load in options["--workloads"].split(","):
    n, i, o = map(int, load.split(":"))
    print(json.dumps(dict(engine="vllm", model="tiny", num_prompts=n, input_len=i, output_len=o,
        output_tok_s=float(options["--max-num-batched-tokens"]), elapsed_s=1.0, load_s=9.0,
        complete=True)), flush=True)
print('{"half a line', flush=True)
time.sleep(0 if options["--max-num-batched-tokens"] == "512" else 600)
"""
VLLM_SERVING = """\
import json, sys
print(json.dumps(dict(engine="vllm", model="tiny", rate=20.0, input_len=16, output_len=4,
    ttft_p50=1.0, ttft_p99=2.0)))
"""
SGLANG = """\
echo "== $1 $2"
cat <<END
{"engine": "sglang", "model": "tiny", "num_prompts": 2, "input_len": 16, "output_len": 20, \
"output_tok_s": 7.0, "elapsed_s": 1.0, "complete": true}
END
"""


@pytest.fixture
def peers(tmp_path, tiny_models):
    folder = tmp_path / "peers"
    shutil.copytree(tiny_models.folder("llama"), folder / "models" / "tiny")
    files = {
        "vllm-0.0.1/unpack.py": "import os, sys\nos.makedirs(sys.argv[1])\n",
        "vllm-0.0.1/bench_vllm.py": VLLM,
        "vllm-0.0.1/bench_vllm_serving.py": VLLM_SERVING,
        "sglang-0.0.1/bench.sh": SGLANG,
        "bin/nvidia-smi": "#!/bin/sh\necho NVIDIA H200\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return folder


def run(peers, *arguments, **settings):
    """Run the script; return its process, its raw lines and its result lines."""
    settings = {
        "PEERS": str(peers), "PYTHON": sys.executable, "TMPDIR": str(peers), "COMMIT": "abc",
        "PATH": f"{peers / 'bin'}:{os.environ['PATH']}", "MAX_NUM_SEQS": "8", "ROUNDS": "1",
        "RAW": str(peers / "raw"), "RESULTS": str(peers / "results"),
    } | settings  # fmt: skip
    process = subprocess.run(
        [str(SCRIPT), "tiny", *arguments],
        env=os.environ | settings, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    return process, read(peers.glob("raw/*")), read(peers.glob("results"))


def read(files):
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_all_engines_run_and_their_lines_are_kept_and_paired(peers):
    process, raw, results = run(
        peers, "2:16:20", BATCHED="512", KVASIR_BATCHED="512", RATES="20", SERVING_S="0.5",
        INPUT_LEN="16", OUTPUT_LEN="4",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    headers = [line for line in raw if "kvasir_commit" in line]
    assert [line["engine"] for line in headers] == ["kvasir", "kvasir", "vllm", "vllm", "sglang"]
    assert {line["batched"] for line in headers} == {512}
    batch, *latencies = results
    assert (batch["workload"], batch["vllm"], batch["sglang"]) == ("2:16:20", 512, 7)
    assert batch["ratio"] == pytest.approx(batch["kvasir"] / 512, abs=0.001)
    assert (batch["gpu"], batch["kvasir_commit"]) == ("NVIDIA H200", "abc")
    ttft = next(row for row in latencies if row["workload"] == "poisson-20:16:4:ttft_p99")
    assert (ttft["vllm"], ttft["sglang"], ttft["unit"]) == (2.0, None, "s")
    assert ttft["kvasir"] > 0


def test_a_hanging_engine_is_ended_and_what_it_had_measured_is_kept(peers):
    process, raw, _ = run(
        peers, "2:16:20", ENGINES="vllm", BATCHED="1024 512", LIMIT_S="2", RESULTS=""
    )
    assert process.returncode == 0
    assert "vllm ended with 124" in process.stderr
    assert [line["output_tok_s"] for line in raw if "engine" in line and "model" in line] == [
        1024, 512,
    ]  # fmt: skip


def test_alternation_repeats_every_engine(peers):
    _, raw, _ = run(
        peers, "2:16:20", ENGINES="vllm sglang", BATCHED="512", ROUNDS="2", RESULTS=""
    )  # fmt: skip
    assert [line["engine"] for line in raw if "model" in line] == ["vllm", "sglang"] * 2


def test_an_unknown_model_is_refused_before_anything_runs(peers):
    process = subprocess.run(
        [str(SCRIPT), "no-such-model"], env=os.environ | {"PEERS": str(peers)},
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert process.returncode == 2
    assert "no-such-model/config.json" in process.stderr
