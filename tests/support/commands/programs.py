"""Runs the programs of documentation pages as a reader would."""

import subprocess
import sys

from support.commands.command import Command


def run_program(command: Command, program: str) -> str:
    """Run a Python program in the command's folder, with warnings as errors; return what it printed."""
    (command.folder / "program.py").write_text(program)
    words = [sys.executable, "-W", "error", "program.py"]
    done = subprocess.run(
        words, cwd=command.folder, env=command.env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
