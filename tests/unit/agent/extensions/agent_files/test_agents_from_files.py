"""An agent from a file: its prompt, tools, flows and rules; a stored session keeps what it began with."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from support.places import ROOT

from sandbur import Agent, Limits, tool
from sandbur.state.errors import ConfigError
from sandbur.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.slow

AGENTS = ROOT / "examples" / "agents"
STEPS = [ToolCall("finish_step", status="completed", summary=text) for text in ("first", "second")]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}


@contextmanager
def shop() -> Iterator[tuple[str, list[Any]]]:
    """Lend the address of a server, and what it gets."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, json.loads(body), self.headers["X-Session"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()


def write(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(text)
    return path


def test_the_three_formats_are_one_agent() -> None:
    definitions = [Agent.from_file(path, env={}).definition for path in sorted(AGENTS.iterdir())]
    assert len({definition.instructions for definition in definitions}) == 1
    assert len({str([tool.spec for tool in definition.tools]) for definition in definitions}) == 1
    assert [dict(definition.variables) for definition in definitions] == [{"dialogId": "none"}] * 3
    assert [definition.overrides["max_turns"] for definition in definitions] == [20] * 3


async def test_the_system_fills_in_what_the_model_does_not_know(tmp_path: Path, env: dict[str, str]) -> None:
    with shop() as (address, got):
        path = write(
            tmp_path,
            f"""\
basic_settings: {{chatbot_id: bot-1}}
tools:
- name: save
  description: Save.
  parameters: {{email: {{}}}}
  endpoint:
    url: {address}/save
    method: POST
    headers: {{X-Session: "{{context.session_id}}"}}
    body: {{email: "{{email}}", chatbotId: todo_autofill_by_system, call_id: todo_autofill_by_system,
           deep: [{{dialogId: todo_autofill_by_system}}]}}
variables: {{dialogId: none}}
rules: {{allow: [save]}}
""",
        )
        model = ScriptedModel([ToolCall("save", email="$(rm -rf /); {call_id}"), "Saved."])
        agent = Agent.from_file(path, model=model, env=env)
        async with agent, agent.session("s1", variables={"dialogId": "d7"}) as session:
            assert (await session.run("Save me")).output == "Saved."
    ((place, body, session_id),) = got
    assert (place, session_id) == ("/save", "s1")
    # A value of the model is data: what looks like a placeholder or a command in it stays as it is.
    assert body["email"] == "$(rm -rf /); {call_id}"
    assert (body["chatbotId"], body["deep"]) == ("bot-1", [{"dialogId": "d7"}])
    assert body["call_id"] not in ("", "todo_autofill_by_system")
    assert list(model.requests[0].tools[0].parameters["properties"]) == ["email"]


async def test_a_plan_flow_goes_on_after_an_interruption_without_asking_for_a_plan(
    tmp_path: Path, env: dict[str, str]
) -> None:
    path = write(tmp_path, "flows: [{name: f, trigger: 'go to {town}', plan: ['Pack for {town}.', Leave.]}]")
    first = Agent.from_file(path, model=ScriptedModel(STEPS[:1]), limits=Limits(max_turns=1), env=env)
    result = await first.run("Go to Rome!", session_id="s1")
    assert result.status == "turn_limit"
    later = Agent.from_file(path, model=ScriptedModel([STEPS[1], "We are there."]), env=env)
    async with later, later.session("s1") as session:
        result = await session.run()
    assert (result.status, result.output) == ("done", "We are there.")
    assert [step.description for step in result.steps] == ["Pack for Rome.", "Leave."]
    assert [step.summary for step in result.steps] == ["first", "second"]


KILLED = """
import os, signal
from pathlib import Path
from sandbur import Agent, tool
from sandbur.testing import ScriptedModel, ToolCall

PLACE = Path("runs.txt")


@tool
def pack(place: str) -> str:
    "Pack for a place."
    runs = PLACE.read_text() if PLACE.exists() else ""
    PLACE.write_text(runs + place)
    if not runs:
        os.kill(os.getpid(), signal.SIGKILL)
    return "packed"


script = [ToolCall("finish_step", status="completed", summary="packed"), "Done."]
if not PLACE.exists():
    script.insert(0, ToolCall("pack", place="Rome"))
agent = Agent.from_file("agent.yaml", model=ScriptedModel(script), tools=[pack], store="sqlite:///runs.db")


async def main():
    async with agent, agent.session("s1") as session:
        result = await session.run(None if session.history else "go to Rome")
        for call in session.pending:
            result = await session.settle(call.call_id, "done", result="packed")
        print(result.status, [step.description for step in result.steps], PLACE.read_text())


import asyncio
asyncio.run(main())
"""


def test_a_killed_run_of_a_flow_goes_on_with_its_plan_and_repeats_no_call(
    tmp_path: Path, env: dict[str, str]
) -> None:
    write(
        tmp_path,
        "flows: [{name: f, trigger: 'go to {town}', plan: ['Pack for {town}.']}]\nrules: {allow: [pack]}",
    )
    (tmp_path / "trip.py").write_text(KILLED)
    line = [sys.executable, "trip.py"]
    first = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert first.returncode == -signal.SIGKILL
    second = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert second.stdout == "done ['Pack for Rome.'] Rome\n", second.stderr


async def test_a_plan_flow_whose_step_fails_lets_the_model_plan_the_rest(
    tmp_path: Path, env: dict[str, str]
) -> None:
    path = write(tmp_path, "flows: [{name: f, trigger: go, plan: [Pack., Leave.]}]")
    script = [
        ToolCall("finish_step", status="failed", summary="no bag"),
        ToolCall("submit_plan", steps=[{"description": "Buy a bag."}]),
        ToolCall("finish_step", status="completed", summary="bought"),
        "Ready.",
    ]
    result = await Agent.from_file(path, model=ScriptedModel(script), env=env).run("go")
    assert (result.output, [step.description for step in result.steps][-1]) == ("Ready.", "Buy a bag.")


async def test_instructions_of_a_flow_stand_behind_their_message_in_every_request(
    tmp_path: Path, env: dict[str, str]
) -> None:
    path = write(
        tmp_path, "flows: [{name: f, trigger: 'refund {order}', prompt: 'Ask why {order} came back.'}]"
    )
    model = ScriptedModel(["Why?", "Fine.", "Hello."])
    agent = Agent.from_file(path, model=model, env=env)
    async with agent, agent.session() as session:
        for text in ("Refund A-17", "It is broken.", "Hi"):
            await session.run(text)
        assert next(message.text for message in session.history) == "Refund A-17"
        assert [one.origin for one in session.history][:3] == ["person", "runtime", "model"]
    sent = [[message.text for message in request.messages] for request in model.requests]
    assert sent[0] == ["Refund A-17", "Ask why A-17 came back."]
    assert [each[:3] for each in sent[1:]] == [["Refund A-17", "Ask why A-17 came back.", "Why?"]] * 2


async def test_tools_of_a_program_and_of_the_file_are_one_set(tmp_path: Path, env: dict[str, str]) -> None:
    @tool(effect="read")
    def stock() -> int:
        """Count."""
        return 3

    path = write(tmp_path, "tools: [read_file]\naction_books: [{condition: a, action: b, tools: [stock]}]")
    agent = Agent.from_file(path, model="demo", tools=[stock], env=env)
    assert [each.spec.name for each in agent.definition.tools] == ["read_file", "stock"]


async def test_an_output_schema_gives_values(tmp_path: Path, env: dict[str, str]) -> None:
    text = "output_schema: {type: object, properties: {n: {type: integer}}, required: [n]}\n"
    agent = Agent.from_file(write(tmp_path, text), model=ScriptedModel(['{"n": 4}']), env=env)
    assert (await agent.run("How many?")).output == {"n": 4}


async def test_a_session_goes_on_with_the_file_that_it_began_with(
    tmp_path: Path, env: dict[str, str]
) -> None:
    path = write(tmp_path, "basic_settings: {name: Ada}\nflows: [{name: f, trigger: hours, reply: Nine.}]")
    before = Agent.from_file(path, model=ScriptedModel([]), env=env)
    assert (await before.run("hours", session_id="old")).output == "Nine."
    write(tmp_path, "basic_settings: {name: Bob}\nflows: [{name: f, trigger: hours, reply: Ten.}]")
    after = Agent.from_file(path, model=ScriptedModel([]), env=env)
    async with after, after.session("old") as session:
        assert (await session.run("hours")).output == "Nine."
        changed = f"The file {path} has changed since this session began: it goes on with what it began with."
        assert changed in session.notices
    async with after, after.session("new") as session:
        assert (await session.run("hours")).output == "Ten."
        assert not session.notices


async def test_a_secret_in_a_file_reaches_no_store(tmp_path: Path, env: dict[str, str]) -> None:
    key = "sk-proj-" + "Ab3" * 16
    text = f"flows: [{{name: f, trigger: hi, reply: Yes.}}, {{name: g, trigger: key, reply: {key}}}]\n"
    path = write(tmp_path, text)
    await Agent.from_file(path, env=env, model=ScriptedModel([])).run("hi", session_id="s1")
    data = b"".join(each.read_bytes() for each in (tmp_path / "data").rglob("*") if each.is_file())
    assert b"trigger: hi" in data
    assert key.encode() not in data
    agent = Agent.from_file(
        write(tmp_path, f"variables: {{token: {key}}}\n"), env=env, model=ScriptedModel([])
    )
    with pytest.raises(ConfigError, match="the variable token holds a secret, which a session would store"):
        await agent.run("hi")
    path.write_text(text.replace("Yes", "No"))
    agent = Agent.from_file(path, env=env, model=ScriptedModel([]))
    async with agent, agent.session("s1") as session:
        assert (await session.run("hi")).output == "No."
        assert "contained a secret" in " ".join(session.notices)
