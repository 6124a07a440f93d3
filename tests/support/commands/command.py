"""Starts the command `sandbur` as a process with its own home folder."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.commands.warm_process import OPTIONS, WarmProcess
from support.commands.warm_start import can_be_warm, warm_start
from support.places import ROOT

TIMEOUT_S = 120
"""In seconds: much longer than any command takes on a busy machine, so that only a hanging command fails."""
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY",
        "DASHSCOPE_API_KEY")  # fmt: skip


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def result(self) -> Any:
        """The JSON object on stdout, or the last of several lines."""
        return json.loads(self.out.splitlines()[-1])

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Command:
    """Starts `sandbur` in `folder`, without the environment and the home of the person who runs the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SANDBUR_")}
        for key in (*KEYS, "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
            kept.pop(key, None)
        self.env = {
            **kept,
            "HOME": str(folder),
            "SANDBUR_HOME": str(folder / "data"),
            "PYTHONPATH": str(ROOT),
        }

    def run(self, *words: str, stdin: str | None = None, **env: str) -> Ended:
        full = {**self.env, **env}
        if can_be_warm(full):
            code, out, err = warm_start().run(words, self.folder, full, stdin)
            return Ended(code, out.decode(), err.decode())
        source: Any = {"input": stdin.encode()} if stdin is not None else {"stdin": subprocess.DEVNULL}
        done = subprocess.run(
            self.line(*words), cwd=self.folder, env=full, capture_output=True, timeout=TIMEOUT_S, check=False,
            **source,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(
        self, *words: str, env: dict[str, str] | None = None, **options: Any
    ) -> "subprocess.Popen[bytes] | WarmProcess":
        """Start a command as `subprocess.Popen` does, with pipes to read its output from."""
        full = {**self.env, **(env or {})}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if options.keys() <= OPTIONS and can_be_warm(full):
            return WarmProcess(words, self.folder, full, **{**streams, **options})
        return subprocess.Popen(self.line(*words), cwd=self.folder, env=full, **{**streams, **options})

    def line(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "sandbur.ui.cli.main", *words]
