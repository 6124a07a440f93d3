"""Databases that note who owns a session after every commit, and that can be cut off or restarted."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from support.history.checker import Ownership
from support.network.tls_servers import PROGRAMS
from support.stores.databases import connect, fresh_place
from support.waiting import wait_for

from sandbur.state.store.store import Store

_NOTED = "(n {serial}, session_id VARCHAR(64), epoch BIGINT, owner VARCHAR(255), records BIGINT)"
_NOTE = (
    "INSERT INTO owners_seen (session_id, epoch, owner, records)"
    " VALUES (NEW.session_id, NEW.epoch, NEW.owner, NEW.records)"
)
_TRIGGERS = {
    "sqlite": (
        f"CREATE TABLE owners_seen {_NOTED.format(serial='INTEGER PRIMARY KEY')}",
        f"CREATE TRIGGER note_owner AFTER UPDATE ON heads BEGIN {_NOTE}; END",
    ),
    "postgresql": (
        f"CREATE TABLE owners_seen {_NOTED.format(serial='BIGSERIAL PRIMARY KEY')}",
        "CREATE FUNCTION note_owner() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {_NOTE}; RETURN NEW; END $$",
        "CREATE TRIGGER note_owner AFTER UPDATE ON heads FOR EACH ROW EXECUTE FUNCTION note_owner()",
    ),
    "mysql": (
        f"CREATE TABLE owners_seen {_NOTED.format(serial='BIGINT AUTO_INCREMENT PRIMARY KEY')}",
        f"CREATE TRIGGER note_owner AFTER UPDATE ON heads FOR EACH ROW {_NOTE}",
    ),
}


@dataclass
class HistoryDatabase:
    """One database; `address` is that of its server, before which a proxy can stand."""

    kind: str
    url: str
    address: tuple[str, int] | None = None
    server: "OwnPostgres | None" = None
    """The server, if it can be restarted."""
    admin_of: str = ""
    """The database that the administrator of the shared server connects to."""

    def through(self, port: int) -> str:
        """Return the URL for a client of a proxy."""
        parts = urlsplit(self.url)
        user, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user}{at}127.0.0.1:{port}").geturl()

    def note_owners(self, store: Store) -> None:
        """From now on the database notes the owner of a session after each of its commits."""
        if self.admin_of:
            with connect(self.kind, self.admin_of) as admin, admin.cursor() as cursor:
                for statement in _TRIGGERS[self.kind]:
                    cursor.execute(statement)
        else:
            store.database.commit([(statement, ()) for statement in _TRIGGERS[self.kind]])

    def read_owners(self, store: Store) -> dict[str, list[Ownership]]:
        """Return what was noted, by session."""
        found: dict[str, list[Ownership]] = {}
        sql = "SELECT session_id, epoch, owner, records FROM owners_seen ORDER BY n"
        for session, epoch, owner, records in store.database.query(sql):
            found.setdefault(str(session), []).append(Ownership(int(epoch), str(owner), int(records)))
        return found


class OwnPostgres:
    """A PostgreSQL of the test, which it may kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._user = pwd.getpwnam("postgres").pw_name if os.geteuid() == 0 else None
        initdb, self._postgres = PROGRAMS["postgresql"]
        if self._user is not None:
            shutil.chown(folder, self._user)
        line: list[Any] = [initdb, "-D", folder / "data", "-U", "sandbur", "-A", "trust", "--no-sync"]
        subprocess.run(line, user=self._user, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://sandbur@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "",
            "max_connections": 60, "shared_buffers": "16MB",
        }  # fmt: skip
        words: list[Any] = [self._postgres, "-D", self.folder / "data"]
        words += [f"--{name}={value}" for name, value in settings.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, user=self._user, cwd=self.folder)
        wait_for(self._answers, lambda: (self.folder / "log").read_text(errors="replace")[-2000:])

    def crash(self) -> None:
        """End the server at once, without a checkpoint."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(60)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def open_database(kind: str, folder: Path) -> Generator[HistoryDatabase]:
    """Yield an empty database; on PostgreSQL a server of its own."""
    if kind == "sqlite":
        (folder / "data").mkdir()
        yield HistoryDatabase(kind, f"sqlite:///{folder}/data/sandbur.db")
    elif kind == "mysql":
        with fresh_place(kind) as place:
            parts = urlsplit(place.url)
            assert parts.hostname is not None
            yield HistoryDatabase(kind, place.url, (parts.hostname, place.port), admin_of=place.database)
    else:
        # Others' rights and the names of sockets need a short path.
        own = Path(tempfile.mkdtemp(prefix="sandbur-history-", dir="/tmp"))
        server = OwnPostgres(own)
        try:
            server.start()
            yield HistoryDatabase(kind, server.url, ("127.0.0.1", server.port), server)
        finally:
            server.crash()
            shutil.rmtree(own)


def sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
