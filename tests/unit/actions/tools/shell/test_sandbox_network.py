"""Whom a command in a real sandbox can reach: real servers of every family, on this machine."""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.tools.sandboxes import KINDS, open_sandbox, run

from sandbur.actions.tools.shell.sandbox.proxy import AllowedDomains, serve
from sandbur.actions.tools.shell.sandbox.sandbox import SandboxKind

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]
PYTHON = os.path.realpath(sys.executable)
SAY = """
import socket, sys
family, kind, address = eval(sys.argv[1])
with socket.socket(family, kind) as s:
    if kind == socket.SOCK_DGRAM:
        s.sendto(b"news", address)
    else:
        s.connect(address)
        s.send(b"news")
"""
BY_A_PAIR = """
import socket, sys
pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
pair[0].sendto(b"news", eval(sys.argv[1])[2])
"""
BY_IO_URING = "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(425, 8, bytes(120)) < 0)"


class Listener:
    """A socket of the machine, and whether anything came."""

    def __init__(self, family: int, kind: int, address: Any) -> None:
        self.family, self.kind = family, kind
        self._socket = socket.socket(family, kind)
        self._socket.bind(address)
        if kind != socket.SOCK_DGRAM:
            self._socket.listen()
        self._socket.setblocking(False)
        self.address = self._socket.getsockname()

    @property
    def target(self) -> str:
        return repr((int(self.family), int(self.kind), self.address))

    def heard(self) -> bool:
        try:
            if self.kind == socket.SOCK_DGRAM:
                return self._socket.recv(4) == b"news"
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[dict[str, Listener]]:
    with ExitStack() as stack:
        made = {
            "TCP": Listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "UDP": Listener(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "a UNIX socket": Listener(socket.AF_UNIX, socket.SOCK_STREAM, str(tmp_path / "stream")),
            "a UNIX datagram": Listener(socket.AF_UNIX, socket.SOCK_DGRAM, str(tmp_path / "datagram")),
            "an abstract UNIX socket": Listener(
                socket.AF_UNIX, socket.SOCK_STREAM, f"\0sandbur-{os.getpid()}"
            ),
        }
        for one in made.values():
            stack.callback(one.close)
        yield made


NAMES = ("TCP", "UDP", "a UNIX socket", "a UNIX datagram", "an abstract UNIX socket")


def spoken(folder: Path, program: str, listener: Listener) -> str:
    folder.joinpath("say.py").write_text(program)
    folder.joinpath("target").write_text(listener.target)
    return f'{PYTHON} say.py "$(cat target)"'


@pytest.mark.parametrize("name", NAMES)
async def test_without_a_sandbox_everybody_is_reached(
    tmp_path: Path, listeners: dict[str, Listener], name: str
):
    outcome = await run(None, tmp_path, spoken(tmp_path, SAY, listeners[name]))
    assert outcome.outcome == "ok"
    assert listeners[name].heard()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
async def test_a_sandbox_reaches_nobody(
    tmp_path: Path, listeners: dict[str, Listener], kind: SandboxKind, name: str
):
    with open_sandbox(kind, [tmp_path], tmp_path) as sandbox:
        await run(sandbox, tmp_path, spoken(tmp_path, SAY, listeners[name]))
    assert not listeners[name].heard()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_pair_of_datagram_sockets_cannot_be_turned_to_somebody_else(
    tmp_path: Path, listeners: dict[str, Listener], kind: SandboxKind
):
    command = spoken(tmp_path, BY_A_PAIR, listeners["a UNIX datagram"])
    assert (await run(None, tmp_path, command)).outcome == "ok"
    assert listeners["a UNIX datagram"].heard()
    with open_sandbox(kind, [tmp_path], tmp_path) as sandbox:
        assert (await run(sandbox, tmp_path, command)).outcome == "error"
    assert not listeners["a UNIX datagram"].heard()


@pytest.mark.parametrize("kind", KINDS)
async def test_no_sockets_are_made_behind_the_filter(tmp_path: Path, kind: SandboxKind):
    with open_sandbox(kind, [tmp_path], tmp_path) as sandbox:
        outcome = await run(sandbox, tmp_path, f"{PYTHON} -c '{BY_IO_URING}'")
    assert outcome.outcome == "error"


@pytest.mark.parametrize("kind", KINDS)
async def test_with_the_whole_network_only_unix_sockets_are_closed(
    tmp_path: Path, listeners: dict[str, Listener], kind: SandboxKind
):
    with open_sandbox(kind, [tmp_path], tmp_path, ["*"]) as sandbox:
        for name in NAMES:
            await run(sandbox, tmp_path, spoken(tmp_path, SAY, listeners[name]))
    assert [name for name in NAMES if listeners[name].heard()] == ["TCP", "UDP"]


@asynccontextmanager
async def web_server():
    """Serve one page to everybody; yield the port, and what was asked."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\npage\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


GET = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode().strip())"


@pytest.mark.parametrize("kind", KINDS)
async def test_an_allowed_host_is_reached_and_no_other(tmp_path: Path, kind: SandboxKind):
    tmp_path.joinpath("get.py").write_text(GET)
    async with web_server() as (port, asked):
        with open_sandbox(kind, [tmp_path], tmp_path, [f"localhost:{port}"]) as sandbox:
            got = {
                host: await run(
                    sandbox,
                    tmp_path,
                    f"no_proxy= NO_PROXY= {PYTHON} get.py http://{host}:{port}/path?q=1",
                )
                for host in ("localhost", "127.0.0.1")
            }
    assert got["localhost"].content == "page\nexit code: 0"
    assert "403" in got["127.0.0.1"].content
    assert [request.split("\r\n")[0] for request in asked] == ["GET /path?q=1 HTTP/1.1"]


@pytest.mark.parametrize("kind", KINDS)
async def test_whoever_goes_around_the_proxy_reaches_nobody(
    tmp_path: Path, listeners: dict[str, Listener], kind: SandboxKind
):
    port = listeners["TCP"].address[1]
    with open_sandbox(kind, [tmp_path], tmp_path, [f"localhost:{port}"]) as sandbox:
        for name in NAMES:
            await run(sandbox, tmp_path, spoken(tmp_path, SAY, listeners[name]))
    assert not [name for name in NAMES if listeners[name].heard()]


@pytest.mark.parametrize("kind", KINDS)
async def test_commands_side_by_side_have_a_way_out_each(tmp_path: Path, kind: SandboxKind):
    tmp_path.joinpath("get.py").write_text(GET)
    async with web_server() as (port, _):
        with open_sandbox(kind, [tmp_path], tmp_path, [f"localhost:{port}"]) as sandbox:
            command = f"no_proxy= NO_PROXY= {PYTHON} get.py http://localhost:{port}/"
            found = await asyncio.gather(*(run(sandbox, tmp_path, command) for _ in range(3)))
    assert [outcome.content for outcome in found] == ["page\nexit code: 0"] * 3


@pytest.mark.parametrize(
    ("allowed", "host", "port", "is_covered"),
    [
        ("pypi.org", "pypi.org", 443, True),
        ("pypi.org", "PyPI.org.", 80, True),
        ("pypi.org", "pypi.org", 22, False),
        ("pypi.org:22", "pypi.org", 22, True),
        ("pypi.org:22", "pypi.org", 443, False),
        ("pypi.org", "evil-pypi.org", 443, False),
        ("pypi.org", "files.pypi.org", 443, False),
        ("*.pypi.org", "files.pypi.org", 443, True),
        ("*.pypi.org", "pypi.org", 443, False),
        ("*.pypi.org", "evilpypi.org", 443, False),
        ("pypi.org", "pypi.org.evil.example", 443, False),
    ],
)
def test_a_domain_covers_what_it_says(allowed: str, host: str, port: int, is_covered: bool):
    assert AllowedDomains([allowed]).covers(host, port) is is_covered


async def test_a_cancellation_while_the_way_out_is_closed_goes_on():
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with serve(AllowedDomains(())):
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(task.cancel)

    task = asyncio.create_task(work())
    await asyncio.wait([task])
    assert task.cancelled()
