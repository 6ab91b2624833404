import json
import shutil

import pytest

from kvasir_runtime.__main__ import main
from kvasir_runtime.llm import LLM

CPU = ("--device", "cpu", "--kv-cache-gib", "0.01", "--max-num-seqs", "8")


@pytest.fixture
def config_only(tiny_models, tmp_path):
    """A folder with a config.json and nothing else: no weights, no tokenizer."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    shutil.copy(tiny_models.folder("llama") / "config.json", folder)
    return folder


def test_it_measures_random_weights_without_a_tokenizer(config_only, tmp_path, capsys):
    file = tmp_path / "out.jsonl"
    arguments = ["bench", "throughput", str(config_only), "--load-format", "dummy", *CPU]
    arguments += ["--workloads", "3:20:5,1:40:2", "--repeat", "2", "--json", str(file)]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert printed.out == file.read_text()
    lines = [json.loads(line) for line in printed.out.splitlines()]
    assert [(line["workload"], line["run"]) for line in lines] == [
        ("3:20:5", 0), ("3:20:5", 1), ("1:40:2", 0), ("1:40:2", 1),
    ]  # fmt: skip
    for line in lines:
        assert line["engine"] == "kvasir"
        assert line["model"] == "tiny"
        assert line["complete"] is True
        assert line["max_num_seqs"] == 8
        assert line["dtype"] == "float32"
    first = lines[0]
    assert first["output_tokens_per_s"] == pytest.approx(15 / first["seconds"], rel=0.01)
    assert first["total_tokens_per_s"] == pytest.approx(75 / first["seconds"], rel=0.01)
    assert first["requests_per_s"] == pytest.approx(3 / first["seconds"], rel=0.01)
    assert "output_tokens_per_s" in printed.err


def test_prompts_share_no_cached_blocks_unless_told_to(config_only, capsys, monkeypatch):
    engines = []
    original = LLM.__init__

    def keep(self, *arguments, **settings):
        original(self, *arguments, **settings)
        engines.append(self)

    monkeypatch.setattr(LLM, "__init__", keep)
    for more in ((), ("--enable-prefix-caching",)):
        main(["bench", "throughput", str(config_only), "--load-format", "dummy", *CPU,
              "--workloads", "1:20:1", *more])  # fmt: skip
    assert [llm.config.enable_prefix_caching for llm in engines] == [False, True]
    assert [llm.config.skip_tokenizer_init for llm in engines] == [True, True]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["throughput", "/no/such/folder"], "ModelNotFound"),
        (["throughput", "m", "--workloads", "5"], "InvalidConfig"),
    ],
)
def test_what_cannot_be_measured_is_said_in_a_line(arguments, said, capsys):
    assert main(["bench", *arguments]) == 1
    assert capsys.readouterr().err.startswith(f"kvasir-runtime bench: {said}: ")


def test_a_workload_longer_than_the_model_is_refused_with_the_numbers(config_only, capsys):
    arguments = ["bench", "throughput", str(config_only), "--load-format", "dummy", *CPU]
    assert main([*arguments, "--workloads", "1:600:2"]) == 1
    assert "600" in capsys.readouterr().err


def test_an_unknown_benchmark_is_named(capsys):
    assert main(["bench", "thruput"]) == 2
    assert "'thruput'" in capsys.readouterr().err


def test_help_names_the_benchmarks(capsys):
    assert main(["bench", "--help"]) == 0
    assert "serving" in capsys.readouterr().out
