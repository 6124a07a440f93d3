"""`execute_python` in the command: its setting, questions that another process answers, replay, its page."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import uuid
from asyncio.subprocess import DEVNULL
from pathlib import Path

import pytest
from support.commands.command import Command, Ended
from support.models.server import ModelServer, call, say
from support.network.otlp_receiver import OtlpReceiver
from support.places import ROOT
from support.screens.editor import editing
from support.tools.sandboxes import require_code_sandbox
from support.waiting import until

PAGE = (ROOT / "docs/python.md").read_text("utf-8")
ON = {"SANDBUR_EXECUTE_PYTHON": "1"}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]


@pytest.fixture(autouse=True)
def _needs_sandbox() -> None:
    require_code_sandbox()


def key(server: ModelServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{server.base_url}/v1"}


async def run(command: Command, server: ModelServer, *words: str, **env: str) -> Ended:
    return await asyncio.to_thread(lambda: command.run(*words, **(key(server) | env)))


def tools_of(server: ModelServer) -> dict[str, str]:
    """Return the descriptions of the tools in the last request, by name."""
    found = (tool["function"] for tool in server.requests[-1].body["tools"])
    return {tool["name"]: tool["description"] for tool in found}


def results(server: ModelServer) -> list[str]:
    messages = server.requests[-1].body["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


async def test_the_tool_is_there_only_where_the_setting_asks_for_it(command: Command) -> None:
    async with ModelServer([say("fine"), say("fine")]) as server:
        words = ("-m", "openai-chat/scripted", "-p", "go")
        await run(command, server, *words)
        assert "execute_python" not in tools_of(server)
        await run(command, server, *words, **ON)
        offered = tools_of(server)
    assert "def read_file(path: str, offset: int = None" in offered["execute_python"]
    assert "def run_shell_command(command: str" in offered["execute_python"]
    assert "read_file" in offered


async def test_another_process_approves_a_call_of_the_code_and_the_run_replays(command: Command) -> None:
    command.folder.joinpath("a.txt").write_text("one\n")
    code = "text = read_file('a.txt')\nwrite_file('b.txt', 'two\\n')\nread_file('b.txt')"
    async with ModelServer([call("execute_python", code=code), say("done")]) as server:
        words = ("-m", "openai-chat/scripted", "--output-format", "stream-json", "-p", "go")
        asked = await run(command, server, *words, **ON)
        assert asked.code == 3, asked.err
        lines = [json.loads(line) for line in asked.out.splitlines()]
        parents = {
            line["call_id"]: line.get("parent_call_id") for line in lines if line["type"] == "tool_use"
        }
        parent = next(iter(parents))
        assert parents == {parent: None, f"{parent}/1": parent, f"{parent}/2": parent}
        session = lines[-1]["session_id"]
        assert [one["call_id"] for one in lines[-1]["pending"]] == [f"{parent}/2"]
        assert not command.folder.joinpath("b.txt").exists()
        decided = ("approve", session, f"{parent}/2", "--output-format", "json")
        ended = await run(command, server, *decided, **ON)
        assert (ended.code, ended.result["status"]) == (0, "done"), ended.err
        assert "two" in results(server)[-1]
    assert command.folder.joinpath("b.txt").read_text() == "two\n"
    for words in (("sessions", "verify", session), ("replay", session), ("sessions", "show", session)):
        checked = command.run(*words, **ON)
        assert checked.code == 0, checked.out + checked.err


async def test_a_killed_call_of_unknown_outcome_is_settled_and_the_code_goes_on(command: Command) -> None:
    started, session = command.folder / "started", str(uuid.uuid4())
    code = "run_shell_command('echo x >> started; sleep 1000')"
    turns = [call("execute_python", code=f"print(read_file('a.txt'))\n{code}"), say("done")]
    command.folder.joinpath("a.txt").write_text("one\n")
    async with ModelServer(turns) as server:
        words = (
            "-m",
            "openai-chat/scripted",
            "--session-id",
            session,
            "-p",
            "go",
            "--allow",
            "run_shell_command",
        )
        process = await asyncio.create_subprocess_exec(
            *command.line(*words), cwd=command.folder, env=command.env | key(server) | ON,
            stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL,
        )  # fmt: skip
        await until(started.exists)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        resumed = await run(command, server, "-p", "-r", session, "--output-format", "json", **ON)
        assert (resumed.code, resumed.result["status"]) == (3, "needs_decision"), resumed.out + resumed.err
        (pending,) = resumed.result["pending"]
        assert (pending["tool"], pending["kind"]) == ("run_shell_command", "outcome_unknown")
        settle = ("settle", session, pending["call_id"], "--as", "done", "--result", "it had slept")
        ended = await run(command, server, *settle, "--output-format", "json", **ON)
        assert (ended.code, ended.result["status"]) == (0, "done"), ended.err
        assert "it had slept" in results(server)[-1]
        assert "one" in results(server)[-1]
    assert started.read_text() == "x\n"
    checked = command.run("sessions", "verify", session)
    assert checked.code == 0, checked.out + checked.err


def test_a_program_of_the_page_runs(command: Command) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    file = Path(command.folder / "program.py")
    file.write_text(program)
    words = [sys.executable, "-W", "error", "program.py"]
    done = subprocess.run(words, cwd=command.folder, env=command.env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Three are late.\n"


async def test_an_editor_has_the_calls_of_the_code_live_and_when_it_loads_the_session(
    command: Command,
) -> None:
    command.folder.joinpath("a.txt").write_text("one\n")
    code = "read_file('a.txt')\nwrite_file('b.txt', 'two\\n')"
    async with ModelServer([call("execute_python", code=code), say("done")]) as server:
        env = {"SANDBUR_MODEL": "openai-chat/scripted", **key(server), **ON}
        async with editing(command, **env) as editor:
            made = await editor.agent.new_session(cwd=str(command.folder), mcp_servers=[])
            await editor.prompt(made.session_id, "go")
        async with editing(command, **env) as later:
            await later.agent.load_session(
                session_id=made.session_id, cwd=str(command.folder), mcp_servers=[]
            )
    (asked,) = editor.asked
    (python, read, write) = editor.of("tool_call")
    assert asked.call.tool_call_id == write.tool_call_id
    assert [one.field_meta for one in (python, read, write)] == [
        None,
        {"sandbur": {"parentToolCallId": python.tool_call_id}},
        {"sandbur": {"parentToolCallId": python.tool_call_id}},
    ]
    assert [one.title for one in later.of("tool_call")] == [python.title, "read a.txt", "write b.txt"]
    ends = {one.tool_call_id: one.status for one in later.of("tool_call_update")}
    assert ends == dict.fromkeys((one.tool_call_id for one in (python, read, write)), "completed")


async def test_the_spans_of_the_calls_are_below_that_of_the_code(command: Command) -> None:
    command.folder.joinpath("a.txt").write_text("one\n")
    with OtlpReceiver() as receiver:
        traced = {"SANDBUR_OTEL": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
        async with ModelServer([call("execute_python", code="read_file('a.txt')"), say("done")]) as server:
            ended = await run(command, server, "-m", "openai-chat/scripted", "-p", "go", **ON, **traced)
        assert ended.code == 0, ended.err
        spans = {span.name: span for span in receiver.spans}
    assert spans["execute_tool read_file"].parent_id == spans["execute_tool execute_python"].span_id
    assert spans["execute_tool execute_python"].parent_id == spans["invoke_agent sandbur"].span_id


async def test_the_calls_of_the_code_are_where_a_session_is_printed(command: Command) -> None:
    command.folder.joinpath("a.txt").write_text("one\n")
    code = "text = read_file('a.txt')\nprint(text)"
    async with ModelServer([call("execute_python", code=code), say("done")]) as server:
        words = ("-m", "openai-chat/scripted", "--output-format", "json", "-p", "go")
        ended = await run(command, server, *words, **ON)
    session = ended.result["session_id"]
    shown = command.run("sessions", "show", session).out
    assert "calls execute_python text = read_file('a.txt') ...\n    read a.txt  ok\n" in shown
    assert "ok: read_file a.txt" in command.run("sessions", "show", session, "--steps").out
    (made,) = json.loads(command.run("sessions", "show", session, "--json").out)["nested_calls"]
    assert made["call_id"] == f"{made['parent_call_id']}/1"
    assert (made["tool"], made["result"]["outcome"]) == ("read_file", "ok")
    page = command.run("sessions", "export", session, "--format", "md").out
    assert "Code:\n\n```\ntext = read_file('a.txt')\nprint(text)\n```" in page
    assert "> **1.1. read\\_file `a.txt`** (ok" in page
