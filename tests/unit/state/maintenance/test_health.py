"""Damaged records are found, set aside and told; the session goes on and no call runs twice for it."""

import json
import random
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan
from support.stores.reopening import reopen
from support.stores.tampering import add_behind

from sandbur.agent.history.timeline import list_timeline
from sandbur.state.calls import CallDecision
from sandbur.state.conversation.messages import ToolResult, ToolUse
from sandbur.state.databases.schema import CHAINED
from sandbur.state.maintenance.export import export_session
from sandbur.state.maintenance.import_ import import_recording
from sandbur.state.store.store import Store


def act(*texts: str) -> list[tuple[str, dict[str, str]]]:
    return [("act", {"text": text}) for text in texts]


async def recorded(store: Store) -> None:
    model = ScriptedModel(act("a", "b"), act("c"), "one", "two")
    session = await open_session(store, model, Recorder())
    await collect(session.send("first"))
    await collect(session.send("second"))


def change(store: Store, sql: str, *values: Any) -> None:
    store.database.commit([(sql, values)])


def pairs(session: Any) -> tuple[list[str], list[str]]:
    blocks = [block for message in session.state.chat_history for block in message.blocks]
    asked = [block.call_id for block in blocks if isinstance(block, ToolUse)]
    answered = [block.call_id for block in blocks if isinstance(block, ToolResult)]
    return asked, answered


async def test_a_whole_session_is_in_order(store: Store) -> None:
    await recorded(store)
    assert store.verify("s1") == []


async def test_every_changed_byte_is_found(store: Store) -> None:
    await recorded(store)
    chance = random.Random(7)
    for table, columns in CHAINED.items():
        rows = store.database.query(f"SELECT record, {columns[-1]} FROM {table}")
        for record, body in chance.sample(rows, min(len(rows), 4)):
            place = chance.randrange(len(body))
            flipped = body[:place] + chr(ord(body[place]) ^ 1) + body[place + 1 :]
            change(store, f"UPDATE {table} SET {columns[-1]} = ? WHERE record = ?", flipped, record)
            assert len(store.verify("s1")) == 1, (table, record, place)
            change(store, f"UPDATE {table} SET {columns[-1]} = ? WHERE record = ?", body, record)
    assert store.verify("s1") == []


@pytest.mark.parametrize("table", ["steps", "messages", "calls"])
async def test_a_deleted_record_is_missed(store: Store, table: str) -> None:
    await recorded(store)
    change(store, f"DELETE FROM {table} WHERE record = (SELECT MIN(record) FROM {table})")
    assert any("missing" in said for said in store.verify("s1"))


@pytest.mark.parametrize("place", range(9))
async def test_a_session_with_a_damaged_message_goes_on_with_a_valid_history(
    store: Store, place: int
) -> None:
    await recorded(store)
    change(store, "UPDATE messages SET body = 'x' || body WHERE idx = ?", place)
    healed = reopen(store)
    [said] = healed.quarantine_damage("s1")
    assert f"message 0/{place}" in said
    model = ScriptedModel("three")
    session = await open_session(healed, model, Recorder())
    asked, answered = pairs(session)
    assert asked == answered
    _, end = await collect(session.send("third"))
    assert end.result == "three"
    assert len(list(session.state.chat_history)) == 11
    for _ in range(2):
        [said] = reopen(store).quarantine_damage("s1")
        assert f"message 0/{place} is not what was written. It was set aside earlier" in said


async def test_after_a_damaged_step_the_session_goes_on_from_the_last_good_one(store: Store) -> None:
    await recorded(store)
    newest = store.index.summary("s1").steps - 1
    change(store, "UPDATE steps SET fields = '{' WHERE seq = ?", newest)
    healed = reopen(store)
    [said] = healed.quarantine_damage("s1")
    assert f"step {newest}" in said
    tool = Recorder()
    session = await open_session(healed, ScriptedModel("two again", "three"), tool)
    _, end = await collect(session.carry_on())
    assert end.result == "two again"
    await collect(session.send("third"))
    assert tool.done == []
    texts = [message.text for message in reopen(store).show("s1").state.chat_history if message.text]
    assert texts == ["first", "one", "second", "two again", "third", "three"]


async def test_a_session_without_a_sound_step_goes_on_with_a_new_beginning(store: Store) -> None:
    session = await open_session(store, ScriptedModel("one"), Recorder())
    await collect(session.send("first"))
    change(store, "UPDATE steps SET fields = '{' WHERE seq = 0")
    healed = reopen(store)
    healed.quarantine_damage("s1")
    again = await open_session(healed, ScriptedModel("two", "three"), Recorder())
    for text, answer in (("second", "two"), ("third", "three")):
        _, end = await collect(again.send(text))
        assert end.result == answer
    texts = [message.text for message in reopen(store).show("s1").state.chat_history if message.text]
    assert texts == ["second", "two", "third", "three"]


async def test_a_damaged_step_in_front_of_finished_calls_repeats_none_of_them(store: Store) -> None:
    await recorded(store)
    change(store, "UPDATE steps SET fields = '{' WHERE seq = 2")
    healed = reopen(store)
    healed.quarantine_damage("s1")
    tool = Recorder()
    session = await open_session(healed, ScriptedModel("so"), tool)
    _, end = await collect(session.carry_on())
    assert (end.result, tool.done) == ("so", [])
    asked, answered = pairs(session)
    assert asked == answered == ["c1_0", "c1_1"]


