"""Requests straight over HTTP: their headers, their connections, and where the way to a server is lost."""

import asyncio
import contextlib
import gzip
import subprocess
import sys
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.models.server import ModelServer, Raw, say
from support.models.talk import NAMES, QUICK, ROADS, WIRES, ask_model, connect_to_model, environment, talk
from support.models.wires import Wire, events_of
from support.network.certificates import Authority
from support.network.connect_proxy import ConnectProxy
from support.places import TESTS

from sandbur.agent.models.connect import connect
from sandbur.agent.models.model import RetryPolicy
from sandbur.agent.models.providers import ProviderOverride
from sandbur.agent.runtime.version import VERSION
from sandbur.state.conversation.messages import person_message
from sandbur.state.errors import ModelError, Overloaded, Unreachable

pytestmark = pytest.mark.slow

every_wire = pytest.mark.parametrize("wire", WIRES)
every_road = pytest.mark.parametrize("road", ROADS)
OF_EVERY_REQUEST = {
    "authorization", "x-api-key", "anthropic-version", "content-type", "accept",
    "openai-organization", "openai-project", "x-own", "content-length", "host",
}  # fmt: skip
BEGIN = b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\n"
FINE = b'data: {"choices":[{"delta":{"content":"fine"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def at(url: str) -> dict[str, str]:
    addresses = {f"{name}_BASE_URL": url for name in ("OPENAI", "ANTHROPIC")}
    return {**addresses, "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}


@every_wire
async def test_both_transports_send_the_same_request(wire: str):
    async with ModelServer([say("a"), say("b")]) as server:
        for road in (wire, f"{wire} sdk"):
            async with connect_to_model(server, road) as model:
                await talk(model)
        ours, theirs = server.requests
    assert (ours.path, ours.raw) == (theirs.path, theirs.raw)
    assert _kept(ours.headers) == _kept(theirs.headers)
    assert ours.headers["user-agent"] == f"sandbur/{VERSION}"
    assert ours.headers["accept-encoding"] == "identity"  # a packed stream would come in larger pieces
    assert not [name for name in ours.headers if name.startswith("x-stainless")]


def _kept(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name in OF_EVERY_REQUEST}


@pytest.mark.parametrize(("name", "host"), [("openai", "api.openai.com"), ("anthropic", "api.anthropic.com")])
async def test_the_company_itself_is_reached_through_the_proxy_with_the_headers_of_the_environment(
    name: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    authority = Authority(tmp_path)
    tls = authority.issue(host).server_context()
    said = {"OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"}
    said |= {f"{name.upper()}_CUSTOM_HEADERS": "X-Own: yes\nno header"}
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    async with ModelServer([say("a"), say("b")], tls=tls) as server:
        with ConnectProxy(server.port) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
            for transport in ("http", "sdk"):
                env = {f"{name.upper()}_API_KEY": "sk-own", **said}
                async with connect_to_model(server, f"{name}/m", env=env, transport=transport) as model:
                    assert (await talk(model)).reply.message.text in "ab"
                for variable, value in said.items():
                    monkeypatch.setenv(variable, value)  # An SDK reads the environment of the process.
            assert proxy.asked == [f"CONNECT {host}:443 HTTP/1.1"] * 2
        ours, theirs = server.requests
    assert _kept(ours.headers) == _kept(theirs.headers)
    assert ours.headers["x-own"] == "yes"
    assert ours.headers["authorization"] == "Bearer sk-own"
    assert ("openai-organization" in ours.headers) == (name == "openai")


@pytest.mark.parametrize(("usual", "own", "user_agent"), [
    ("http", None, "sandbur/"), ("sdk", None, "AsyncOpenAI"), ("http", "sdk", "AsyncOpenAI"),
    ("sdk", "http", "sandbur/"),
])  # fmt: skip
async def test_a_provider_may_be_asked_in_another_way_than_all_others(
    usual: str, own: str | None, user_agent: str
):
    async with ModelServer([say("a")]) as server:
        mine = {"mine": ProviderOverride(server.base_url, transport=own)}  # pyright: ignore[reportArgumentType]
        async with connect_to_model(server, "mine/m", env={}, providers=mine, transport=usual) as model:
            await talk(model)
        assert server.requests[0].headers["user-agent"].startswith(user_agent)


@every_road
async def test_a_certificate_that_nobody_vouches_for_is_told(
    road: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path / "other").certificate))
    tls = Authority(tmp_path).issue("127.0.0.1").server_context()
    async with ModelServer([say("a")], tls=tls) as server, connect_to_model(server, road) as model:
        with pytest.raises(Unreachable, match="does not verify"):
            await talk(model)


