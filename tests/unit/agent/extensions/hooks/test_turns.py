"""Hooks at the ends of turns, in the middle of rounds, and while a result is not in the history yet."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.models.answering import GOOD, Done, call_done, final, reporting
from support.models.real_ports import open_real
from support.models.scripted import START, ScriptedModel, collect, plan
from support.stores.histories import assert_every_call_is_answered, results

from sandbur.actions.ports.events import Notice
from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.state.conversation.messages import Message
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store

NOT_YET = {
    "Stop": [{"hooks": [{"type": "command", "command": "cat >> ran; echo >> ran; echo not yet >&2; exit 2"}]}]
}
BETTER = '{"verdict": "good", "score": 9}'
WISH = "[The turn is not over: a hook of the user says why.]\nnot yet"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def texts(messages: Any) -> list[str]:
    found: list[Message] = list(messages)
    return [message.text for message in found]


def given(folder: Path) -> list[str]:
    """Return what the hook was told as the answer, each time."""
    return [json.loads(line)["last_assistant_message"] for line in (folder / "ran").read_text().splitlines()]


async def test_an_answer_in_its_form_may_be_told_to_wait_too(store: Store, folder: Path) -> None:
    session, _ = await reporting(store, folder, GOOD, BETTER, hooks=NOT_YET)
    _, end = await collect(session.send("go"))
    assert (end.status, end.output) == ("done", {"verdict": "good", "score": 9})
    assert texts(session.state.chat_history) == ["go", GOOD, WISH, BETTER]
    assert given(folder) == [GOOD, BETTER]
    assert (await replay(store, "s1")).is_same
    assert len(given(folder)) == 2


async def test_an_answer_by_a_call_may_be_told_to_wait_too(store: Store, folder: Path) -> None:
    session, _ = await reporting(
        store, folder, final(verdict="bad", score=1, note=None), final(verdict="good", score=9, note=None),
        hooks=NOT_YET,
    )  # fmt: skip
    _, end = await collect(session.send("go"))
    assert end.output == {"verdict": "good", "score": 9}
    assert texts(session.state.chat_history)[3] == WISH
    assert_every_call_is_answered(session.state.chat_history)
    assert (await replay(store, "s1")).is_same


async def test_no_hook_is_asked_about_an_answer_that_does_not_fit(store: Store, folder: Path) -> None:
    session, _ = await reporting(store, folder, "well", GOOD, BETTER, hooks=NOT_YET)
    _, end = await collect(session.send("go"))
    assert end.output == {"verdict": "good", "score": 9}
    assert given(folder) == [GOOD, BETTER]


def with_done(tool: Done) -> dict[str, Any]:
    return {**builtin_tools(), "done": tool}


async def test_a_tool_that_would_end_the_run_does_not_if_a_hook_says_so(store: Store, folder: Path) -> None:
    tool = Done()
    model = ScriptedModel([call_done("first"), call_done("behind it")], [call_done("second")])
    session = await open_real(store, model, folder, toolbox=with_done(tool), hooks=NOT_YET)
    events, end = await collect(session.send("go"))
    assert (end.status, end.result, tool.done) == ("done", "second", ["first", "second"])
    assert texts(model.requests[1].messages)[-1] == WISH
    assert given(folder) == ["first", "second"]
    assert "A hook continues the turn: not yet" in [e.message for e in events if isinstance(e, Notice)]
    assert_every_call_is_answered(session.state.chat_history)
    today = Today(toolbox=with_done(Done()))
    replayed = await replay(store, "s1", today=today)
    assert replayed.divergence is None, replayed.divergence


async def test_in_a_plan_the_step_goes_on(store: Store, folder: Path) -> None:
    model = ScriptedModel(START, plan("one", "two"), [call_done("first")], [call_done("second")])
    session = await open_real(store, model, folder, toolbox=with_done(Done()), hooks=NOT_YET)
    _, end = await collect(session.send("go"))
    assert (end.status, end.result) == ("done", "second")
    assert [step.summary for step in end.steps] == ["second"]


SWAP = "mv safe aside && ln -s ../outside safe"


@pytest.mark.parametrize(
    ("command", "status"), [("echo not there >&2; exit 2", "denied"), ("true", "needs_approval")]
)
async def test_a_call_that_asks_right_before_its_start_is_put_to_the_hooks(
    store: Store, folder: Path, command: str, status: str
) -> None:
    for name in ("safe", "../outside"):
        (folder / name).mkdir()
        (folder / name / "key").write_text(name)
    hook = {"type": "command", "command": f"date >> ran; {command}"}
    asks = {"PermissionRequest": [{"matcher": "read_file", "hooks": [hook]}]}
    model = ScriptedModel(
        [("run_shell_command", {"command": SWAP}), ("read_file", {"path": "safe/key"})], "done"
    )
    session = await open_real(
        store, model, folder, mode="interactive", allow=(f"run_shell_command({SWAP})",), hooks=asks
    )
    _, end = await collect(session.send("go"))
    assert (end.status, len((folder / "ran").read_text().splitlines())) == (status, 1)
    if status == "denied":
        assert results(session.state.chat_history)[1] == (
            "denied", "Denied by a hook of the user: not there. It did not run.",
        )  # fmt: skip
    assert audit(store.database, ["s1"]).breaches == ()
