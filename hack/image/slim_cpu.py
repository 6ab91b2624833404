"""Take out of this environment what torch on a CPU never uses: 2.9 GB of CUDA libraries, Triton.

PyPI has one torch for Linux, the CUDA one. It opens some CUDA libraries late: these are deleted.
Others it is linked to, so the loader wants them and the symbols that torch names: these are
replaced by empty libraries in which any call aborts. Without a GPU torch makes no such call; on a
machine that has one, this image must not be used.
"""

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

TO_REPLACE_BYTES = 5_000_000  # smaller ones may be called (the CUDA runtime is asked for devices)
CHECK = "import torch; torch.nn.functional.scaled_dot_product_attention(*torch.rand(3, 1, 1, 8, 8))"
SHOW_MAPPED = CHECK + "; print(open('/proc/self/maps').read())"


def lines_of(*command: str | Path) -> list[str]:
    """Run a program and return the lines it prints."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def mapped_files() -> set[Path]:
    """Return the files that a process which runs torch has mapped into memory."""
    lines = lines_of(sys.executable, "-c", SHOW_MAPPED)
    return {Path(line.split(maxsplit=5)[5]) for line in lines if "/" in line}


def symbols(library: Path, which: str) -> set[str]:
    """Return a library's dynamic symbols, ``--defined-only`` or ``--undefined-only``."""
    lines = lines_of("nm", "--dynamic", "--format=just-symbols", which, library)
    return {line.replace("@@", "@") for line in lines}


def linked_name(library: Path) -> str:
    """Return the name under which others are linked to the library."""
    (line,) = [line for line in lines_of("readelf", "--dynamic", library) if "(SONAME)" in line]
    return line.rpartition("[")[2].rstrip("]")


def replace(library: Path, names: set[str]) -> None:
    """Put a library in the place of ``library`` that has these symbols, and aborts when called."""
    plain = sorted({name.partition("@")[0] for name in names})
    versions = {name.partition("@")[2] for name in names} - {""}
    with tempfile.TemporaryDirectory() as work:
        source, script = Path(work, "stub.c"), Path(work, "stub.map")
        source.write_text(
            "void abort(void);\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in plain)
        )
        script.write_text("".join(f"{version} {{ global: *; }};\n" for version in sorted(versions)))
        options = [f"-Wl,-soname,{linked_name(library)}", "-fno-builtin", "-w"]
        options += [f"-Wl,--version-script={script}"] if versions else []
        library.unlink()
        lines_of("gcc", "-shared", "-fPIC", *options, "-o", library, source)


def main() -> None:
    """Delete what isn't mapped, replace what is large, and check that torch still runs."""
    site = Path(sysconfig.get_path("purelib"))
    mapped = mapped_files()
    libraries = [file for file in (site / "nvidia").rglob("*") if file.is_file()]
    wanted: set[str] = set()
    for library in (site / "torch" / "lib").glob("*.so*"):
        wanted |= symbols(library, "--undefined-only")
    for library in libraries:
        if library.suffix == ".py":
            continue
        if library not in mapped:
            library.unlink()
        elif library.stat().st_size > TO_REPLACE_BYTES:
            replace(library, wanted & symbols(library, "--defined-only"))
    shutil.rmtree(site / "triton", ignore_errors=True)
    lines_of(sys.executable, "-c", CHECK)


if __name__ == "__main__":
    main()