@pytest.mark.parametrize(
    ("variable", "excepted"),
    [("HTTP_PROXY", "127.0.0.1"), ("http_proxy", "10.0.0.0/8, 127.0.0.0/8"), ("ALL_PROXY", "*")],
)
async def test_a_proxy_is_asked_unless_the_host_is_excepted(
    variable: str, excepted: str, monkeypatch: pytest.MonkeyPatch
):
    async with ModelServer([say("a")]) as server:
        with ConnectProxy(server.port) as proxy:
            monkeypatch.setenv(variable, proxy.url)
            async with connect_to_model(server, "chat") as model:
                with pytest.raises(ModelError, match="418"):
                    await talk(model)
            assert proxy.asked == [f"POST {server.base_url}/chat/completions HTTP/1.1"]
            monkeypatch.setenv("NO_PROXY", excepted)
            async with connect_to_model(server, "chat") as model:
                assert (await talk(model)).reply.message.text == "a"


async def test_the_password_of_a_proxy_goes_to_the_proxy_alone(monkeypatch: pytest.MonkeyPatch):
    async with ModelServer([say("a")]) as server:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:s%40cret@127.0.0.1:{server.port}")
        async with connect_to_model(server, "chat", env=at("http://model.invalid/v1")) as model:
            assert (await talk(model)).reply.message.text == "a"
        (request,) = server.requests
    assert request.headers["proxy-authorization"] == f"Basic {b64encode(b'me:s@cret').decode()}"
    assert (request.headers["host"], request.headers["authorization"]) == ("model.invalid", "Bearer k")


async def test_the_password_in_an_address_is_sent_instead_of_a_key_and_is_in_no_message():
    async with ModelServer([say("a"), Raw(b"", 307, {"Location": "http://h/"}), Raw(b"<p>")]) as server:
        url = server.base_url.replace("://", "://me:secret@")
        async with connect_to_model(server, "chat", env=at(url)) as model:
            await talk(model)
            for shown in (f"{server.base_url} redirects", f"{server.base_url} answered with a web page"):
                with pytest.raises(ModelError) as failed:
                    await talk(model)
                assert failed.value.message.startswith(shown)
        headers = server.requests[0].headers
    assert headers["authorization"] == f"Basic {b64encode(b'me:secret').decode()}"
    assert "@" not in headers["host"]


@every_road
async def test_nobody_is_followed_elsewhere(road: str):
    async with ModelServer([say("stolen")]) as other:
        away = Raw(b"", 307, {"Location": f"{other.base_url}/chat/completions"})
        async with ModelServer([away]) as server, connect_to_model(server, road) as model:
            with pytest.raises(ModelError, match=r"redirects elsewhere \(307\)"):
                await talk(model)
        assert other.requests == []


@every_wire
@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
async def test_a_compressed_answer_is_read(wire: Wire, encoding: str, pack: Callable[[bytes], bytes]):
    body = b"".join(events_of(wire, say("fine words"), "m", 100))
    answer = Raw(pack(body), 200, {"Content-Encoding": encoding}, "text/event-stream")
    async with ModelServer([answer]) as server, connect_to_model(server, wire) as model:
        assert (await talk(model)).reply.message.text == "fine words"


@every_wire
async def test_a_damaged_compression_is_tried_again(wire: str):
    broken = Raw(b"no gzip at all", 200, {"Content-Encoding": "gzip"}, "text/event-stream")
    async with ModelServer([broken, say("fine")]) as server, connect_to_model(server, wire) as model:
        assert (await talk(model)).reply.message.text == "fine"


async def test_of_a_huge_error_answer_only_the_beginning_is_read():
    huge = Raw(b'{"error": {"message": "' + b"x" * (8 << 20) + b'"}}', 400)
    async with ModelServer([huge]) as server, connect_to_model(server, "chat") as model:
        with pytest.raises(ModelError, match=r"refused the request \(400\)") as caught:
            await talk(model)
    assert len(str(caught.value)) < 1000


@asynccontextmanager
async def closing_server(answered: tuple[int, ...]) -> AsyncIterator[tuple[str, list[int]]]:
    """Answer so many requests on each connection, then close it upon the next one, unanswered.

    Yields the address and a list of how many requests came on each connection; the last number stands for
    all later connections.
    """
    counts: list[int] = []
    tasks: list[asyncio.Task[None] | None] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        place = len(counts)
        counts.append(0)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                await reader.readexactly(int(head.partition("content-length: ")[2].split("\r\n")[0]))
                counts[place] += 1
                if counts[place] > answered[min(place, len(answered) - 1)]:
                    break
                writer.write(BEGIN + b"Content-Length: %d\r\n\r\n" % len(FINE) + FINE)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", counts
        await asyncio.gather(*filter(None, tasks))


async def test_a_connection_that_closes_under_the_next_request_is_replaced_in_silence():
    async with closing_server((1, 9)) as (url, counts):
        model = connect("openai/m", env={"OPENAI_BASE_URL": url}, retry=QUICK)
        first, second, third = [await talk(model) for _ in range(3)]
        await model.aclose()
    assert [heard.reply.message.text for heard in (first, second, third)] == ["fine"] * 3
    assert second.notices == []
    assert counts == [2, 2]


