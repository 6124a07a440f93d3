"""An interruption at any event loses nothing that was shown, and the session goes on from there."""

import asyncio
from typing import Any

import pytest
from support.models.scripted import START, Recorder, ScriptedModel, act, collect, finish, open_session, plan
from support.stores.histories import assert_every_call_is_answered, results
from support.stores.reopening import reopen

from sandbur.actions.ports.events import Event, MessageAdded, RunFinished, RunStarted, ToolFinished
from sandbur.agent.session.session import Session
from sandbur.state.store.store import Store

VIBE: list[Any] = [START, plan("one"), act("a", "b"), finish("saw it"), "the answer"]


async def interrupted_at(session: Session, number: int) -> tuple[list[Event], bool]:
    """Send a message, interrupt at event `number`; return the events and whether that was before the end."""
    seen: list[Event] = []
    async for event in session.send("go"):
        seen.append(event)
        if len(seen) == number + 1 and not isinstance(event, RunFinished):
            await session.interrupt()
    assert isinstance(seen[-1], RunFinished)
    return seen, seen[-1].status == "interrupted"


class Remaining:
    """Answers by what the history holds, so that it can be asked again after an interruption."""

    name, context_window = "scripted/one", 100_000

    async def aclose(self) -> None:
        pass

    async def stream(self, request: Any) -> Any:
        done = sum(bool(message.tool_uses) for message in request.messages)
        steps = [message for message in request.messages if message.text.startswith("Step 1 completed")]
        turn = VIBE[4] if steps else VIBE[min(done, 3)]
        async for event in ScriptedModel(turn).stream(request):
            yield event


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("number", range(24))
async def test_a_run_interrupted_at_any_event_is_finished_later(
    store: Store, number: int, elsewhere: bool
) -> None:
    tool = Recorder()
    session = await open_session(store, Remaining(), tool)
    seen, was_open = await interrupted_at(session, number)
    if not was_open:
        assert seen[-1].result == "the answer"
        return
    if elsewhere:
        session = await open_session(reopen(store), Remaining(), tool)
    if not any(isinstance(event, MessageAdded) for event in seen):
        _, end = await collect(session.send("go"))
    else:
        _, end = await collect(session.carry_on())
    assert (end.status, end.result) == ("done", "the answer")
    assert tool.done == ["a", "b"]
    assert [m.text for m in session.state.chat_history if m.origin == "person"] == ["go"]
    assert_every_call_is_answered(store.show("s1").state.chat_history)
    step = reopen(store).show("s1").state.vibe_plan[0]
    shown = [event.content for event in seen if isinstance(event, ToolFinished)]
    results = [result.content for said in step.chat_history for result in said.tool_results]
    assert results[: len(shown)] == shown


async def test_an_interruption_before_the_beginning_is_on_disk_asks_no_model_and_keeps_the_message(
    store: Store,
) -> None:
    model = ScriptedModel("hi")
    session = await open_session(store, model)
    run = asyncio.ensure_future(collect(session.send("go")))
    await asyncio.sleep(0)
    await session.interrupt()
    seen, end = await run
    assert [type(event) for event in seen[:-1]] == [RunStarted, MessageAdded]
    assert (end.status, model.requests) == ("interrupted", [])
    later = await open_session(reopen(store), model)
    _, end = await collect(later.carry_on())
    assert (end.result, [m.text for m in later.state.chat_history]) == ("hi", ["go", "hi"])


async def test_a_second_interruption_waits_for_the_first(store: Store) -> None:
    running = asyncio.Event()

    async def die_slowly(text: str) -> None:
        running.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.shield(asyncio.sleep(0.2))

    session = await open_session(store, ScriptedModel(act("a")), Recorder("act", "effect", die_slowly))
    run = asyncio.ensure_future(collect(session.send("go")))
    await running.wait()
    await asyncio.gather(session.interrupt(), session.interrupt())
    _, end = await run
    assert end.status == "interrupted"
    later = await open_session(reopen(store), ScriptedModel("fine"), Recorder())
    _, end = await collect(later.carry_on())
    assert end.result == "fine"


async def test_what_was_shown_before_the_iterator_was_closed_is_kept(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a"), "done"), Recorder())
    events = session.send("go")
    async for event in events:
        if isinstance(event, ToolFinished):
            break
    await events.aclose()  # type: ignore[attr-defined]
    later = Recorder()
    resumed = await open_session(reopen(store), ScriptedModel("done"), later)
    _, end = await collect(resumed.carry_on())
    assert (end.result, later.done) == ("done", [])
    assert results(resumed.state.chat_history) == [("ok", "did a")]


async def test_closing_the_iterator_gives_the_session_back(store: Store) -> None:
    session = await open_session(store, ScriptedModel("one", "two"))
    events = session.send("go")
    await anext(events)
    await events.aclose()  # type: ignore[attr-defined]
    other = await open_session(reopen(store), ScriptedModel("two"))
    _, end = await collect(other.send("again"))
    assert end.result == "two"
