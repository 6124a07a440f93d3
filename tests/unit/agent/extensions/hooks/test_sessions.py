"""What hooks are told of a session and its messages, and what they may do about them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan

from sandbur.actions.ports.events import Notice
from sandbur.state.conversation.messages import Message
from sandbur.state.errors import ContextFull
from sandbur.state.store.store import Store

WRITE = [("write_file", {"path": "a.txt", "content": "one"})]


def hook(command: str, matcher: str = "", **more: Any) -> list[dict[str, Any]]:
    return [{"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}]


KEEP = "cat >> given.jsonl; echo >> given.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def given(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "given.jsonl").read_text().splitlines()]


def texts(messages: Any) -> list[tuple[str, str]]:
    found: list[Message] = list(messages)
    return [(message.origin, message.text) for message in found]


async def test_a_message_that_a_hook_refuses_reaches_no_model(store: Store, folder: Path) -> None:
    model = ScriptedModel("never")
    hooks = {"UserPromptSubmit": hook("grep -q password && { echo no passwords >&2; exit 2; }; true")}
    session = await open_real(store, model, folder, hooks=hooks)
    events, end = await collect(session.send("my password is x"))
    assert end.error is not None
    assert (end.error.code, end.exit_code, model.requests) == ("stopped_by_hook", 3, [])
    assert "A hook refused the message: no passwords" in [e.message for e in events if isinstance(e, Notice)]
    assert texts(session.state.chat_history) == []
    _, end = await collect(session.send("hello"))
    assert end.result == "never"


@pytest.mark.parametrize(
    "command",
    [
        "echo the tests are red",
        """echo '{"hookSpecificOutput": {"additionalContext": "the tests are red"}}'""",
    ],
)
async def test_what_a_hook_adds_to_a_message_is_in_the_history(
    store: Store, folder: Path, command: str
) -> None:
    session = await open_real(store, ScriptedModel("ok"), folder, hooks={"UserPromptSubmit": hook(command)})
    await collect(session.send("go"))
    assert texts(session.state.chat_history) == [
        ("person", "go"),
        ("runtime", "the tests are red"),
        ("model", "ok"),
    ]


async def test_the_start_of_a_session_is_told_once_and_adds_to_its_first_message(
    store: Store, folder: Path
) -> None:
    hooks = {"SessionStart": hook(f"{KEEP}; echo branch main")}
    session = await open_real(store, ScriptedModel("a", "b"), folder, hooks=hooks)
    await collect(session.send("one"))
    await collect(session.send("two"))
    assert [one["source"] for one in given(folder)] == ["startup"]
    assert texts(session.state.chat_history)[:2] == [("person", "one"), ("runtime", "branch main")]
    assert ("runtime", "branch main") not in texts(session.state.chat_history)[2:]
    again = await open_real(store, ScriptedModel("c"), folder, hooks={"SessionStart": hook(KEEP, "resume")})
    await collect(again.send("three"))
    assert [one["source"] for one in given(folder)] == ["startup", "resume"]


async def test_a_hook_lets_a_turn_go_on_once(store: Store, folder: Path) -> None:
    model = ScriptedModel("done", "now done")
    hooks = {"Stop": hook(f"{KEEP}; echo run the tests >&2; exit 2")}
    session = await open_real(store, model, folder, hooks=hooks)
    events, end = await collect(session.send("go"))
    assert (end.status, end.result) == ("done", "now done")
    assert [one["stop_hook_active"] for one in given(folder)] == [False, True]
    assert "A hook continues the turn: run the tests" in [e.message for e in events if isinstance(e, Notice)]
    assert texts(session.state.chat_history)[2] == (
        "runtime",
        "[The turn is not over: a hook of the user says why.]\nrun the tests",
    )


async def test_a_later_turn_may_go_on_again(store: Store, folder: Path) -> None:
    hooks = {"Stop": hook("echo more >&2; exit 2")}
    session = await open_real(store, ScriptedModel("a", "b", "c", "d"), folder, hooks=hooks)
    for expected in ("b", "d"):
        _, end = await collect(session.send("go"))
        assert end.result == expected


async def test_a_compression_is_told_before_and_after(store: Store, folder: Path) -> None:
    hooks = {name: hook(KEEP) for name in ("PreCompact", "PostCompact")}
    model = ScriptedModel(WRITE, ContextFull("too long"), "a summary", "done")
    session = await open_real(store, model, folder, hooks=hooks)
    _, end = await collect(session.send("go"))
    assert end.result == "done"
    told = [(one["hook_event_name"], one["trigger"], one.get("compact_summary")) for one in given(folder)]
    assert told == [("PreCompact", "auto", None), ("PostCompact", "auto", "a summary")]


async def test_a_question_and_a_plans_steps_are_told(store: Store, folder: Path) -> None:
    hooks = {name: hook(KEEP) for name in ("Notification", "SubagentStart", "SubagentStop")}
    model = ScriptedModel(START, plan("one"), WRITE, finish("did it"), "done")
    session = await open_real(store, model, folder, hooks=hooks, mode="interactive")
    _, end = await collect(session.send("go"))
    assert end.status == "needs_approval"
    told = [(one["hook_event_name"], one.get("message", one.get("agent_type"))) for one in given(folder)]
    assert told == [("SubagentStart", "step"), ("Notification", "A decision is needed about write_file.")]


async def test_the_end_of_a_session_is_told_and_waits_for_nobody(store: Store, folder: Path) -> None:
    session = await open_real(store, ScriptedModel("a"), folder, hooks={"SessionEnd": hook(KEEP)})
    await collect(session.send("one"))
    await session.observers.close()
    assert [one["hook_event_name"] for one in given(folder)] == ["SessionEnd"]


async def test_what_a_hook_says_to_the_person_is_a_notice(store: Store, folder: Path) -> None:
    hooks = {
        "SessionStart": hook('echo \'{"systemMessage": "welcome"}\''),
        "UserPromptSubmit": hook('echo \'{"systemMessage": "heard"}\''),
    }
    session = await open_real(store, ScriptedModel("a"), folder, hooks=hooks)
    events, _ = await collect(session.send("one"))
    assert {"welcome", "heard"} <= {event.message for event in events if isinstance(event, Notice)}
    assert type(events[0]).__name__ == "RunStarted"


async def test_a_hook_of_no_event_costs_nothing(store: Store) -> None:
    session = await open_session(store, ScriptedModel("a"), Recorder())
    assert not session.observers


async def test_a_hook_gets_no_key_of_a_provider(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("SANDBUR_STORE", "sqlite:////x")
    session = await open_real(
        store, ScriptedModel("a"), folder, hooks={"UserPromptSubmit": hook("env > seen")}
    )
    await collect(session.send("one"))
    seen = (folder / "seen").read_text()
    assert "sk-secret" not in seen
    assert "SANDBUR_STORE" not in seen
    assert f"CLAUDE_PROJECT_DIR={folder}" in seen


async def test_an_interrupted_run_waits_for_no_hook_and_takes_no_message_in(
    store: Store, folder: Path
) -> None:
    hooks = {"UserPromptSubmit": hook("echo $$ > pid; sleep 60")}
    model = ScriptedModel("never")
    session = await open_real(store, model, folder, hooks=hooks)
    task = asyncio.ensure_future(collect(session.send("go")))
    while not (folder / "pid").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    async with asyncio.timeout(20):
        await session.interrupt()
        _, end = await task
    assert (end.status, model.requests, texts(session.state.chat_history)) == ("interrupted", [], [])


async def test_an_interrupted_call_of_a_hook_leaves_no_process(store: Store, folder: Path) -> None:
    hooks = {"PreToolUse": hook("echo $$ > pid; sleep 60 & echo $! > child; sleep 60")}
    session = await open_real(store, ScriptedModel(WRITE), folder, hooks=hooks)
    task = asyncio.ensure_future(collect(session.send("go")))
    while not (folder / "child").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    await session.interrupt()
    _, end = await task
    assert end.status == "interrupted"
    for name in ("pid", "child"):
        assert not Path(f"/proc/{(folder / name).read_text().strip()}").exists()
