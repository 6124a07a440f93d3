"""`Suite.from_sessions` makes tasks of past sessions, and compares new runs with the recorded outcome."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command

from sandbur import Agent, Evaluator, ModelRequest, Suite, tool, workspace_tools
from sandbur.state.errors import UsageError
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall, temporary_store


@pytest.fixture
def store() -> Iterator[TemporaryStore]:
    with temporary_store() as lent:
        yield lent


def write(content: str) -> Any:
    def answer(request: ModelRequest) -> Any:
        if list(request.messages)[-1].tool_results:
            return "written"
        return ToolCall("write_file", path="answer.txt", content=content)

    return answer


def make_agent(store: TemporaryStore, replies: Any, folder: Path, **more: Any) -> Agent[str]:
    more = {"tools": workspace_tools(), **more}
    return Agent(ScriptedModel(replies), store=store.url, env=store.env, cwd=folder, mode="yolo", **more)


async def record(store: TemporaryStore, folder: Path, content: str = "42\n") -> str:
    (folder / "answer.txt").write_text("old\n")
    (folder / "notes.txt").write_text("other\n")
    agent = make_agent(store, write(content), folder)
    async with agent.session("past", tags=["chosen"]) as session:
        await session.run(f"Read {folder}/answer.txt, then write 42.")
        await session.run("Now write it again.")
    return "past"


async def evaluate(store: TemporaryStore, suite: Suite, replies: Any, folder: Path) -> list[float]:
    agents = {"new": make_agent(store, replies, folder)}
    result = await Evaluator(suite, agents, store=store.url, env=store.env).run()
    assert not result.open
    return [run.reward for run in result.runs]


async def test_a_task_has_the_first_message_and_the_files_before_it(
    store: TemporaryStore, tmp_path: Path
) -> None:
    await record(store, tmp_path)
    (task,) = Suite.from_sessions(["chosen"], store=store.url, env=store.env)
    assert task.instruction == "Read /app/answer.txt, then write 42."
    assert task.files == {"answer.txt": b"old\n"}
    assert "the workspace has only the files that the run changed" in task.notices[0]
    assert any("1 later message left out" in notice for notice in task.notices)
    (task,) = Suite.from_sessions(["past"], workspace=tmp_path, store=store.url, env=store.env)
    assert task.files == {"answer.txt": b"old\n", "notes.txt": b"other\n"}


async def test_a_run_passes_if_it_leaves_the_same_files(store: TemporaryStore, tmp_path: Path) -> None:
    await record(store, tmp_path)
    suite = Suite.from_sessions(["past"], store=store.url, env=store.env)
    assert await evaluate(store, suite, write("42\n"), tmp_path) == [1.0]
    again = Suite.from_sessions(["past"], store=store.url, env=store.env)
    assert [one.digest for one in again] == [one.digest for one in suite]


async def test_a_run_fails_if_a_file_differs(store: TemporaryStore, tmp_path: Path) -> None:
    await record(store, tmp_path)
    suite = Suite.from_sessions(["past"], store=store.url, env=store.env)
    assert await evaluate(store, suite, write("43\n"), tmp_path) == [0.0]


async def test_a_caller_compares_the_recorded_and_the_new_outcome(
    store: TemporaryStore, tmp_path: Path
) -> None:
    await record(store, tmp_path)
    seen: list[Any] = []

    def compare(recorded: Any, solution: Any) -> bool:
        seen.append((recorded.files, recorded.result, solution.result))
        return recorded.result == solution.result

    suite = Suite.from_sessions(["past"], check=compare, store=store.url, env=store.env)
    assert await evaluate(store, suite, write("43\n"), tmp_path) == [1.0]
    assert seen == [({"answer.txt": b"42\n"}, "written", "written")]


def make_sender(sent: list[str]) -> Any:
    @tool(effect="effect")
    def send(text: str) -> str:
        """Send a text."""
        sent.append(text)
        return "sent"

    return send


def send_text(text: str) -> Any:
    def answer(request: ModelRequest) -> Any:
        return "done" if list(request.messages)[-1].tool_results else ToolCall("send", text=text)

    return answer


@pytest.mark.parametrize(("text", "reward"), [("hello", 1.0), ("bye", 0.0)])
async def test_without_changed_files_the_calls_with_effects_are_compared(
    store: TemporaryStore, tmp_path: Path, text: str, reward: float
) -> None:
    tools = [make_sender([])]
    agent = make_agent(store, send_text("hello"), tmp_path, tools=tools)
    await agent.run("Send hello.", session_id="past")
    suite = Suite.from_sessions(["past"], store=store.url, env=store.env)
    agents = {"new": make_agent(store, send_text(text), tmp_path, tools=tools)}
    result = await Evaluator(suite, agents, store=store.url, env=store.env).run()
    assert ([run.reward for run in result.runs], result.open) == ([reward], {})


async def test_a_session_without_effects_is_left_out_and_named(store: TemporaryStore, tmp_path: Path) -> None:
    await record(store, tmp_path)
    await make_agent(store, lambda request: "hi", tmp_path).run("Say hi.", session_id="talk")
    suite = Suite.from_sessions(["past", "talk"], store=store.url, env=store.env)
    assert len(suite) == 1
    assert suite.tasks[0].notices[0].startswith("Left out: Session talk changed no file")
    with pytest.raises(UsageError, match="Session talk changed no file"):
        Suite.from_sessions(["talk"], store=store.url, env=store.env)
    with pytest.raises(UsageError, match="id or the tag 'nothing'"):
        Suite.from_sessions(["nothing"], store=store.url, env=store.env)


def test_the_command_evaluates_past_sessions(tmp_path: Path) -> None:
    command = Command(tmp_path)
    (tmp_path / "work").mkdir()
    done = command.run("-p", "hello", "-m", "demo", "-y", "-C", "work", "--output-format", "json")
    session_id = json.loads(done.out)["session_id"]
    left_out = command.run("eval", "--sessions", session_id[:8], "-m", "demo")
    assert (left_out.code, left_out.out) == (2, "")
    assert "changed no file and had no effect" in left_out.err
