"""With real parts a replay compares what counts, not words: tools asked for, outcomes, where work stands."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.commands.recorded import READ, SHELL, WRITE, everything, record
from support.models.real_ports import open_real
from support.models.scripted import START, ScriptedModel, collect, finish, plan

from sandbur import Agent
from sandbur.actions.masking.masker import TextMasker
from sandbur.agent.history.replay.recorded_ports import Divergence
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Live, LiveTools
from sandbur.state.calls import CallDecision
from sandbur.state.errors import ModelError
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel as AgentModel
from sandbur.testing import ToolCall, temporary_store


def answering(*turns: Any) -> Live:
    return Live(model=ScriptedModel(*turns))


def tools_in(folder: Path) -> Live:
    return Live(tools=LiveTools(TextMasker(), folder / "left"))


async def found(store: Store, live: Live) -> Divergence | None:
    before = everything(store)
    divergence = (await replay(store, "s1", live=live)).divergence
    assert everything(store) == before
    return divergence


async def test_other_words_of_a_real_model_are_no_difference(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, START, plan("one", "two"), finish("did it"), "did two", "done")
    other = [("write_file", {"path": "b.txt", "content": "other"})]
    live = answering(other, START, plan("first", "second"), finish("well"), "yes", "here it is")
    assert await found(store, live) is None
    assert not (tmp_path / "b.txt").exists()


async def test_a_real_model_that_asks_for_another_tool_differs(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, READ, "done")
    divergence = await found(store, answering(WRITE, SHELL, "done"))
    assert divergence is not None
    assert (divergence.seq, divergence.action, divergence.kind) == (3, "router", "state")
    assert divergence.lines == ("  calls[0]:", "- read_file", "+ run_shell_command")


async def test_a_real_model_that_answers_at_once_differs(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, "done")
    divergence = await found(store, answering("I would rather not"))
    assert divergence is not None
    assert (divergence.seq, divergence.kind) == (1, "state")
    assert "  calls[0]:" in divergence.lines


async def test_a_real_model_that_gives_a_step_up_differs(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, START, plan("one"), finish("did it"), "done")
    divergence = await found(store, answering(START, plan("one"), finish("no", "failed"), "x"))
    assert divergence is not None
    assert (divergence.seq, divergence.action) == (3, "vibe_step_executor")
    assert divergence.lines == ("  finished steps[0]:", "- 1 completed", "+ 1 failed")


async def test_a_real_model_that_does_not_answer_is_an_error(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, "hello")
    with pytest.raises(ModelError, match="down"):
        await replay(store, "s1", live=answering(ModelError("The provider is down.")))


async def test_real_tools_run_in_the_folder_of_the_session(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, [("run_shell_command", {"command": "echo $RANDOM >> n"})], "done")
    (tmp_path / "a.txt").unlink()
    assert await found(store, tools_in(tmp_path)) is None
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
    assert len((tmp_path / "n").read_text().split()) == 2


async def test_a_real_call_that_ends_otherwise_differs(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("here")
    await record(store, tmp_path, READ, "done")
    (tmp_path / "a.txt").unlink()
    divergence = await found(store, tools_in(tmp_path))
    assert divergence is not None
    assert (divergence.seq, divergence.action, divergence.kind) == (2, "execute_tools", "state")
    assert divergence.lines == ("  outcomes[0]:", "- read_file ok", "+ read_file error")


async def test_what_was_denied_is_not_run_by_real_tools_either(store: Store, tmp_path: Path) -> None:
    shell = [("run_shell_command", {"command": "echo x > effects"})]
    session = await open_real(store, ScriptedModel(shell, "x"), tmp_path, mode="interactive")
    _, end = await collect(session.send("go"))
    await collect(session.decide([CallDecision(call_id=end.pending[0].call_id)]))
    assert await found(store, tools_in(tmp_path)) is None
    assert not (tmp_path / "effects").exists()


async def test_calls_of_absent_tools_are_named_and_not_compared(tmp_path: Path) -> None:
    with temporary_store() as lent:
        worker = Agent(AgentModel(["looked"]), name="worker", description="Looks.")
        start = ToolCall("task", description="look", prompt="x", agent="worker")
        lead = Agent(AgentModel([start, "done"]), agents=[worker], store=lent.url, env=lent.env, cwd=tmp_path)
        session_id = (await lead.run("go")).session_id
        store = Store.open(lent.url)
        try:
            replayed = await replay(store, session_id, live=tools_in(tmp_path))
        finally:
            store.close()
    assert (replayed.divergence, replayed.not_run) == (None, ("task",))


async def test_a_real_call_ends_with_the_replay(store: Store, tmp_path: Path) -> None:
    command = "test -e slow && sleep 600; true"
    await record(store, tmp_path, [("run_shell_command", {"command": command})], "done")
    (tmp_path / "slow").touch()
    walk = asyncio.ensure_future(replay(store, "s1", live=tools_in(tmp_path)))
    while not list((tmp_path / "left").glob("scratch/*/*")):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    walk.cancel()
    await asyncio.wait([walk])
    assert walk.cancelled()
