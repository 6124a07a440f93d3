"""The clients that `sandbur serve client` writes: their types are right, and they work with a server."""

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support.network.cutting_proxy import CuttingProxy
from support.network.sandbur_server import RunningServer, serve
from support.required import lacks, require

from sandbur.ui.server.clients.client_model import read_document
from sandbur.ui.server.clients.python_client import write_python_client
from sandbur.ui.server.clients.typescript_client import write_typescript_client
from sandbur.ui.server.openapi import make_document
from sandbur.ui.server.routes.table import ROUTES

pytestmark = pytest.mark.slow

MESSAGES = 6
TSC = Path(sys.prefix, "typescript", "node_modules", ".bin", "tsc")
TYPESCRIPT_PROGRAM = """
import { ApiError, SandburClient, StreamReset, type Event } from "./sandbur_client.js";

declare const process: { argv: string[] };
declare const console: { log(text: string): void };

const [url = "", token = "", session = "", results = "0"] = process.argv.slice(2);
const client = new SandburClient({ url, token });
const seqs: number[] = [];
let left = Number(results);
for await (const event of client.events(session)) {
  if (event.seq !== undefined) seqs.push(event.seq);
  if (event.type === "result" && --left === 0) break;
}
const words = (event: Event): string => (event.type === "message" ? event.content : event.type);
const page = await client.listSessions({ limit: 5, status: "done" });
const begun = await client.createSession({ message: "hi", tags: ["ts"] });
const answers: string[] = [];
for await (const event of client.events(begun.session_id)) {
  if (event.type === "message" && event.role === "assistant") answers.push(words(event));
  if (event.type === "result") break;
}
let refused = "";
try {
  await client.showSession("nothing");
} catch (error) {
  if (error instanceof ApiError) refused = `${error.status} ${error.type}`;
}
let reset = "";
try {
  for await (const event of client.events(session, { after: "other_1" })) reset = words(event);
} catch (error) {
  if (error instanceof StreamReset) reset = error.reason;
}
await client.renameSession(begun.session_id, { title: "from TypeScript" });
const title = (await client.showSession(begun.session_id)).title;
const fork = await client.forkSession(begun.session_id);
if (fork.session_id === begun.session_id) throw new Error("the fork is the session itself");
const sessions = page.sessions.map((one) => one.id);
console.log(JSON.stringify({ seqs, sessions, answers, refused, reset, title }));
"""


def make_model() -> Any:
    return read_document(make_document(ROUTES))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serve(tmp_path_factory.mktemp("served"), "--mode", "yolo") as running:
        running.begin("s1", "run echo hello")
        for number in range(1, MESSAGES):
            running.ask("POST", "/v1/sessions/s1/messages", {"content": f"run echo {number}"})
        with running.stream("s1") as events:
            for _ in range(MESSAGES):
                next(event for event in events if event.data["type"] == "result")
        yield running


@pytest.fixture(scope="module")
def stored(server: RunningServer) -> list[int]:
    """The numbers of all events of the session."""
    with server.stream("s1") as events:
        found: list[int] = []
        for _ in range(MESSAGES):
            for event in events:
                found.append(event.data["seq"])
                if event.data["type"] == "result":
                    break
        return found


@pytest.fixture(scope="module")
def python_client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The generated module, loaded from a file of its own."""
    path = tmp_path_factory.mktemp("client") / "sandbur_client.py"
    path.write_text(write_python_client(make_model()), "utf-8")
    spec = importlib.util.spec_from_file_location("sandbur_client", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_command_writes_the_same_client_each_time(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sandbur.ui.cli.main", "serve", "client", "python"]
    environment = {"PATH": "/usr/bin", "SANDBUR_HOME": str(tmp_path / "home")}
    printed = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    file = tmp_path / "client.py"
    subprocess.run([*command, "-o", file], capture_output=True, env=environment, check=True)
    assert printed == file.read_text("utf-8") == write_python_client(make_model())


def test_every_route_of_the_server_has_a_method_unless_it_speaks_a_protocol_of_others(
    python_client: Any,
) -> None:
    own = {route.name.removeprefix("stream_") for route in ROUTES if not route.protocol}
    assert own <= set(vars(python_client.SandburClient))
    assert {route.protocol for route in ROUTES} == {"", "OpenAI", "AG-UI", "A2A", "MCP"}
    typescript = write_typescript_client(make_model())
    assert all(f"  {_camel(name)}(" in typescript or f"async {_camel(name)}(" in typescript for name in own)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def test_the_python_client_is_typed_strictly(python_client: Any) -> None:
    program = Path(python_client.__file__).with_name("program.py")
    program.write_text(PYTHON_PROGRAM, "utf-8")
    wrong = program.with_name("wrong.py")
    wrong.write_text(WRONG_PROGRAM, "utf-8")
    config = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "include": ["."]}
    program.with_name("pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    run = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, check=False)
    found = [
        (Path(one["file"]).name, one["range"]["start"]["line"], one.get("rule"))
        for one in json.loads(run.stdout)["generalDiagnostics"]
    ]
    lines = range(len(WRONG_PROGRAM.splitlines()))
    assert [one for one in found if one[0] != "wrong.py"] == []
    assert {line for _, line, _ in found} == {n for n in lines if "# wrong" in WRONG_PROGRAM.splitlines()[n]}


PYTHON_PROGRAM = """
# pyright: strict
from sandbur_client import SandburClient


