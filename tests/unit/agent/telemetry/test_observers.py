"""An observer sees the events and the trace records of a run; whatever it does wrong, the run goes on."""

import logging

import pytest
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session

from sandbur.actions.ports.events import Event, Notice, RunFinished, ToolFinished
from sandbur.agent.session.observers import Observer
from sandbur.state.application import ApplicationState
from sandbur.state.store.recording import list_traces
from sandbur.state.store.store import Store
from sandbur.state.trace import RunBegan, TraceRecord


class Diary(Observer):
    trace_id = "0123"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_event(self, event: Event, state: ApplicationState) -> None:
        if isinstance(event, ToolFinished):
            self.seen.append(f"finished {event.tool} of {len(state.pending_tool_calls)}")

    def on_record(self, record: TraceRecord) -> None:
        self.seen.append(type(record).__name__)

    async def before_run(self, text: str | None) -> None:
        self.seen.append(f"before {text}")
        self.notify("a notice")

    async def before_event(self, event: Event) -> None:
        self.seen += ["end"] if isinstance(event, RunFinished) else []

    async def close(self) -> None:
        self.seen.append("closed")


class Broken(Observer):
    def on_event(self, event: Event, state: ApplicationState) -> None:
        raise ValueError("event")

    def on_record(self, record: TraceRecord) -> None:
        raise ValueError("record")

    async def before_run(self, text: str | None) -> None:
        raise ValueError("run")

    async def after_event(self, event: Event) -> None:
        raise ValueError("after")

    async def close(self) -> None:
        raise ValueError("close")


async def test_an_observer_sees_events_and_records_in_their_order(store: Store) -> None:
    diary = Diary()
    model = ScriptedModel(act("a"), "done")
    session = await open_session(store, model, Recorder(), observers=[diary])
    events, end = await collect(session.send("go"))
    await session.observers.close()
    assert end.status == "done"
    assert diary.seen == [
        "before go", "RunBegan", "ModelCalled", "finished act of 1", "ModelCalled", "RunEnded", "end",
        "closed",
    ]  # fmt: skip
    assert "a notice" in [event.message for event in events if isinstance(event, Notice)]


async def test_the_trace_id_of_an_observer_is_stored_with_the_run(store: Store) -> None:
    session = await open_session(store, ScriptedModel("done"), observers=[Diary()])
    await collect(session.send("go"))
    records = [traced.record for traced in list_traces(store.database, "s1")]
    assert [record.trace_id for record in records if isinstance(record, RunBegan)] == ["0123"]


async def test_a_bug_in_an_observer_is_logged_and_the_run_goes_on(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    diary = Diary()
    with caplog.at_level(logging.ERROR, "sandbur"):
        session = await open_session(
            store, ScriptedModel(act("a"), "done"), Recorder(), observers=[Broken(), diary]
        )
        _, end = await collect(session.send("go"))
        await session.observers.close()
    assert (end.status, end.result) == ("done", "done")
    assert diary.seen[-1] == "closed"
    assert {str(record.exc_info[1]) for record in caplog.records if record.exc_info} == {
        "event", "record", "run", "after", "close",
    }  # fmt: skip
