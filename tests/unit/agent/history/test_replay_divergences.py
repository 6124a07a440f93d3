"""A replay stops at the first step that comes out differently, and says what differs in words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from burr.core.graph import Graph, GraphBuilder
from support.commands.recorded import READ, SHELL, WRITE, record
from support.models.real_ports import open_real
from support.models.scripted import START, DenyAll, ScriptedModel, collect, finish, plan

from sandbur.actions.ports import Tool
from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.graph import ACTIONS, OTHERWISE, TRANSITIONS
from sandbur.agent.history.replay.recorded_ports import Divergence
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.state.calls import CallDecision
from sandbur.state.errors import StoreError
from sandbur.state.store.store import Store


async def found(store: Store, today: Today | None = None, session_id: str = "s1") -> Divergence:
    divergence = (await replay(store, session_id, today=today)).divergence
    assert divergence is not None
    return divergence


def tamper(store: Store, seq: int, **fields: Any) -> None:
    """Change what a step wrote."""
    ((delta,),) = store.database.query("SELECT fields FROM steps WHERE session_id = 's1' AND seq = ?", (seq,))
    changed = json.dumps({**json.loads(delta), **fields})
    store.database.commit(
        [("UPDATE steps SET fields = ? WHERE session_id = 's1' AND seq = ?", (changed, seq))]
    )


def reword(store: Store, old: str, new: str, beside: str = "") -> None:
    """Change the words of the one message that says `beside` and `old`."""
    pattern = f"%{beside}%{old}%"
    ((log, idx, body),) = store.database.query(
        "SELECT log, idx, body FROM messages WHERE body LIKE ?", (pattern,)
    )
    where = "UPDATE messages SET body = ? WHERE log = ? AND idx = ?"
    store.database.commit([(where, (body.replace(old, new), log, idx))])


async def test_a_changed_field_is_named_with_both_values(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, READ, "done")
    tamper(store, 2, last_round_denied=True)
    divergence = await found(store)
    assert (divergence.seq, divergence.action, divergence.kind) == (2, "execute_tools", "state")
    assert divergence.summary == "The state after the step differs in: last_round_denied."
    assert divergence.lines == ("  last_round_denied:", "- true", "+ false")


async def test_a_result_of_another_size_is_another_request(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, READ, "done")
    reword(store, "Created a.txt", "Made a.txt")
    divergence = await found(store)
    assert (divergence.seq, divergence.kind) == (3, "request")
    assert divergence.lines == ("  histories:", "- 3 messages with 86 bytes", "+ 3 messages with 83 bytes")


async def test_what_a_call_came_to_is_taken_from_the_recording(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, READ, "done")
    reword(store, "Created a.txt", "Created b.txt")
    assert (await replay(store, "s1")).is_same


async def test_words_of_the_program_that_changed_are_shown_line_by_line(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, START, plan("look", "tell"), "seen", "told", "done")
    reword(store, "Work on this step only.", "Do what you like.", "Step 1 of 2")
    divergence = await found(store)
    assert (divergence.seq, divergence.action, divergence.kind) == (3, "vibe_step_executor", "state")
    assert divergence.lines[0] == "  vibe_plan[0].chat_history[0].blocks[0].text:"
    (old,) = (line for line in divergence.lines if line.startswith("- "))
    (new,) = (line for line in divergence.lines if line.startswith("+ "))
    assert "Do what you like." in old
    assert "Work on this step only." in new


async def test_a_request_of_another_size_shows_the_words_that_made_it_so(
    store: Store, tmp_path: Path
) -> None:
    await record(store, tmp_path, START, plan("look", "tell"), "seen", "told", "done")
    reword(store, "Work on this step only.", "Do it.", "Step 1 of 2")
    ((n, body),) = store.database.query("SELECT n, body FROM traces WHERE event = 'model_called' AND seq = 2")
    shape = json.loads(body)
    shape["request"]["histories"][1][1] -= len("Work on this step only.") - len("Do it.")
    store.database.commit([("UPDATE traces SET body = ? WHERE n = ?", (json.dumps(shape), n))])
    divergence = await found(store)
    assert (divergence.seq, divergence.action, divergence.kind) == (3, "vibe_step_executor", "request")
    assert divergence.summary == "The request to the model differs in: histories."
    assert divergence.lines[0] == "  histories:"
    assert any(line.startswith("- ") and "Do it." in line for line in divergence.lines)


async def test_a_tool_that_is_described_differently_is_named(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, READ, "done")
    divergence = await found(store, Today(toolbox=described("read_file", "Read a file, quickly.")))
    assert (divergence.seq, divergence.action, divergence.kind) == (1, "router", "request")
    assert divergence.summary == "The request to the model differs in: tool read_file."
    assert [line[:2] for line in divergence.lines] == ["  ", "- ", "+ "]


async def test_a_tool_that_is_gone_is_named(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, READ, "done")
    left = {name: tool for name, tool in builtin_tools().items() if name != "grep"}
    divergence = await found(store, Today(toolbox=left))
    assert divergence.kind == "request"
    assert divergence.lines == ("  tool grep:", "- offered", "+ not offered")


@pytest.mark.parametrize("change", ["reworded", "gone"])
async def test_tools_in_other_words_can_be_ignored(store: Store, tmp_path: Path, change: str) -> None:
    await record(store, tmp_path, READ, "done")
    toolbox = described("read_file", "Read a file, quickly. " * 20)
    if change == "gone":
        del toolbox["grep"]
    assert (await replay(store, "s1", today=Today(toolbox=toolbox), ignores_tools=True)).is_same


async def test_a_tool_that_was_used_and_is_gone_cannot_be_ignored(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, READ, "done")
    left = {name: tool for name, tool in builtin_tools().items() if name != "read_file"}
    divergence = (await replay(store, "s1", today=Today(toolbox=left), ignores_tools=True)).divergence
    assert divergence is not None
    assert (divergence.seq, divergence.kind) == (1, "state")


async def test_a_stricter_policy_shows_what_it_decides(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, "done")
    divergence = await found(store, Today(gate_of=lambda settings: DenyAll()))
    assert (divergence.seq, divergence.action, divergence.kind) == (1, "router", "state")
    assert divergence.lines[:3] == ("  pending_tool_calls[0].decision:", "- approved", "+ denied")


async def test_a_rule_that_is_there_now_does_not_count_for_what_was_before(
    store: Store, tmp_path: Path
) -> None:
    await record(store, tmp_path, WRITE, "done")
    settings = store.index.settings("s1").model_copy(update={"deny": ("write_file(**)",)})
    text = settings.model_dump_json()
    store.database.commit([("UPDATE sessions SET settings = ? WHERE id = 's1'", (text,))])
    assert (await replay(store, "s1")).is_same


async def test_another_way_through_the_graph_is_a_route(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, "done")
    divergence = await found(store, Today(graph_of=always_planning))
    assert (divergence.seq, divergence.action, divergence.kind) == (1, "router", "route")
    assert (
        divergence.summary
        == "Today's graph goes to vibe_planner after it; the recorded run went to execute_tools."
    )
    assert divergence.lines == ("  next action:", "- execute_tools", "+ vibe_planner")


async def test_a_walk_that_begins_in_the_middle_knows_the_way(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, "done")
    divergence = (await replay(store, "s1", 1, Today(graph_of=always_planning))).divergence
    assert divergence is not None
    assert (divergence.seq, divergence.action, divergence.kind) == (2, "execute_tools", "route")
    assert divergence.summary.startswith("Today's graph goes to vibe_planner in its place;")


async def test_the_end_of_a_run_is_a_place_in_the_graph_too(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, "done")
    divergence = await found(store, Today(graph_of=always_planning))
    assert (divergence.seq, divergence.kind) == (1, "route")


async def test_a_call_that_was_denied_and_would_run_today_does_not_run(store: Store, tmp_path: Path) -> None:
    session = await open_real(store, ScriptedModel(SHELL, "x"), tmp_path, mode="interactive")
    _, end = await collect(session.send("go"))
    await collect(session.decide([CallDecision(call_id=end.pending[0].call_id)]))
    tamper(store, 2, pending_tool_calls={"$patch": {"0": approved(store)}, "length": 1})
    divergence = await found(store)
    assert (divergence.seq, divergence.action, divergence.kind) == (3, "execute_tools", "state")
    assert divergence.summary.endswith("(run_shell_command), which the recorded run did not.")


async def test_a_program_that_asks_the_model_once_more_is_stopped(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, START, plan("one"), finish("did it"), "done")
    rows = store.database.query("SELECT n FROM traces WHERE event = 'model_called' ORDER BY n")
    store.database.commit([("DELETE FROM traces WHERE n = ?", rows[2])])
    divergence = await found(store)
    assert (divergence.seq, divergence.action, divergence.kind) == (3, "vibe_step_executor", "request")
    assert divergence.summary == "Today's program asks the model where the recorded run did not."


async def test_what_goes_wrong_today_is_said(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, *[[("read_file", "{")]] * 4, "done")
    tamper(store, 8, bad_rounds=5)
    tamper(store, 7, bad_rounds=5)
    divergence = await found(store)
    assert divergence.kind == "state"
    assert (divergence.seq, divergence.lines[0]) == (7, "  bad_rounds:")
    rest = (await replay(store, "s1", 8)).divergence
    assert rest is not None
    assert rest.summary.startswith("The action fails today: The model sent unusable tool calls 5 times")


async def test_an_action_that_the_graph_has_not_any_more_is_named(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, WRITE, "done")
    store.database.commit([("UPDATE steps SET position = 'chatter' WHERE seq = 1", ())])
    divergence = await found(store)
    assert (divergence.seq, divergence.kind) == (0, "route")
    again = (await replay(store, "s1", 0)).divergence
    assert again is not None
    assert (again.seq, again.summary) == (1, "Today's graph has no action chatter.")


async def test_a_bug_is_a_difference_with_the_place_where_it_happened(store: Store, tmp_path: Path) -> None:
    await record(store, tmp_path, START, plan("one"), finish("did it"), "done")
    tamper(store, 3, active_step_id="7")
    divergence = (await replay(store, "s1", 3)).divergence
    assert divergence is not None
    assert (divergence.seq, divergence.action, divergence.kind) == (4, "step_summarizer", "state")
    assert divergence.summary.startswith("The action fails today: AssertionError")
    assert any("step_summarizer.py" in line for line in divergence.lines)


@pytest.mark.parametrize("table", ["steps", "messages"])
async def test_a_recording_with_a_hole_is_not_replayed(store: Store, tmp_path: Path, table: str) -> None:
    await record(store, tmp_path, WRITE, READ, "done")
    column = {"steps": "seq", "messages": "idx"}[table]
    store.database.commit([(f"DELETE FROM {table} WHERE {column} = 2", ())])
    with pytest.raises(StoreError, match=r"damaged: .* is missing"):
        await replay(store, "s1")


def approved(store: Store) -> dict[str, Any]:
    """The call of step 1 as a rule would have approved it."""
    call = store.show("s1", 1).state.pending_tool_calls[0]
    changed = call.model_copy(update={"decision": "approved", "decided_by": "person"})
    return {**changed.model_dump(mode="json"), "arguments": ""}


def described(name: str, description: str) -> dict[str, Tool]:
    """The tools, one of them with another description."""
    tools: dict[str, Any] = builtin_tools()
    tools[name].spec = replace(tools[name].spec, description=description)
    return tools


def always_planning() -> Graph:
    """A graph whose router always makes a plan."""
    builder = cast(GraphBuilder, cast(Any, GraphBuilder()).with_actions(**ACTIONS))
    others = (one for one in TRANSITIONS if one[0] != "router")
    return builder.with_transitions(("router", "vibe_planner", OTHERWISE), *others).build()
