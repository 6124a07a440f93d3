"""Connections of strangers: they end in time, and however many there are, a valid token is served."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.network.sandbur_server import RunningServer, serve
from support.waiting import wait_for

FILES, STRANGERS = 1024, 1200
FEW_FILES = (
    "-c",
    f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))\n"
    "from sandbur.ui.cli.main import main\nmain()",
)
LIMIT_S = 1
"""What the server waits for a request. A real client needs less, here, even if the machine is busy."""
CONTENT = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    home = tmp_path_factory.mktemp("served")
    with serve(home, "--request-timeout", str(LIMIT_S)) as running:
        yield running


def connect(port: int, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0))


def read_all(connection: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    found = bytearray()
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionError:
        pass
    return bytes(found)


def drip(connection: socket.socket, piece: bytes) -> bytes:
    """Send a piece again and again until the server closes the connection; return its answer."""
    connection.settimeout(0.05)
    found, latest = bytearray(), time.monotonic() + 60
    while time.monotonic() < latest:
        try:
            connection.sendall(piece)
            if not (part := connection.recv(65536)):
                return bytes(found)
            found += part
        except TimeoutError:
            continue
        except ConnectionError:
            return bytes(found)
    raise AssertionError(f"The connection is open after a minute; its answer is {bytes(found)!r}")


def read_logs(running: RunningServer) -> str:
    home = Path(running.environment["SANDBUR_HOME"])
    logs = [home.parent / "server.err", *home.rglob("*.log")]
    return "\n".join(path.read_text() for path in logs if path.exists())


@pytest.mark.parametrize(
    ("begun", "piece", "status"),
    [
        (b"", b"", b""),
        (b"", b"\r\n", b"400"),
        (b"GET /v1/sessions HTTP/1.1\r\nHost: lo", b"", b"408"),
        (b"GET /v1/sessions HTTP/1.1\r\nX-Long: ", b"a", b"408"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1/ses", b"", b"200"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\r\n", b"200"),
        (b"POST /v1/sessions HTTP/1.1\r\n" + CONTENT + b"\r\n{", b"", b"401"),
        (b"POST /v1/sessions HTTP/1.1\r\n" + CONTENT + b"\r\n{", b" ", b"401"),
        (b"POST /v1/sessions HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\n" + CONTENT + b"\r\n{", b"", b"408"),
        (b"POST /v1/sessions HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\n" + CONTENT + b"\r\n{", b" ", b"408"),
    ],
    ids=[
        "nothing", "empty lines", "half of a header", "a header that never ends", "half of a second header",
        "empty lines after a request", "a body that is not read", "a slow body that is not read",
        "half of a body", "a slow body",
    ],
)  # fmt: skip
def test_a_request_that_does_not_end_is_ended(
    served: RunningServer, begun: bytes, piece: bytes, status: bytes
) -> None:
    with connect(served.port) as connection:
        connection.sendall(begun.replace(b"TOKEN", served.token.encode()))
        answer = drip(connection, piece) if piece else read_all(connection)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer)[:1] == [status] * bool(status)
    assert "Traceback" not in read_logs(served)


def test_a_body_that_comes_steadily_may_take_longer_than_the_limit(served: RunningServer) -> None:
    body = b'{"session_id": "steady", "message": "' + b"x" * 4000 + b'"}'
    head = (
        f"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with connect(served.port) as connection:
        connection.sendall(head.encode())
        began = time.monotonic()
        for at in range(0, len(body), 500):
            connection.sendall(body[at : at + 500])
            wait_for(lambda at=at: time.monotonic() > began + (at + 500) / 500 * LIMIT_S * 0.2)
        assert read_all(connection).startswith(b"HTTP/1.1 201")
    assert time.monotonic() > began + LIMIT_S


def test_an_open_stream_has_no_limit(served: RunningServer) -> None:
    served.begin("streamed")
    with served.stream("streamed") as events:
        began = time.monotonic()
        wait_for(lambda: time.monotonic() > began + 2 * LIMIT_S)
        served.ask("POST", "/v1/sessions/streamed/messages", {"content": "hello"})
        assert any(event.data["type"] == "result" for event in events)


def hold(stack: ExitStack, port: int, number: int, begun: bytes, addresses: int) -> None:
    for one in range(number):
        connection = stack.enter_context(connect(port, f"127.0.1.{one % addresses + 1}"))
        connection.sendall(begun)


@pytest.mark.parametrize(
    ("addresses", "begun"),
    [
        (1, b""),
        (200, b"GET /v1/se"),
        (1, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        (200, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ],
    ids=["nothing", "half of a header, many addresses", "one request", "one request, many addresses"],
)
def test_a_valid_token_is_served_whatever_strangers_hold_open(
    tmp_path: Path, addresses: int, begun: bytes
) -> None:
    with serve(tmp_path, program=FEW_FILES) as running, ExitStack() as stack:
        hold(stack, running.port, STRANGERS, begun, addresses)
        statuses = [running.ask("GET", "/v1/agents").status for _ in range(20)]
        running.begin("beside", "hello")
        assert running.wait_for("beside", "done")["status"] == "done"
        assert statuses == [200] * 20
        logs = read_logs(running)
    assert "Traceback" not in logs
    assert "concurrency" not in logs


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_an_address_holds_few_connections_without_a_token_and_any_number_with_one(tmp_path: Path) -> None:
    request = "GET /v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n"
    with serve(tmp_path, "--connections-per-address", "5") as running, ExitStack() as stack:
        known: list[socket.socket] = []
        for _ in range(12):
            known.append(stack.enter_context(connect(running.port)))
            known[-1].sendall(request.format(running.token).encode())
            assert known[-1].recv(65536).startswith(b"HTTP/1.1 200")
        strangers = [stack.enter_context(connect(running.port)) for _ in range(12)]
        elsewhere = stack.enter_context(connect(running.port, "127.0.1.9"))
        wait_for(lambda: sum(map(is_closed, strangers)) == 7)
        assert list(map(is_closed, strangers)) == [True] * 7 + [False] * 5
        assert not any(map(is_closed, [*known, elsewhere]))
