"""The head of a Ray cluster on this machine, with a folder and a token of its own, which can be killed."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.places import PYTHONPATH

_MOST_STARTS = 4
_RAY = (sys.executable, "-m", "ray.scripts.scripts")


class RayHead:
    """A head with four places for workers."""

    def __init__(self, home: Path) -> None:
        # The paths of its sockets may have 107 bytes, so it lies in no folder of a test.
        self.folder = Path(tempfile.mkdtemp(prefix="ray-"))
        self.port = find_free_port()
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("RAY_")},
            "HOME": str(home),
            "PYTHONPATH": PYTHONPATH,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        self.address = ""

    def start(self) -> None:
        """Start the head. It gives up if its parts are not there after 15 s, so it is tried again."""
        line = [*_RAY, "start", "--head", f"--port={self.port}", "--num-cpus=4"]
        line += [f"--temp-dir={self.folder}"]
        line += ["--include-dashboard=false", "--disable-usage-stats", "--node-ip-address=127.0.0.1"]
        line += ["--min-worker-port=0", "--max-worker-port=0"]
        for attempt in range(_MOST_STARTS):
            started = subprocess.run(line, env=self.env, capture_output=True, text=True, check=False)
            if started.returncode == 0:
                self.address = (self.folder / "ray_current_cluster").read_text().strip()
                return
            self.kill()
            time.sleep(5 * attempt)
        raise AssertionError(f"Ray did not start: {started.stdout[-2000:]} {started.stderr[-2000:]}")

    def kill(self) -> None:
        """End every process of the cluster at once, also the actors."""
        deadline = time.monotonic() + 60
        while found := find_processes(str(self.folder)):
            assert time.monotonic() < deadline
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)


@contextmanager
def open_head(home: Path) -> Iterator[RayHead]:
    """Run a head, and leave nothing of it."""
    head = RayHead(home)
    try:
        head.start()
        yield head
    finally:
        head.kill()
        shutil.rmtree(head.folder, ignore_errors=True)


def find_processes(mark: str) -> set[int]:
    """Return the processes that have a text in their command line or their variables, and the children of
    those, but not this one. Parts of Ray write their titles over both.
    """
    found: set[int] = set()
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                known = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                state, parent = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents[int(entry.name)] = int(parent)
                    found |= {int(entry.name)} if mark.encode() in known else set()
    while children := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= children
    return found


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