@pytest.mark.parametrize("seq", [1, 3])
async def test_the_model_is_told_what_had_been_started_after_a_damaged_step(store: Store, seq: int) -> None:
    await recorded(store)
    change(store, "UPDATE steps SET fields = '{' WHERE seq = ?", seq)
    healed = reopen(store)
    healed.quarantine_damage("s1")
    model = ScriptedModel("so")
    session = await open_session(healed, model, Recorder())
    await collect(session.carry_on())
    told = "".join(message.text for message in model.requests[-1].messages)
    assert "may or may not have taken effect" in told
    assert [f'act {{"text": "{text}"}}' in told for text in "abc"] == [seq == 1, seq == 1, True]


async def test_a_tail_that_the_database_dropped_is_missed(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/sandbur.db")
    await recorded(store)
    store.database.write_mark("s1", store.writer("s1").chain.records + 3)
    [said] = store.verify("s1")
    assert "3 records are missing" in said
    store.close()


async def test_where_starts_may_be_lost_no_waiting_call_runs_without_a_decision(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a")), Recorder(), mode="interactive")
    await collect(session.send("go"))
    change(store, "UPDATE heads SET records = records + 2")
    healed = reopen(store)
    [said] = healed.quarantine_damage("s1")
    assert "2 records are missing" in said
    tool = Recorder()
    session = await open_session(healed, ScriptedModel("told"), tool)
    session.change_mode("yolo")
    _, end = await collect(session.carry_on())
    assert (end.result, tool.done) == ("told", [])
    assert "may or may not" in str(list(session.state.chat_history)[-2].blocks)


async def test_a_call_whose_arguments_are_lost_does_not_run(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a")), Recorder(), mode="interactive")
    await collect(session.send("go"))
    change(store, "UPDATE messages SET body = '{' WHERE idx = 1")
    healed = reopen(store)
    healed.quarantine_damage("s1")
    tool = Recorder()
    session = await open_session(healed, ScriptedModel("told"), tool)
    session.change_mode("yolo")
    _, end = await collect(session.carry_on())
    assert (end.result, tool.done) == ("told", [])


async def test_damage_in_a_parent_is_found_when_its_fork_is_opened(store: Store) -> None:
    model = ScriptedModel(START, plan("one"), act("a"), finish("x"), "end")
    await collect((await open_session(store, model, Recorder())).send("go"))
    store.fork("s1", "s2")
    change(store, "UPDATE messages SET body = '{' WHERE session_id = 's1' AND log = 0 AND idx = 0")
    healed = reopen(store)
    assert len(healed.quarantine_damage("s2")) == 1
    fork = await open_session(healed, ScriptedModel("more"), Recorder(), session_id="s2")
    _, end = await collect(fork.send("go on"))
    assert end.result == "more"


@pytest.mark.parametrize("table", ["steps", "messages", "calls", "traces"])
async def test_a_record_after_the_end_is_set_aside_and_the_session_goes_on_from_its_own(
    store: Store, table: str, tmp_path: Path
) -> None:
    await recorded(store)
    place = add_behind(store, table)
    healed = reopen(store)
    [said] = healed.quarantine_damage("s1")
    assert f" {place} stands behind the end of the chain. It is set aside" in said
    tool = Recorder()
    session = await open_session(healed, ScriptedModel(act("d"), "three"), tool)
    assert [m.text for m in session.state.chat_history if m.text] == ["first", "one", "second", "two"]
    _, end = await collect(session.send("third"))
    assert (end.result, tool.done) == ("three", ["d"])
    again = reopen(store)
    [said] = again.quarantine_damage("s1")
    assert f" {place} stands behind the end of the chain. It was set aside earlier" in said
    texts = [message.text for message in again.show("s1").state.chat_history if message.text]
    assert texts == ["first", "one", "second", "two", "third", "three"]
    assert len(again.verify("s1")) == 1
    copy = Store.open(f"sqlite:///{tmp_path}/copy/sandbur.db")
    lines = (json.dumps(record) for record in export_session(again.database, "s1"))
    exported = BytesIO("\n".join(lines).encode())
    import_recording(copy.database, "", exported)
    assert copy.verify("s1") == []
    copied = await open_session(copy, ScriptedModel("four"), Recorder())
    _, end = await collect(copied.send("fourth"))
    assert end.result == "four"
    copy.close()


async def test_a_step_slipped_in_after_the_end_is_not_where_the_session_stands(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a")), Recorder(), mode="interactive")
    await collect(session.send("go"))
    add_behind(store, "steps", position="human_confirm", fields='{"execution_mode":"yolo"}')
    healed = reopen(store)
    healed.quarantine_damage("s1")
    tool = Recorder()
    session = await open_session(healed, ScriptedModel("done"), tool, mode="interactive")
    _, end = await collect(session.carry_on())
    assert (end.status, tool.done) == ("needs_approval", [])
    assert all(step.action for step in list_timeline(healed.database, "s1"))


async def test_an_end_slipped_in_after_the_end_does_not_stand_for_a_call_that_waits(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a")), Recorder(), mode="interactive")
    await collect(session.send("go"))
    result = ToolResult(call_id="c1_0", tool="act", outcome="ok", content="x").model_dump(mode="json")
    add_behind(store, "calls", move="finished", body=json.dumps({"outcome": "ok", "result": result}))
    healed = reopen(store)
    healed.quarantine_damage("s1")
    tool = Recorder()
    session = await open_session(healed, ScriptedModel("done"), tool, mode="interactive")
    _, end = await collect(session.decide([CallDecision(call_id="c1_0", approved=True)]))
    assert (end.result, tool.done) == ("done", ["a"])


async def test_what_a_running_session_adds_is_not_taken_for_a_stranger(store: Store) -> None:
    looked: list[list[str]] = []

    async def look(text: str) -> None:
        looked.append(reopen(store).verify("s1"))

    await collect((await open_session(store, ScriptedModel(act("a"), "one"), Recorder(work=look))).send("go"))
    assert looked == [[]]
