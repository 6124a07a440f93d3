"""Database servers for one test that accept only TLS, with a certificate of the test."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.network.certificates import Issued
from support.required import unless

PASSWORD = "plain-words"
_STARTED_S = 120


def _program(name: str, *places: str) -> str | None:
    """Return the path of a program, from PATH or else the newest in the folders of distributions, or None."""
    found = [
        str(path) for place in places for path in sorted(Path("/").glob(f"{place}/{name}"), reverse=True)
    ]
    return shutil.which(name) or next(iter(found), None)


_POSTGRES = "usr/lib/postgresql/*/bin"
PROGRAMS = {
    "postgresql": [_program("initdb", _POSTGRES), _program("postgres", _POSTGRES)],
    "mysql": [_program("mariadb-install-db", "usr/bin"), _program("mariadbd", "usr/sbin", "usr/libexec")],
}


def only_with(kind: str) -> pytest.MarkDecorator:
    return unless(None not in PROGRAMS[kind], f"the programs of a {kind} server are not installed here")


@contextmanager
def tls_server(kind: str, issued: Issued) -> Iterator[str]:
    """Start a server; yield the URL of an empty database with the host 127.0.0.1 and without options."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder = Path(
        tempfile.mkdtemp(prefix="sandbur-tls-", dir="/tmp")
    )  # sockets and others' rights need it short
    try:
        prepare = _postgres if kind == "postgresql" else _mariadb
        command = prepare(folder, port, issued)
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, user=find_owner(kind), cwd=folder)
        try:
            _wait(server, port, folder / "log")
            database = "postgres" if kind == "postgresql" else "runs"
            yield f"{kind}://sandbur:{PASSWORD}@127.0.0.1:{port}/{database}"
        finally:
            server.send_signal(signal.SIGINT if kind == "postgresql" else signal.SIGTERM)
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(folder)


def find_owner(kind: str) -> str | None:
    """Return the user that has to run the server, because neither server runs as root; None: this user."""
    if os.geteuid() != 0:
        return None
    name = "postgres" if kind == "postgresql" else "mysql"
    return pwd.getpwnam(name).pw_name


def _own(kind: str, folder: Path, issued: Issued) -> tuple[Path, Path]:
    """Give the folder, with a copy of the certificate and its key, to the server's user."""
    copies = folder / "server.pem", folder / "server.key"
    for source, copy in zip((issued.certificate, issued.key), copies, strict=True):
        shutil.copy(source, copy)
        copy.chmod(0o600)
    owner = find_owner(kind)
    for path in (folder, *copies):
        if owner is not None:
            shutil.chown(path, owner)
    return copies


def _run(kind: str, command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        user=find_owner(kind),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_STARTED_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _postgres(folder: Path, port: int, issued: Issued) -> list[str]:
    initdb, postgres = PROGRAMS["postgresql"]
    assert initdb is not None
    assert postgres is not None
    certificate, key = _own("postgresql", folder, issued)
    word = folder / "word"
    word.write_text(PASSWORD)
    word.chmod(0o644)
    data = folder / "data"
    made = [initdb, "-D", str(data), "-U", "sandbur", "-A", "scram-sha-256", f"--pwfile={word}", "--no-sync"]
    _run("postgresql", made, folder)
    (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")
    settings = {
        "listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off",
        "ssl": "on",
        "ssl_cert_file": certificate, "ssl_key_file": key, "max_connections": 20, "shared_buffers": "8MB",
    }  # fmt: skip
    return [postgres, "-D", str(data), *(f"--{name}={value}" for name, value in settings.items())]


def _mariadb(folder: Path, port: int, issued: Issued) -> list[str]:
    install, mariadbd = PROGRAMS["mysql"]
    assert install is not None
    assert mariadbd is not None
    certificate, key = _own("mysql", folder, issued)
    data = folder / "data"
    _run("mysql", [install, "--no-defaults", f"--datadir={data}", "--skip-test-db"], folder)
    start = folder / "start.sql"
    start.write_text(
        "CREATE DATABASE runs;\n"
        f"CREATE USER sandbur@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
        "GRANT ALL ON runs.* TO sandbur@'127.0.0.1';\n"
    )
    start.chmod(0o644)
    return [
        mariadbd, "--no-defaults", f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1",
        f"--socket={folder}/socket", f"--pid-file={folder}/pid", f"--ssl-cert={certificate}",
        f"--ssl-key={key}",
        "--require-secure-transport=ON", f"--init-file={start}", "--skip-name-resolve",
        "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M",
    ]  # fmt: skip


def _wait(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _STARTED_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text(errors="replace")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(log.read_text(errors="replace"))
