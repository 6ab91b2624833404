"""Programs that write down how they were called, for tests of what is said to the real ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kube import Kube

SCRIPT = """#!{python}
import json, sys
folder = {folder!r}
words = sys.argv[1:]
piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
with open(folder + "/calls", "a") as calls:
    calls.write(json.dumps([{name!r}, *words]) + "\\n")
if piped:
    with open(folder + "/piped", "ab") as file:
        file.write(piped + b"\\n")
answers = json.load(open(folder + "/answers"))
said = " ".join(words)
print(next((answer for part, answer in answers.items() if part in said), ""))
"""


@dataclass(frozen=True, slots=True)
class FakePrograms:
    """A folder of programs; `answers` maps a part of a command line to what is printed."""

    folder: Path
    python: str

    def add(self, *names: str) -> None:
        """Make programs of these names."""
        self.answer({})
        for name in names:
            program = self.folder / name
            program.write_text(
                SCRIPT.format(python=self.python, folder=str(self.folder), name=name)
            )
            program.chmod(0o755)

    def answer(self, answers: dict[str, str]) -> None:
        """Set what is printed from now on."""
        (self.folder / "answers").write_text(json.dumps(answers))

    def calls(self) -> list[str]:
        """Return the command lines so far."""
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [" ".join(json.loads(line)) for line in lines]

    def piped(self) -> bytes:
        """Return all that was piped into the programs."""
        file = self.folder / "piped"
        return file.read_bytes() if file.exists() else b""

    def kube(self) -> Kube:
        """Return access to a cluster through these programs."""
        kubectl, helm = str(self.folder / "kubectl"), str(self.folder / "helm")
        return Kube(kubectl, helm, ["--context=mine"], ["--kube-context=mine"])
