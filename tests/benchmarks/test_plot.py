import json
import sys

import plot
import pytest
from roofline import H200, bound_s

QWEN = {
    "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "vocab_size": 152064, "rms_norm_eps": 1e-6, "max_position_embeddings": 32768,
}  # fmt: skip


def row(workload="32:512:256", **more):
    return {
        "date": "2026-12-01", "gpu": "NVIDIA H200", "model": "qwen", "workload": workload,
        "kvasir": 5100.0, "vllm": 4900.0, "sglang": None, "ratio": 1.041,
        "unit": "output tokens/s", "kvasir_commit": "abc", "start_s": 20.0,
    } | more  # fmt: skip


@pytest.fixture
def models(tmp_path):
    (tmp_path / "models" / "qwen").mkdir(parents=True)
    (tmp_path / "models" / "qwen" / "config.json").write_text(json.dumps(QWEN))
    return tmp_path / "models"


@pytest.fixture
def model(models):
    return plot.read_model(models / "qwen")


def test_a_rate_is_a_share_of_the_bound_and_the_bound_a_share_of_a_time(model):
    batch = plot.bounded(row(), model)
    assert batch.bound == pytest.approx(32 * 256 / bound_s(model, H200, 32, 512, 256))
    assert batch.share("kvasir") == pytest.approx(5100 / batch.bound)
    assert batch.share("sglang") is None
    single = plot.bounded(row("1:32000:16", unit="s", kvasir=1.0), model)
    assert single.share("kvasir") == single.bound == bound_s(model, H200, 1, 32_000, 16)


def test_two_cards_allow_twice_as_much(model):
    one, two = (plot.bounded(row(gpu=gpu), model) for gpu in ("NVIDIA H200", "2x NVIDIA H200"))
    assert two.bound == pytest.approx(2 * one.bound)


def test_arrivals_unknown_cards_and_unknown_models_have_no_bound(model):
    assert plot.bounded(row("poisson-16:512:256:ttft_p99"), model).bound is None
    assert plot.bounded(row(gpu="NVIDIA A10G"), model).bound is None
    assert plot.bounded(row(), None).bound is None


def test_the_newest_row_of_each_workload_is_shown(model):
    rows = [row(kvasir=1.0), row("1:512:256"), row(kvasir=2.0)]
    assert [(r["workload"], r["kvasir"]) for r in plot.newest(rows)] == [
        ("32:512:256", 2.0), ("1:512:256", 5100.0),
    ]  # fmt: skip


def test_the_table_and_the_picture_come_from_the_results(models, tmp_path, monkeypatch, capsys):
    results, picture = tmp_path / "h200.jsonl", tmp_path / "picture.svg"
    poisson = row("poisson-16:512:256:ttft_p99", unit="s", kvasir=0.0421, vllm=0.082, ratio=1.948)
    results.write_text("".join(json.dumps(line) + "\n" for line in (row(), poisson)))
    monkeypatch.setattr(
        sys, "argv",
        ["plot.py", "--models", str(models), "--results", str(results), "--picture", str(picture)],
    )  # fmt: skip
    plot.main()
    head, rule, batch, latency = capsys.readouterr().out.splitlines()
    assert head.startswith("| model | workload | unit | Kvasir | vLLM | SGLang | ratio | bound")
    assert rule.count("---") == head.count("|") - 1
    assert "| 32:512:256 | output tokens/s | 5,100 | 4,900 | - | 1.04 | 7,1" in batch
    assert batch.endswith("% |")
    assert latency.endswith("| s | 0.0421 | 0.082 | - | 1.95 | - | - |")
    assert "<svg" in picture.read_text()
