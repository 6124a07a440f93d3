"""A fork goes its own way: it writes nothing into its parent and repeats none of its effects."""

import pytest
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session
from support.stores.histories import assert_every_call_is_answered, results
from support.stores.reopening import reopen

from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store


async def pending_session(store: Store) -> tuple[str, int]:
    """Leave s1 before a call that waits for a decision; return its id and the newest step."""
    session = await open_session(store, ScriptedModel(act("a")), Recorder(), mode="interactive")
    _, end = await collect(session.send("go"))
    return end.pending[0].call_id, store.index.summary("s1").steps - 1


@pytest.mark.parametrize("order", [("s1", "s2"), ("s2", "s1")])
async def test_both_sides_of_a_fork_can_decide_the_same_call(store: Store, order: tuple[str, ...]) -> None:
    call_id, _ = await pending_session(store)
    store.fork("s1", "s2")
    for name in order:
        tool = Recorder()
        one = await open_session(reopen(store), ScriptedModel(f"done {name}"), tool, session_id=name)
        one.change_mode("interactive")
        _, end = await collect(one.decide([CallDecision(call_id=call_id, approved=True)]))
        assert (end.status, end.result) == ("done", f"done {name}")
    for name in order:
        history = store.show(name).state.chat_history
        assert_every_call_is_answered(history)
        assert history.last is not None
        assert history.last.text == f"done {name}"


async def test_a_call_that_the_parent_finished_is_not_run_again_by_the_fork(store: Store) -> None:
    call_id, waiting = await pending_session(store)
    parent_tool, fork_tool = Recorder(), Recorder()
    parent = await open_session(reopen(store), ScriptedModel("done"), parent_tool)
    await collect(parent.decide([CallDecision(call_id=call_id, approved=True)]))
    store.fork("s1", "s2", waiting)
    fork = await open_session(reopen(store), ScriptedModel("seen"), fork_tool, session_id="s2")
    fork.change_mode("yolo")
    _, end = await collect(fork.carry_on())
    assert (end.result, parent_tool.done, fork_tool.done) == ("seen", ["a"], [])
    assert results(fork.state.chat_history) == [("ok", "did a")]


async def ran_twice(store: Store) -> list[str]:
    """Run two calls, whose results are in the history alone; return their ids."""
    session = await open_session(store, ScriptedModel(act("a"), act("b"), "done"), Recorder())
    await collect(session.send("go"))
    return [
        row[0] for row in store.database.query("SELECT call_id FROM calls WHERE move = 'finished' ORDER BY n")
    ]


async def test_a_result_is_read_from_the_step_that_took_it_into_the_history(store: Store) -> None:
    first, second = await ran_twice(store)
    forge = "UPDATE messages SET body = REPLACE(body, ?, ?) WHERE body LIKE '%did a%'"
    store.database.commit([(forge, (first, second))])
    found = (await reopen(store).journal("s1").load_calls([second]))[second].result
    assert found is not None
    assert found.content == "did b"


async def test_results_are_found_where_rows_were_numbered_table_by_table(store: Store) -> None:
    calls = await ran_twice(store)
    store.database.commit([("UPDATE calls SET record = record + 1000", ())])
    found = await reopen(store).journal("s1").load_calls(calls)
    assert [call.result and call.result.content for call in found.values()] == ["did a", "did b"]


async def test_an_approval_does_not_go_over_to_a_fork(store: Store) -> None:
    call_id, _ = await pending_session(store)
    parent = await open_session(reopen(store), ScriptedModel(), Recorder())
    await collect(parent.decide([CallDecision(call_id=call_id, approved=True)], record_only=True))
    store.fork("s1", "s2")
    tool = Recorder()
    fork = await open_session(reopen(store), ScriptedModel(), tool, session_id="s2")
    assert fork.next_action == "human_confirm"
    _, end = await collect(fork.carry_on())
    assert (end.status, tool.done) == ("needs_approval", [])


async def test_ids_stay_unique_across_a_fork_and_its_decisions(store: Store) -> None:
    await collect((await open_session(store, ScriptedModel(act("a"), "x"), Recorder())).send("go"))
    store.fork("s1", "s2")
    fork = await open_session(store, ScriptedModel(act("b"), "y"), Recorder(), session_id="s2")
    await collect(fork.send("more"))
    ids = [use.call_id for message in fork.state.chat_history for use in message.tool_uses]
    assert len(ids) == len(set(ids)) == 2
