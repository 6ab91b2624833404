"""On a GPU no kernel is compiled or loaded while requests run, be its cache empty or full."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kvasir_kernels.silu_mul.kernel import silu_mul_kernel
from kvasir_runtime.engine.kernel_watch import KERNELS

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"
SHAPE = {
    "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 2, "vocab_size": 32000,
    "num_attention_heads": 28, "num_key_value_heads": 4, "head_dim": 128, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 8192, "eos_token_id": 2, "hidden_act": "silu",
    "torch_dtype": "bfloat16", "rope_theta": 10000.0,
}  # fmt: skip
MODELS = {
    "grouped": {"architectures": ["Qwen3ForCausalLM"]},
    "multi-head": {
        "architectures": ["LlamaForCausalLM"], "num_attention_heads": 8, "num_key_value_heads": 8,
    },
    "window": {"architectures": ["MistralForCausalLM"], "sliding_window": 512},
}  # fmt: skip


def soak(folder: Path, cache: Path, *flags: str) -> dict[str, int]:
    command = [
        sys.executable, str(SOAK), str(folder), "--minutes", "0.3", "--clients", "96",
        "--load-format", "dummy", "--skip-tokenizer-init", "--max-num-seqs", "32",
        "--max-num-batched-tokens", "2048", "--num-gpu-blocks-override", "1024",
        "--swap-space", "0.25", "--most-growth-mib", "2048", *flags,
    ]  # fmt: skip
    env = os.environ | {"TRITON_CACHE_DIR": str(cache)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("flags", [(), ("--enforce-eager",)], ids=["graphs", "eager"])
@pytest.mark.parametrize("model", MODELS)
def test_no_kernel_comes_late(tmp_path, model, flags):
    (tmp_path / "config.json").write_text(json.dumps(SHAPE | MODELS[model]))
    cache = tmp_path / "triton"
    cold = soak(tmp_path, cache, *flags)
    assert any(cache.iterdir())
    warm = soak(tmp_path, cache, *flags)
    for report in (cold, warm):
        assert report["requests"] > 96
        assert report["late_kernels"] == 0


def test_the_watch_sees_a_kernel_that_does_come_late():
    KERNELS.install()
    before = KERNELS.counts.late
    gate_up = torch.ones(1, 64, device="cuda")
    out = torch.empty(1, 32, device="cuda")
    for _ in range(2):
        silu_mul_kernel[1, 1](out, gate_up, 64, 32, TILE=32)  # a tile that nothing else uses
    assert KERNELS.counts.late == before + 1
