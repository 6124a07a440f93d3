"""An error of the network names the hop that failed: the proxy, the name, the certificate or the server."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.models.talk import QUICK, talk

from sandbur.agent.models.connect import connect
from sandbur.state.errors import ModelError

VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
ELSEWHERE = "https://api.example.test/v1"


def answer(line: str) -> Callable[[socket.socket], None]:
    def send(peer: socket.socket) -> None:
        peer.recv(65_536)
        peer.sendall(f"HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())

    return send


def reset(peer: socket.socket) -> None:
    peer.recv(65_536)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextmanager
def serve(act: Callable[[socket.socket], None] | None) -> Iterator[int]:
    """Accept connections and act on each; without `act` the port refuses them. Yield the port."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if act is None:
            yield server.getsockname()[1]
            return
        server.listen(16)

        def accept() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    act(peer)

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            accepting.join()


async def fail(url: str, transport: str) -> str:
    env = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-test-key"}
    model = connect("openai-chat/m", env=env, retry=QUICK, transport=transport)
    try:
        with pytest.raises(ModelError) as failed:
            await talk(model)
    finally:
        await model.aclose()
    return str(failed.value)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("transport", ["http", "sdk"])
@pytest.mark.parametrize(
    ("act", "url", "named"),
    [
        (None, ELSEWHERE, "refuses the connection"),
        (answer("502 Bad Gateway"), ELSEWHERE, "answers 502"),
        (answer("407 Proxy Authentication Required"), ELSEWHERE, "wants a name and a password"),
        (answer("403 Forbidden"), ELSEWHERE, "does not let requests"),
        (reset, ELSEWHERE, "the connection through the proxy"),
        (answer("407 Proxy Authentication Required"), "http://api.example.test/v1", "wants a name"),
        (answer("502 Bad Gateway"), "http://api.example.test/v1", "or the proxy"),
    ],
)
async def test_a_proxy_that_fails_is_named_without_its_password(
    transport: str,
    act: Callable[[socket.socket], None] | None,
    url: str,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve(act) as port:
        for name in VARIABLES[:2]:
            monkeypatch.setenv(name, f"http://me:hunter2@127.0.0.1:{port}")
        message = await fail(url, transport)
    assert f"proxy 127.0.0.1:{port}" in message
    assert named in message
    assert "hunter2" not in message


@pytest.mark.parametrize("transport", ["http", "sdk"])
async def test_a_proxy_whose_name_is_unknown_is_named(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:3128")
    assert "annot find the proxy proxy.invalid:3128" in await fail(ELSEWHERE, transport)


@pytest.mark.parametrize("transport", ["http", "sdk"])
@pytest.mark.parametrize(("act", "named"), [(None, "the server refuses"), (reset, "cut before an answer")])
async def test_a_server_that_fails_is_named(
    transport: str, act: Callable[[socket.socket], None] | None, named: str
) -> None:
    with serve(act) as port:
        message = await fail(f"http://127.0.0.1:{port}/v1", transport)
    assert f"127.0.0.1:{port}" in message
    assert named in message
