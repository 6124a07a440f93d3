"""Runs the programs of this folder, which die where a test wants."""

import os
import subprocess
from collections.abc import Mapping

from support.commands.command import Ended
from support.commands.warm_process import WarmProcess
from support.commands.warm_start import warm_start
from support.places import PYTHONPATH, ROOT, SUPPORT

_MOST_S = 120


def run_victim(name: str, *words: str, point: str = "", **settings: str) -> Ended:
    """Run `NAME.py` with these words and variables until it ends, or dies at a crash point."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SANDBUR_")}
    env = {**kept, "PYTHONPATH": PYTHONPATH, "SANDBUR_CRASH_AT": point, **settings}
    victim = warm_start().start(words, ROOT, env, program=SUPPORT / f"victims/{name}.py")
    code, out, err = victim.wait_for_end(_MOST_S)
    return Ended(code, out.decode(), err.decode())


def start_victim(name: str, env: Mapping[str, str]) -> WarmProcess:
    """Start `NAME.py` with these variables; its input and output are texts, and go through pipes."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    program = SUPPORT / f"victims/{name}.py"
    return WarmProcess((), ROOT, {**env, "PYTHONPATH": PYTHONPATH}, **streams, program=program)
