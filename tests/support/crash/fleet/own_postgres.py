"""A PostgreSQL server of a test's own, which the test may stop and start again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from support.network.tls_servers import PROGRAMS, find_owner

_LIMIT_S = 120


class OwnPostgres:
    """A server in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._folder, self._data = folder, folder / "data"
        self._owner = find_owner("postgresql")
        self._process: subprocess.Popen[bytes] | None = None
        if self._owner is not None:
            shutil.chown(folder, self._owner)
        initdb = PROGRAMS["postgresql"][0]
        assert initdb is not None
        words = [initdb, "-D", str(self._data), "-U", "sandbur", "-A", "trust", "--no-sync"]
        done = subprocess.run(
            words, user=self._owner, cwd=folder, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
        assert done.returncode == 0, done.stderr

    @property
    def url(self) -> str:
        return f"postgresql://sandbur@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        postgres = PROGRAMS["postgresql"][1]
        assert postgres is not None
        settings = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "",
            "max_connections": 60, "shared_buffers": "16MB",
        }  # fmt: skip
        words = [postgres, "-D", str(self._data), *(f"--{name}={value}" for name, value in settings.items())]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, user=self._owner, cwd=self._folder
            )
        deadline = time.monotonic() + _LIMIT_S
        while time.monotonic() < deadline:
            with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=3):
                return
            assert self._process.poll() is None, (self._folder / "log").read_text(errors="replace")
            time.sleep(0.05)
        raise AssertionError((self._folder / "log").read_text(errors="replace"))

    def stop(self) -> None:
        """Stop without a checkpoint, as after a power loss: the next start recovers from the log."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(_LIMIT_S)


@contextmanager
def own_postgres() -> Generator[OwnPostgres]:
    """Start a server; it ends with the context."""
    # The user of the server has no right to the folders of tests.
    folder = Path(tempfile.mkdtemp(prefix="sandbur-history-", dir="/tmp"))
    server = OwnPostgres(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