async def main(client: SandburClient) -> str:
    begun = await client.create_session(message=[{"type": "text", "text": "hi"}], tags=["a"])
    async for event in client.events(begun["session_id"]):
        if event["type"] == "approval":
            calls = [one["call_id"] for one in event["pending"]]
            await client.approve_calls(begun["session_id"], calls=calls)
        elif event["type"] == "result":
            return event["result"] or ""
    page = await client.list_sessions(limit=3)
    return page["sessions"][0]["title"]
"""
WRONG_PROGRAM = """
# pyright: strict
from sandbur_client import SandburClient


async def main(client: SandburClient) -> None:
    await client.create_session(mesage="hi")  # wrong
    await client.list_sessions(limit="3")  # wrong
    await client.settle_call("s1", call="c1", outcome="perhaps")  # wrong
    print((await client.show_session("s1"))["titel"])  # wrong
"""


def test_the_python_client_sends_every_kind_of_request(server: RunningServer, python_client: Any) -> None:
    async def run() -> None:
        client = python_client.SandburClient(f"http://127.0.0.1:{server.port}", server.token)
        assert (await client.check_health())["status"] == "ok"
        assert "sandbur_requests_total" in await client.show_metrics()
        picture = {"type": "document", "name": "a.txt", "source": {"data": "aGVsbG8="}}
        content = [picture, {"type": "text", "text": "hi"}]
        begun = await client.create_session(session_id="py", message=content)
        async with aclosing(client.events(begun["session_id"])) as events:
            kinds = [event["type"] async for event in _until_result(events)]
        assert kinds[-1] == "result"
        (file,) = (await client.list_files("py"))["attached"]
        assert await client.download_file("py", file["digest"]) == b"hello"
        assert (await client.rename_session("py", title="Ünïcode"))["title"] == "Ünïcode"
        assert (await client.list_sessions(children=False, limit=1))["sessions"][0]["id"] == "py"
        assert (await client.delete_session("py"))["deleted"] == ["py"]
        with pytest.raises(python_client.ApiError) as caught:
            await client.show_session("py/../s1?x=1")
        assert (caught.value.status, caught.value.type) == (404, "not_found")

    asyncio.run(run())


async def _until_result(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for event in events:
        yield event
        if event["type"] == "result":
            return


@pytest.mark.parametrize("seed", range(3))
def test_the_python_client_gets_each_stored_event_once_through_a_proxy_that_cuts(
    server: RunningServer, stored: list[int], python_client: Any, seed: int
) -> None:
    async def run(url: str) -> list[int]:
        client = python_client.SandburClient(url, server.token)
        found: list[int] = []
        async with aclosing(client.events("s1")) as events:
            async for event in events:
                if "seq" in event:
                    found.append(event["seq"])
                if found[-1:] == stored[-1:]:
                    return found
        return found

    with CuttingProxy(server.port, seed, cuts=8) as proxy:
        assert asyncio.run(run(proxy.url)) == stored
    assert proxy.cuts > 4


def test_the_python_client_ends_with_its_session_and_says_when_an_id_is_unknown(
    server: RunningServer, python_client: Any
) -> None:
    async def run() -> None:
        client = python_client.SandburClient(f"http://127.0.0.1:{server.port}", server.token)
        with pytest.raises(python_client.StreamReset, match="unknown_event"):
            await anext(client.events("s1", after="s1_999999000"))
        with pytest.raises(python_client.ApiError, match="session"):
            await anext(client.events("nothing"))
        await client.create_session(session_id="gone", message="hi")
        async with aclosing(client.events("gone")) as events:
            async for event in events:
                if event["type"] == "result":
                    await client.delete_session("gone")

    asyncio.run(run())


def test_the_python_client_gives_up_when_no_server_answers_for_its_patience(python_client: Any) -> None:
    async def run() -> None:
        client = python_client.SandburClient("http://127.0.0.1:9", "token")
        with pytest.raises(OSError, match="Connect"):
            await anext(client.events("s1", patience_s=0.0))

    asyncio.run(run())


def test_the_typescript_client_is_typed_strictly_and_works(
    server: RunningServer, stored: list[int], tmp_path: Path
) -> None:
    require("node")
    if not TSC.exists():
        lacks("typescript is not installed; `tests/run` installs it with npm")
    (tmp_path / "sandbur_client.ts").write_text(write_typescript_client(make_model()), "utf-8")
    (tmp_path / "program.ts").write_text(TYPESCRIPT_PROGRAM, "utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    options = ["strict", "noUncheckedIndexedAccess", "exactOptionalPropertyTypes", "noUnusedLocals"]
    config = {name: True for name in options} | {
        "target": "es2022", "module": "es2022", "moduleResolution": "bundler",
        "lib": ["es2022", "dom", "dom.iterable"], "types": [],
    }  # fmt: skip
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": config, "include": ["*.ts"]}))
    compiled = subprocess.run([TSC, "-p", "."], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert compiled.stdout == ""
    with CuttingProxy(server.port, 5, cuts=8) as proxy:
        command = ["node", "program.js", proxy.url, server.token, "s1", str(MESSAGES)]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert run.stderr == ""
    found = json.loads(run.stdout)
    assert found.pop("seqs") == stored
    assert "s1" in found.pop("sessions")
    assert len(found.pop("answers")) == 1
    assert found == {"refused": "404 session_not_found", "reset": "other_session", "title": "from TypeScript"}
    assert proxy.cuts > 4
