"""A tool that ends the run with an answer: once, whatever stands behind it, and after a crash as well."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.models.answering import Done, call_done
from support.models.real_ports import open_real
from support.models.scripted import START, Recorder, ScriptedModel, act, collect, finish, open_session, plan
from support.places import PYTHONPATH
from support.stores.reopening import reopen

from sandbur.actions.ports.events import PlanChanged, StepChanged, ToolFinished
from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.state.application import ENDED_BY_TOOL
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store


def answers(events: list[Any]) -> dict[str, str]:
    return {event.call_id: event.content for event in events if isinstance(event, ToolFinished)}


async def test_its_message_is_the_answer_and_the_model_is_not_asked_again(store: Store) -> None:
    model = ScriptedModel(act("a"), [call_done("it is 42")], "never said")
    session = await open_session(store, model, Recorder(), Done())
    _, end = await collect(session.send("go"))
    assert (end.status, end.exit_code, end.result, end.usage.llm_calls) == ("done", 0, "it is 42", 2)
    assert (session.next_action, session.state.turn_open, session.state.phase) == ("prompt", False, "idle")
    last = session.state.chat_history.last
    assert last is not None
    assert (last.role, last.origin, last.text) == ("assistant", "runtime", "it is 42")


async def test_calls_behind_it_do_not_run_and_say_so(store: Store) -> None:
    tool = Recorder()
    model = ScriptedModel([*act("before"), call_done("over"), *act("after"), call_done("too late")])
    session = await open_session(store, model, tool, last := Done())
    events, end = await collect(session.send("go"))
    assert (end.result, tool.done, last.done) == ("over", ["before"], ["over"])
    said = answers(events)
    assert said["c1_2"] == said["c1_3"] == "Not run: done has ended the run."
    results = [one for message in session.state.chat_history for one in message.tool_results]
    assert [one.call_id for one in results] == ["c1_0", "c1_1", "c1_2", "c1_3"]


async def test_the_next_turn_begins_as_ever(store: Store) -> None:
    model = ScriptedModel([call_done("first")], "second")
    session = await open_session(store, model, Done())
    await collect(session.send("go"))
    _, end = await collect(session.send("and now?"))
    assert (end.status, end.result) == ("done", "second")
    assert [message.text for message in model.requests[1].messages][-2:] == ["first", "and now?"]


async def test_in_a_plan_the_step_is_completed_and_those_behind_it_are_dropped(store: Store) -> None:
    model = ScriptedModel(
        START, plan("one", "two", "three"), finish("did one"), [call_done("found it early")]
    )
    session = await open_session(store, model, Done())
    events, end = await collect(session.send("go"))
    assert (end.status, end.exit_code, end.result) == ("done", 0, "found it early")
    assert [(step.step_id, step.status, step.summary) for step in end.steps] == [
        ("1", "completed", "did one"),
        ("2", "completed", "found it early"),
    ]
    assert [event.step_id for event in events if isinstance(event, StepChanged)] == ["1", "1", "2", "2"]
    plans = [event.steps for event in events if isinstance(event, PlanChanged)]
    assert [len(steps) for steps in plans] == [3, 2]
    texts = [message.text for message in session.state.chat_history]
    assert texts[-2:] == ["Step 2 completed: found it early", "found it early"]
    again = await open_session(reopen(store), ScriptedModel("well"), Done())
    assert (again.next_action, again.state.active_step_id) == ("prompt", None)


async def test_a_call_that_would_ask_once_more_is_closed_when_another_one_ends_the_run(store: Store) -> None:
    """Reads run side by side: one of them ends the run, the other turns out not to be allowed any more."""

    class Gate:
        asks = False

        def judge(self, tool: Any, arguments: Any, mode: Any, paths: Any = None, plan: Any = None) -> Any:
            from sandbur.actions.ports import Verdict

            return Verdict("ask" if self.asks and arguments == "a" else "allow", "changed its mind")

    gate = Gate()

    class Turncoat(Done):
        def parse(self, arguments: str) -> str:
            gate.asks = True
            return super().parse(arguments)

    model = ScriptedModel([*act("a"), call_done("over")])
    tool = Recorder(effect="read")
    session = await open_session(store, model, tool, Turncoat("read"), gate=gate, mode="interactive")
    _, end = await collect(session.send("go"))
    assert (end.status, end.result, end.pending, tool.done) == ("done", "over", (), [])


async def test_a_call_that_was_asked_about_ends_the_run_too(store: Store) -> None:
    session = await open_session(store, ScriptedModel([call_done("approved")]), Done(), mode="interactive")
    _, end = await collect(session.send("go"))
    assert end.status == "needs_approval"
    _, end = await collect(session.decide([CallDecision(call_id="c1_0", approved=True)]))
    assert (end.status, end.result) == ("done", "approved")


async def test_only_a_session_that_used_it_is_of_the_newer_graph(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a"), [call_done("x")]), Recorder(), Done())
    session._position.change(graph_version=1)
    model = ScriptedModel(act("a"), "x")
    other = await open_session(store, model, Recorder(), Done(), session_id="s2")
    other._position.change(graph_version=1)
    await collect(session.send("go"))
    await collect(other.send("go"))
    assert (session.state.graph_version, other.state.graph_version) == (ENDED_BY_TOOL, 1)


def test_a_result_that_ends_nothing_is_stored_as_ever() -> None:
    from sandbur.state.conversation.messages import ToolResult

    plain = ToolResult(call_id="c", tool="act", outcome="ok", content="x")
    assert "ends_run" not in plain.model_dump(mode="json")
    assert ToolResult.model_validate(plain.model_copy(update={"ends_run": ""}).model_dump()).ends_run == ""


DIES = """
import asyncio, sys
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from sandbur.state.store.store import Store
from support.models.answering import Done, call_done
from support.models.scripted import act

async def slow(text):
    await asyncio.sleep(60)

async def main(url):
    model = ScriptedModel([call_done("over"), *act("beside"), *act("behind")])
    tools = Recorder(effect="read", work=slow), Done("read")
    await collect((await open_session(Store.open(url), model, *tools)).send("go"))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["finished_after_commit", "finished_before_commit", "tool_ran"])
async def test_a_kill_between_result_and_step_ends_the_run_all_the_same(store: Store, point: str) -> None:
    env = {**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{PYTHONPATH}", "SANDBUR_CRASH_AT": point}
    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", DIES, store.url], env=env, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    tool, last = Recorder(effect="read"), Done("read")
    session = await open_session(reopen(store), ScriptedModel(), tool, last)
    _, end = await collect(session.carry_on())
    assert (end.status, end.result) == ("done", "over")
    # What is on disk is not run again; else it is, for it only reads.
    assert last.done == ([] if point == "finished_after_commit" else ["over"])
    assert (tool.done == []) == (point == "finished_after_commit")


@pytest.mark.parametrize("in_plan", [False, True])
async def test_a_replay_ends_the_run_at_the_same_place(store: Store, tmp_path: Path, in_plan: bool) -> None:
    toolbox = {**builtin_tools(), "done": Done()}
    turns = [START, plan("one", "two")] if in_plan else []
    model = ScriptedModel(*turns, [call_done("over"), ("read_file", {"path": "a"})], "after")
    session = await open_real(store, model, tmp_path, toolbox=toolbox)
    await collect(session.send("go"))
    await collect(session.send("more"))
    tool = Done()
    found = await replay(store, "s1", today=Today(toolbox={**builtin_tools(), "done": tool}))
    assert (found.divergence, tool.done) == (None, [])
    assert found.steps >= 5
