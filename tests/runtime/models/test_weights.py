import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from kvasir_runtime.config import EngineConfig
from kvasir_runtime.engine.core import Engine
from kvasir_runtime.errors import (
    CorruptWeightsError,
    InvalidConfigError,
    ModelNotFoundError,
    UnsupportedArchitectureError,
    UnsupportedFeatureError,
)
from kvasir_runtime.models.resolve import resolve_model


@pytest.fixture
def folder(tiny_models, tmp_path):
    return shutil.copytree(tiny_models.folder("llama"), tmp_path / "model")


def load(folder):
    return Engine(EngineConfig(model=str(folder), device="cpu", kv_cache_gib=0.01), folder)


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_truncated_file_is_named_with_its_size(folder):
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptWeightsError, match=rf"model.safetensors.*{len(data) // 2}"):
        load(folder)


def test_garbage_is_no_safetensors_file(folder):
    (folder / "model.safetensors").write_bytes(b"\x00garbage" * 100)
    with pytest.raises(CorruptWeightsError, match="damaged"):
        load(folder)


def test_a_missing_tensor_is_named(folder):
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CorruptWeightsError, match=r"1 of .*layers\.1\.mlp\.up_proj"):
        load(folder)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder):
    edit_config(folder, intermediate_size=100)
    with pytest.raises(CorruptWeightsError, match=r"\[64, 96\].*\[64, 100\]"):
        load(folder)


def test_a_tensor_the_architecture_lacks_is_named(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.0.extra.weight"] = torch.zeros(2)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CorruptWeightsError, match=r"layers\.0\.extra"):
        load(folder)


def test_a_shard_the_index_names_must_be_there(folder):
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}})
    )
    with pytest.raises(CorruptWeightsError, match=r"1 of 2.*model-2\.safetensors"):
        load(folder)


def test_a_sharded_checkpoint_loads_like_a_whole_one(folder):
    whole = load(folder).runner.model.state_dict()
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    weight_map = {}
    for shard, part in enumerate((names[::2], names[1::2])):
        file = f"model-{shard}.safetensors"
        save_file({n: tensors[n] for n in part}, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    sharded = load(folder).runner.model.state_dict()
    assert whole.keys() == sharded.keys()
    assert all(torch.equal(whole[name], sharded[name]) for name in whole)


def test_an_unknown_architecture_lists_those_there_are(folder):
    edit_config(folder, architectures=["MambaForCausalLM"])
    with pytest.raises(UnsupportedArchitectureError, match="Mamba") as caught:
        load(folder)
    assert "LlamaForCausalLM" in caught.value.hint


def test_a_quantized_checkpoint_is_refused_by_its_method(folder):
    edit_config(folder, quantization_config={"quant_method": "awq", "bits": 4})
    with pytest.raises(UnsupportedFeatureError, match="awq"):
        load(folder)


def test_a_length_beyond_the_models_is_refused_with_both_numbers(folder):
    config = EngineConfig(model=str(folder), device="cpu", max_model_len=1000)
    with pytest.raises(InvalidConfigError, match=r"1,000.*512"):
        Engine(config, folder)


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_config_that_is_no_config_is_named(folder, content):
    (folder / "config.json").write_text(content)
    with pytest.raises(InvalidConfigError, match=r"config\.json"):
        load(folder)


def test_a_folder_without_weights_says_so(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelNotFoundError, match="safetensors"):
        load(folder)


@pytest.mark.parametrize("model", ["/no/such/folder", "./neither", "three/part/name"])
def test_a_path_that_is_not_there_is_not_asked_of_the_hub(model):
    with pytest.raises(ModelNotFoundError, match="there is no folder"):
        resolve_model(model)


def test_a_file_is_no_model(folder):
    with pytest.raises(ModelNotFoundError, match="is a file"):
        resolve_model(str(folder / "config.json"))
