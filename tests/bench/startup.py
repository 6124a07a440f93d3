"""Prints what starting the command costs, next to a bare interpreter; run it, it tests nothing."""

import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 11
ROOT = Path(__file__).resolve().parent.parent.parent
PROMPT = "❯".encode()


def ended(*words: str) -> float:
    """Return the milliseconds until the interpreter has run these words."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, env=environment(), check=True)
    return (time.perf_counter() - began) * 1000


def first_prompt() -> float:
    """Return the milliseconds until a new chat shows its prompt in a terminal."""
    main_end, chat_end = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbur.ui.cli", "-m", "demo"],
        stdin=chat_end, stdout=chat_end, stderr=chat_end, env=environment(), start_new_session=True,
    )  # fmt: skip
    seen = b""
    while PROMPT not in seen:
        ready, _, _ = select.select([main_end], [], [], 10)
        if not ready:
            sys.exit(f"no prompt within 10 s: {seen!r}")
        seen += os.read(main_end, 1 << 16)
    took = (time.perf_counter() - began) * 1000
    process.terminate()
    process.wait(10)
    os.close(main_end)
    os.close(chat_end)
    return took


def environment() -> dict[str, str]:
    home = HOME.name
    return {**os.environ, "HOME": home, "SANDBUR_HOME": f"{home}/data", "PYTHONPATH": str(ROOT),
            "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}  # fmt: skip


CONTENDERS: dict[str, Callable[[], float]] = {
    "bare interpreter": lambda: ended("-c", "pass"),
    "sandbur --help": lambda: ended("-m", "sandbur.ui.cli", "--help"),
    "sandbur --version": lambda: ended("-m", "sandbur.ui.cli", "--version"),
    "first prompt": first_prompt,
}

if __name__ == "__main__":
    HOME = tempfile.TemporaryDirectory()
    times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(ROUNDS):
        for name, measure in CONTENDERS.items():
            times[name].append(measure())
    bare = statistics.median(times["bare interpreter"])
    for name, measured in times.items():
        median = statistics.median(measured)
        print(f"{name:<20}{median:7.1f} ms   bare {median - bare:+7.1f} ms   {median / bare:5.1f} x")
    HOME.cleanup()