async def test_a_new_connection_that_closes_without_an_answer_is_a_failure_that_is_seen():
    async with closing_server((0, 9)) as (url, counts):
        model = connect("openai/m", env={"OPENAI_BASE_URL": url}, retry=QUICK)
        heard = await talk(model)
        await model.aclose()
    assert heard.reply.message.text == "fine"
    assert len(heard.notices) == 1
    assert "without sending a response" in heard.notices[0]
    assert counts == [1, 1]


async def test_a_request_is_sent_again_in_silence_only_once():
    async with closing_server((1, 0, 9)) as (url, counts):
        model = connect("openai/m", env={"OPENAI_BASE_URL": url}, retry=QUICK)
        await talk(model)
        heard = await talk(model)
        await model.aclose()
    assert heard.reply.message.text == "fine"
    assert len(heard.notices) == 1
    assert counts == [2, 1, 1]


@pytest.mark.parametrize("answers", [b"", BEGIN + b"\r\ndata: {"], ids=["nothing", "half"])
@every_road
async def test_who_is_cancelled_closes_the_connection(road: str, answers: bytes):
    asked_for, closed = asyncio.Event(), asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers)
        asked_for.set()
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 16):
                pass
        closed.set()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        name, _, transport = road.partition(" ")
        env = at(url)
        model = connect(NAMES[name], env=env, transport="sdk" if transport else "http")
        task = asyncio.create_task(talk(model, ask_model(person_message("hello"))))
        await asyncio.wait_for(asked_for.wait(), 60)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(closed.wait(), 60)
        await model.aclose()
        await asyncio.sleep(0)


@every_road
async def test_the_models_of_two_servers_keep_their_keys_to_themselves(road: str):
    from sandbur.agent.models.transport.clients import Clients

    clients = Clients()
    async with ModelServer([say("a")]) as one, ModelServer([say("b")]) as two:
        for server, key in ((one, "key-one"), (two, "key-two")):
            async with connect_to_model(server, road, env=environment(server, key), clients=clients) as model:
                await talk(model)
        heard = [server.requests[0].headers["authorization"] for server in (one, two)]
    assert heard == ["Bearer key-one", "Bearer key-two"]


OUT_OF_FILES = """
import asyncio, os, resource, sys
from sandbur.agent.models.connect import connect
from sandbur.agent.models.model import RetryPolicy
from sandbur.actions.ports import ModelRequest
from sandbur.state.errors import SandburError
from sandbur.state.conversation.messages import person_message
from sandbur.state.conversation.transcript import Transcript

url, name, transport = sys.argv[1:]
env = {"OPENAI_BASE_URL": url, "ANTHROPIC_BASE_URL": url, "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}

async def main():
    model = connect(name, env=env, transport=transport, retry=RetryPolicy(max_tries=2, first_delay_s=0.001))
    request = ModelRequest("", (), (Transcript.of(person_message("hello")),), None)
    assert [event async for event in model.stream(request)]
    await model.aclose()
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    other = connect(name, env=env, transport=transport)
    try:
        async for _ in other.stream(request):
            pass
    except SandburError as error:
        print(type(error).__name__, error, flush=True)
    finally:
        [os.close(fd) for fd in taken]

asyncio.run(main())
"""


@pytest.mark.parametrize("transport", ["http", "sdk"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_process_out_of_descriptors_says_so_and_not_that_nobody_is_there(host: str, transport: str):
    with ModelServer([say("a")] * 3, check=False) as server:
        done = subprocess.run(
            [sys.executable, "-c", OUT_OF_FILES, f"http://{host}:{server.port}/v1", "openai/m", transport],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.stdout.startswith("Exhausted The system allows no more open files."), done
    assert "ulimit -n" in done.stdout


@every_road
async def test_a_host_that_does_not_exist_is_told_at_once(road: str):
    env = at("http://no-such-host.invalid/v1")
    name, _, transport = road.partition(" ")
    model = connect(NAMES[name], env=env, transport="sdk" if transport else "http", retry=QUICK)
    with pytest.raises(Unreachable, match=r"annot find the host"):
        await talk(model)
    await model.aclose()


@pytest.mark.parametrize("url", ["http://a..b/v1", "http://xn--a/v1", "http://127.0.0.1:1/v1"])
async def test_an_address_of_no_host_is_a_failure_in_words(url: str):
    env = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"}
    with pytest.raises((ModelError, Overloaded)):
        await talk(connect("openai/m", env=env, retry=RetryPolicy(max_tries=1)))


def test_asking_over_http_imports_no_sdk():
    code = (
        "import asyncio, sys\nfrom support.models.server import ModelServer, say\n"
        "from support.models.talk import WIRES, connect_to_model, talk\n"
        "async def main():\n"
        "    for wire in WIRES:\n"
        "        async with ModelServer([say('a')]) as server, connect_to_model(server, wire) as model:\n"
        "            await talk(model)\n"
        "asyncio.run(main())\n"
        "print(sorted({'openai', 'anthropic', 'httpx2', 'rich', 'click', 'h2', 'boto3'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60,
        cwd=TESTS,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
