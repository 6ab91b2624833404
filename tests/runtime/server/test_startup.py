import subprocess
import sys


def test_the_server_process_loads_no_torch(tokenizer_folder):
    """It would cost each pod seconds and hundreds of MiB, for a process that never computes."""
    program = (
        "import sys, kvasir_runtime.server.serve, kvasir_runtime.engine.client\n"
        "from kvasir_runtime.models.resolve import resolve_model\n"
        "from kvasir_runtime.tokenizer import load_tokenizer\n"
        "load_tokenizer(resolve_model(sys.argv[1])).encode('Hi')\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tokenizer_folder)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
