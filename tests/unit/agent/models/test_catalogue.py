"""Which model is used when nobody named one."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from sandbur.agent.config.settings import DEFAULT_MODELS
from sandbur.agent.models.connect import DEMO, Address, choose_model, ollama_address
from sandbur.agent.models.providers import PROFILES


class Ollama(BaseHTTPRequestHandler):
    answer: bytes = b""
    status = 200
    delay_s = 0.0

    def do_GET(self) -> None:
        time.sleep(self.delay_s)
        with suppress(ConnectionError):  # Who waited for this answer may have left.
            self.send_response(self.status if self.path == "/api/tags" else 404)
            self.send_header("Content-Length", str(len(self.answer)))
            self.end_headers()
            self.wfile.write(self.answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def ollama() -> Iterator[type[Ollama]]:
    class Mine(Ollama):
        address = ""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Mine)
    server.daemon_threads = True
    Mine.address = f"127.0.0.1:{server.server_port}"
    thread = Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    yield Mine
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def nobody() -> Iterator[dict[str, str]]:
    """An environment whose Ollama address is taken by nobody."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield {"OLLAMA_HOST": f"127.0.0.1:{taken.getsockname()[1]}"}


def env_of(server: Any) -> dict[str, str]:
    return {"OLLAMA_HOST": server.address}


def names(*models: str) -> bytes:
    return json.dumps({"models": [{"name": name} for name in models]}).encode()


def test_a_named_model_is_used_without_a_word() -> None:
    assert choose_model("a/b", {"OPENAI_API_KEY": "x"}) == ("a/b", [])


@pytest.mark.parametrize(("variable", "model"), DEFAULT_MODELS)
def test_a_key_stands_for_its_provider(variable: str, model: str) -> None:
    assert choose_model(None, {variable: "x"}) == (model, [])
    for other in PROFILES[model.partition("/")[0]].key_env:
        assert choose_model(None, {other: "x"}) == (model, [])


def test_the_first_key_in_order_wins_and_an_empty_one_does_not_count() -> None:
    env = {variable: "x" for variable, _ in DEFAULT_MODELS}
    assert choose_model(None, env)[0] == DEFAULT_MODELS[0][1]
    env[DEFAULT_MODELS[0][0]] = " "
    assert choose_model(None, env)[0] == DEFAULT_MODELS[1][1]


def test_the_first_chat_model_of_a_local_ollama_is_used_and_said(ollama: type[Ollama]) -> None:
    ollama.answer = names("nomic-embed-text:latest", "bad name", "qwen3:8b", "other:1b")
    model, notices = choose_model(None, env_of(ollama))
    assert model == "ollama/qwen3:8b"
    assert len(notices) == 1
    assert model in notices[0]


def test_a_key_comes_before_ollama(ollama: type[Ollama]) -> None:
    ollama.answer = names("qwen3:8b")
    assert choose_model(None, {**env_of(ollama), "OPENAI_API_KEY": "x"})[0].startswith("openai/")


def test_with_nothing_set_up_it_is_the_demo_and_says_so(nobody: dict[str, str]) -> None:
    model, notices = choose_model(None, nobody)
    assert model == DEMO
    assert len(notices) == 1
    told, *lines = notices[0].splitlines()
    assert "the demo: a fixed program" in told
    assert lines == [*(f"  export {variable}=..." for variable, _ in DEFAULT_MODELS), "  ollama serve"]


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"<html>", b"[]", b"null", b"\xff", b"[" * 99_999,
        b'{"models": 3}', b'{"models": [1, {}, {"name": 2}, {"name": ""}]}',
    ],
)  # fmt: skip
def test_an_answer_that_is_none_of_ollamas_leads_to_the_demo(ollama: type[Ollama], answer: bytes) -> None:
    ollama.answer = answer
    assert choose_model(None, env_of(ollama))[0] == DEMO


def test_a_failing_server_leads_to_the_demo(ollama: type[Ollama]) -> None:
    ollama.answer, ollama.status = names("qwen3:8b"), 500
    assert choose_model(None, env_of(ollama))[0] == DEMO


def test_a_slow_server_is_not_waited_for(ollama: type[Ollama]) -> None:
    ollama.answer, ollama.delay_s = names("qwen3:8b"), 6.0
    begin = time.monotonic()
    assert choose_model(None, env_of(ollama))[0] == DEMO
    assert time.monotonic() - begin < 5


def test_a_server_that_is_no_web_server_leads_to_the_demo() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()
        assert choose_model(None, {"OLLAMA_HOST": f"127.0.0.1:{silent.getsockname()[1]}"})[0] == DEMO
        assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("", Address("127.0.0.1", 11434, False)),
        ("0.0.0.0", Address("127.0.0.1", 11434, False)),
        (":5000", Address("127.0.0.1", 5000, False)),
        ("box", Address("box", 11434, False)),
        ("box:1", Address("box", 1, False)),
        ("http://box", Address("box", 80, False)),
        ("http://box:11434/", Address("box", 11434, False)),
        ("https://box", Address("box", 443, True)),
        ("[::1]:1", Address("::1", 1, False)),
        ("[::]", Address("127.0.0.1", 11434, False)),
    ],
)
def test_the_address_is_read_as_ollama_reads_it(value: str, address: Address) -> None:
    assert ollama_address(value) == address


@pytest.mark.parametrize(
    "value", ["box:99999", "box:x", "http://[::1", "ftp://box", "a b", "\x00", "http://a\nb:x"]
)
def test_a_bad_address_is_no_address(value: str) -> None:
    assert ollama_address(value) is None
    assert choose_model(None, {"OLLAMA_HOST": value})[0] == DEMO
