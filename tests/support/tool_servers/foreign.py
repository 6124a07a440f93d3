"""Tool servers of other projects, installed in their own folder.

Usage, in tests/: python -m support.tool_servers.foreign

The servers are installed once from npm and PyPI for all runs of this user: in CI by the first test that needs
them, otherwise by this program.
"""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.required import IS_COMPLETE, lacks

FOLDER = Path(tempfile.gettempdir()) / f"sandbur-test-mcp-{os.getuid()}"
FROM_NPM = (
    "@modelcontextprotocol/server-everything@>=2025.8 <2028",
    "@modelcontextprotocol/server-filesystem@>=2025.8 <2028",
)
FROM_PYPI = (
    "mcp-server-time>=2025.8,<2028",
    "mcp-server-git>=2025.8,<2028",
    "mcp-server-fetch>=2025.8,<2028",
)
_INSTALLING_S = 350


def program(name: str) -> str:
    """Return a server's program; skip the test where it is not installed, in CI install or fail."""
    if not _is_complete():
        if not IS_COMPLETE:
            lacks(f"the tool servers of others are not installed: python {Path(__file__).name} does it")
        install()
    found = next((path for path in _programs(name) if path.exists()), None)
    assert found is not None, f"{name} was not installed into {FOLDER}"
    return str(found)


def _programs(name: str) -> tuple[Path, Path]:
    return FOLDER / "py" / "bin" / name, FOLDER / "npm" / "node_modules" / ".bin" / name


def _is_complete() -> bool:
    return (FOLDER / "complete").exists()


def install() -> None:
    """Install all servers; if several processes do this at once, one installs and the others wait."""
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_complete():
            return
        (FOLDER / "npm").mkdir(exist_ok=True)
        npm = shutil.which("npm")
        assert npm is not None, "npm is not installed"
        _run(npm, "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER / "npm"), *FROM_NPM)
        _run(sys.executable, "-m", "venv", str(FOLDER / "py"))
        _run(str(FOLDER / "py/bin/pip"), "install", "-q", *FROM_PYPI)
        (FOLDER / "complete").touch()


def _run(*words: str) -> None:
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_INSTALLING_S, check=False
    )
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout[-2000:]} {done.stderr[-2000:]}"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def everything_at(port: int, transport: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `server-everything` at a port of this machine: `streamableHttp` or `sse`."""
    command = [program("mcp-server-everything"), transport]
    environment = {**os.environ, "PORT": str(port)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            listens(port)
            yield process
        finally:
            process.kill()


def listens(port: int) -> None:
    latest = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < latest, "the server does not listen"
            time.sleep(0.05)


if __name__ == "__main__":
    install()
