"""A recorded run that is walked through the program that made it comes out the same; nothing is written."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands.recorded import READ, SHELL, WRITE, everything, record
from support.models.real_ports import open_real
from support.models.scripted import START, ScriptedModel, collect, finish, plan
from support.stores.databases import DATABASES, UrlOf
from support.stores.reopening import reopen

from sandbur.actions.ports.events import ToolOutput
from sandbur.agent.history.replay.replay import Replayed, replay
from sandbur.agent.history.time_travel.branches import apply_edits, branch
from sandbur.state.calls import CallDecision
from sandbur.state.errors import ContextFull, ModelError, UsageError
from sandbur.state.store.store import Store

LOOK = [("list_directory", {"path": "."}), ("glob", {"pattern": "*.txt"}), ("grep", {"pattern": "one"})]
EDIT = [("edit_file", {"path": "a.txt", "old": "one", "new": "1"})]
BROKEN: list[tuple[str, Any]] = [("read_file", "{")]

WORKFLOWS: dict[str, tuple[Any, ...]] = {
    "chat": ("hello",),
    "one tool": (WRITE, "done"),
    "every tool": (WRITE, READ, LOOK, EDIT, SHELL, "done"),
    "calls that fail": ([("read_file", {"path": "none"}), ("run_shell_command", {"command": "exit 3"})], "x"),
    "unusable calls": ([("nothing", {})], [("read_file", "{")], [("finish_step", {"status": "x"})], "x"),
    "plan": (START, plan("one", "two"), WRITE, finish("did one"), "did two", "all done"),
    "failed step": (
        START, plan("one", "two"), finish("no", "failed"), plan("three"), READ, finish("three"), "made good"
    ),
    "plan given up": (START, plan("one"), finish("no", "failed"), plan(), "not reached"),
    "plan in words": (START, "1. first\n2. second", "did one", "did two", "done"),
    "no plan at first": (START, "hm", plan("one"), "did one", "done"),
    "too long": (WRITE, ContextFull("too long"), "a summary", "done"),
    "too long to sum up": (WRITE, ContextFull("too long"), ContextFull("too long"), "done"),
}  # fmt: skip


async def same(store: Store, session_id: str = "s1", from_seq: int | None = None) -> Replayed:
    """Replay a session whose replay is to find nothing, and to write nothing."""
    before = everything(store)
    replayed = await replay(store, session_id, from_seq)
    assert replayed.divergence is None, replayed.divergence
    assert everything(store) == before
    return replayed


def last(store: Store, session_id: str = "s1") -> int:
    return store.index.summary(session_id).steps - 1


@pytest.mark.parametrize("name", WORKFLOWS)
async def test_a_run_replays_without_a_difference(store: Store, tmp_path: Path, name: str) -> None:
    await record(store, tmp_path, *WORKFLOWS[name])
    replayed = await same(store)
    assert (replayed.steps, replayed.first_seq, replayed.last_seq) == (last(store) + 1, 0, last(store))
    assert replayed.recorded_only == ()


@pytest.mark.parametrize("name", ["every tool", "failed step", "too long"])
async def test_every_prefix_and_every_rest_of_a_run_replays(store: Store, tmp_path: Path, name: str) -> None:
    await record(store, tmp_path, *WORKFLOWS[name])
    for seq in range(last(store)):
        assert (await same(store, from_seq=seq)).steps == last(store) - seq
        store.fork("s1", f"until {seq}", seq)
        assert (await same(store, f"until {seq}")).steps == seq + 1


async def test_tools_and_models_stay_untouched(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, [("run_shell_command", {"command": "echo x >> effects"})], "done")
    (tmp_path / "a.txt").write_text("changed since")
    await same(store)
    assert (tmp_path / "a.txt").read_text() == "changed since"
    assert (tmp_path / "effects").read_text() == "x\n"


async def test_several_turns_and_commands_replay(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel("hello", WRITE, "done", "bye")
    session = await open_real(store, model, tmp_path, mode="interactive")
    for text in ("hi", "/mode yolo", "write", "/help", "/nonsense", "bye", "/exit"):
        await collect(session.send(text))
    await same(store)


DECISIONS: dict[str, Callable[[str], CallDecision]] = {
    "approved": lambda call_id: CallDecision(call_id=call_id, approved=True),
    "denied": lambda call_id: CallDecision(call_id=call_id, reason="not now"),
    "edited": lambda call_id: CallDecision(
        call_id=call_id, approved=True, arguments='{"command": "echo other"}'
    ),
    "badly edited": lambda call_id: CallDecision(call_id=call_id, approved=True, arguments="{"),
    "edited into what a rule forbids": lambda call_id: CallDecision(
        call_id=call_id, approved=True, arguments='{"command": "rm -r x"}'
    ),
}


@pytest.mark.parametrize("name", DECISIONS)
async def test_a_decision_of_a_person_replays(store: Store, tmp_path: Path, name: str) -> None:
    model = ScriptedModel(SHELL, "done")
    deny = ("run_shell_command(rm *)",)
    session = await open_real(store, model, tmp_path, mode="interactive", deny=deny)
    _, end = await collect(session.send("go"))
    await collect(session.decide([DECISIONS[name](end.pending[0].call_id)]))
    replayed = await same(store)
    assert replayed.steps == last(store) + 1 > 2


async def test_one_decision_after_the_other_replays(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel([*SHELL, *WRITE], "done")
    session = await open_real(store, model, tmp_path, mode="interactive")
    _, end = await collect(session.send("go"))
    first, second = (call.call_id for call in end.pending)
    await collect(session.decide([CallDecision(call_id=second, approved=True)]))
    await collect(session.decide([CallDecision(call_id=first)], record_only=True))
    again = await open_real(reopen(store), model, tmp_path, mode="interactive")
    await collect(again.carry_on())
    await same(store)


async def test_a_message_in_the_middle_of_a_turn_replays(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel(SHELL, "as you say")
    session = await open_real(store, model, tmp_path, mode="interactive")
    await collect(session.send("go"))
    await collect(session.send("no, stop"))
    await same(store)


async def test_a_mode_changed_while_a_call_waits_replays(store: Store, tmp_path: Path) -> None:
    session = await open_real(store, ScriptedModel(SHELL, "done"), tmp_path, mode="interactive")
    await collect(session.send("go"))
    await collect(session.send("/mode yolo"))
    _, end = await collect(session.carry_on())
    assert end.status == "done"
    await same(store)


async def test_a_run_that_failed_and_was_carried_on_replays(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel(WRITE, ModelError("down"), ModelError("down"), "done")
    session = await open_real(store, model, tmp_path)
    await collect(session.send("go"))
    await collect(session.send("/mode interactive"))
    await collect(session.carry_on())
    _, end = await collect(session.carry_on())
    assert end.status == "done"
    await same(store)


@pytest.mark.parametrize("then", ["carried on", "another message"])
async def test_an_interrupted_run_replays(store: Store, tmp_path: Path, then: str) -> None:
    calls = [*READ, ("run_shell_command", {"command": "echo half; sleep 600"}), *WRITE]
    session = await open_real(store, ScriptedModel(calls, "done", "more"), tmp_path)
    async for event in session.send("go"):
        if isinstance(event, ToolOutput):
            await session.interrupt()
    if then == "carried on":
        await collect(session.carry_on())
    _, end = await collect(session.send("and now?"))
    assert end.status == "done"
    await same(store)


async def test_a_model_that_sends_only_unusable_calls_replays_until_it_is_given_up(
    store: Store, tmp_path: Path
) -> None:
    session = await open_real(store, ScriptedModel(*[BROKEN] * 6, "done"), tmp_path)
    _, end = await collect(session.send("go"))
    assert end.status == "error"
    await collect(session.carry_on())
    await same(store)


async def test_ids_that_a_model_uses_twice_replay(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, READ, "done")
    again = await open_real(reopen(store), ScriptedModel(READ, "again"), tmp_path)
    await collect(again.send("more"))
    await same(store)


async def test_a_fork_replays_with_what_it_was_forked_from(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, READ, "done")
    store.fork("s1", "s2", 3)
    fork = await open_real(store, ScriptedModel(EDIT, "other"), tmp_path, session_id="s2")
    await collect(fork.carry_on())
    store.fork("s2", "s3")
    third = await open_real(store, ScriptedModel("third"), tmp_path, session_id="s3")
    await collect(third.send("and?"))
    for session_id in ("s2", "s3"):
        assert (await same(store, session_id)).steps == last(store, session_id) + 1


async def test_a_fork_of_a_call_that_its_parent_ran_meanwhile_replays(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel(SHELL, "done")
    parent = await open_real(store, model, tmp_path, mode="interactive")
    _, end = await collect(parent.send("go"))
    waiting = last(store)
    approved = CallDecision(call_id=end.pending[0].call_id, approved=True)
    await collect(parent.decide([approved], record_only=True))
    store.fork("s1", "s2")
    store.fork("s1", "s3", waiting)
    await collect(parent.carry_on())
    for session_id in ("s2", "s3"):
        fork = await open_real(reopen(store), ScriptedModel("seen"), tmp_path, session_id, "interactive")
        await collect(fork.decide([approved]))
        await same(store, session_id)


async def test_a_step_made_by_hand_is_taken_as_it_is(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, "hello")
    changes = apply_edits(store.show("s1").state, ["chat_history.-1.text=good day"])
    fork = await branch(store, "s1", None, changes)
    session = await open_real(store, ScriptedModel("and to you"), tmp_path, session_id=fork)
    await collect(session.send("hm"))
    replayed = await same(store, fork)
    assert replayed.recorded_only == (2,)
    assert replayed.steps == 4


async def test_a_session_without_steps_says_that_there_is_nothing(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, "hello")
    with pytest.raises(UsageError, match="no step after step 1"):
        await replay(store, "s1", 1)
    settings = store.index.settings("s1")
    store.index.create("s2", settings)
    with pytest.raises(UsageError, match="no step yet"):
        await replay(store, "s2")


@pytest.mark.parametrize("kind", DATABASES)
async def test_a_run_replays_from_every_kind_of_store(kind: str, url_of: UrlOf, tmp_path: Path) -> None:
    store = Store.open(url_of(kind, tmp_path))
    session_id = str(uuid.uuid4())
    session = await open_real(store, ScriptedModel(*WORKFLOWS["failed step"]), tmp_path, session_id)
    await collect(session.send("go"))
    store.fork(session_id, f"{session_id}-fork", 7)
    await same(store, session_id)
    await same(store, f"{session_id}-fork")
    store.close()
