import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent / "triton"


@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernels' tests run compiled")
@pytest.mark.timeout(600)
def test_kernels_agree_with_their_references_in_tritons_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER)]
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
