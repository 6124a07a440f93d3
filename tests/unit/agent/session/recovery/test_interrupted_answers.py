"""An answer that is interrupted while it streams: what was read stays in the history, marked as such."""

import asyncio
import itertools
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.real_ports import open_real
from support.models.scripted import START, ScriptedModel, collect, finish, open_session, plan
from support.models.server import ModelServer, say, stall
from support.stores.reopening import reopen

from sandbur.actions.ports import ModelEvent, ModelRequest
from sandbur.actions.ports.events import Event, MessageAdded, Notice, TextDelta
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.session.run_limits import Limits
from sandbur.agent.session.session import Session
from sandbur.state.conversation.messages import Message
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

HALF = "Half of an answer "
"""Ends with a blank: a last word is shown once it is whole, as it may be the beginning of a secret."""
READ = [("read_file", {"path": "none"})]


class Halting(ScriptedModel):
    """A turn that is a tuple streams its items, then nothing more ever; an empty one says that it does."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(*turns)
        self.is_silent = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if not isinstance(self.turns[0], tuple):
            async for event in super().stream(request):
                yield event
            return
        self.requests.append(request)
        items: Any = self.turns.pop(0)
        for item in items:
            yield item
        if not items:
            self.is_silent.set()
        await asyncio.sleep(600)

    @property
    def sent(self) -> list[list[Message]]:
        return [list(request.messages) for request in self.requests]


HALTS: Any = (TextDelta(HALF[:7]), TextDelta(HALF[7:]))


async def interrupted(session: Session, events: AsyncIterator[Event], at: str = HALF[7:]) -> list[Event]:
    """Follow a run and interrupt it behind a piece of text."""
    seen: list[Event] = []
    async for event in events:
        seen.append(event)
        if isinstance(event, TextDelta) and event.delta.endswith(at):
            await session.interrupt()
    assert getattr(seen[-1], "status", "") == "interrupted"
    return seen


def said(messages: Any) -> list[tuple[str, str, str]]:
    """Return role, origin and text of messages; of the mark only how it begins."""
    return [(one.role, one.origin, one.text.partition(" before")[0]) for one in messages]


KEPT = [("assistant", "model", HALF), ("user", "runtime", "[Interrupted by the program that ran it")]


async def unchanged(store: Store) -> None:
    """Replay the session: its record tells exactly what happened."""
    replayed = await replay(store, "s1")
    assert replayed.divergence is None, replayed.divergence
    assert not replayed.recorded_only


async def test_what_was_read_is_on_disk_and_the_next_message_is_answered_with_it(
    store: Store, tmp_path: Path
) -> None:
    model = Halting(HALTS, "done")
    session = await open_real(store, model, tmp_path)
    seen = await interrupted(session, session.send("go"))
    assert MessageAdded("assistant", HALF) in seen
    stored = reopen(store).show("s1").state.chat_history
    assert said(stored) == [("user", "person", "go"), *KEPT]
    assert session.next_action == "router"
    again = Halting("done")
    later = await open_real(reopen(store), again, tmp_path)
    _, end = await collect(later.send("and now?"))
    assert (end.status, end.result) == ("done", "done")
    (request,) = again.sent
    assert said(request)[1:3] == KEPT
    assert said(request)[-1] == ("user", "person", "and now?")
    assert request[: len(model.sent[0])] == model.sent[0]
    roles = [one.role for one in request]
    assert all(one != other for one, other in itertools.pairwise(roles))
    await unchanged(store)


async def test_an_interrupted_answer_is_asked_for_again(store: Store, tmp_path: Path) -> None:
    model = Halting(HALTS, HALTS, (), "the whole answer")
    session = await open_real(store, model, tmp_path)
    await interrupted(session, session.send("go"))
    await interrupted(session, session.carry_on())
    run = asyncio.ensure_future(collect(session.carry_on()))
    await model.is_silent.wait()
    await session.interrupt()
    await run
    _, end = await collect(session.carry_on())
    assert (end.status, end.result) == ("done", "the whole answer")
    first, second, third, fourth = model.sent
    assert said(second) == [*said(first), *KEPT]
    assert said(third) == [*said(second), *KEPT]
    assert fourth == third
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    await unchanged(store)


@pytest.mark.parametrize("halt", range(1, 7))
async def test_an_interrupted_plan_keeps_what_was_read_and_goes_on(
    store: Store, tmp_path: Path, halt: int
) -> None:
    """Interrupted in the route behind a tool, planner, first and later call of a step, and answer."""
    turns: list[Any] = [READ, START, plan("one", "two"), READ, finish("did one"), finish("two"), "the answer"]
    model = Halting(*turns[:halt], HALTS, *turns[halt:])
    session = await open_real(store, model, tmp_path)
    await interrupted(session, session.send("go"))
    again = Halting(*turns[halt:])
    later = await open_real(reopen(store), again, tmp_path)
    _, end = await collect(later.carry_on())
    assert (end.status, end.result) == ("done", "the answer")
    assert said(again.sent[0])[-2:] == KEPT
    assert again.sent[0][: len(model.sent[-1])] == model.sent[-1]
    assert [step.summary for step in end.steps] == ["did one", "two"]
    await unchanged(store)


async def test_a_message_instead_of_a_step_tells_what_the_step_had_said(store: Store, tmp_path: Path) -> None:
    model = Halting(START, plan("one"), HALTS, "fine")
    session = await open_real(store, model, tmp_path)
    await interrupted(session, session.send("go"))
    _, end = await collect(session.send("stop that"))
    assert end.result == "fine"
    assert any(HALF in message.text for message in model.sent[-1])
    assert model.sent[-1][-1].text == "stop that"
    await unchanged(store)


@pytest.mark.parametrize(
    "items",
    [
        (TextDelta("  \n"), TextDelta(HALF[7:7])),
        (
            TextDelta("a try that was cut"),
            Notice("It is discarded.", "discarded"),
            TextDelta(""),
        ),
    ],
)
async def test_nothing_is_kept_where_nothing_was_read(store: Store, tmp_path: Path, items: Any) -> None:
    model = Halting(items, "whole")
    session = await open_real(store, model, tmp_path)
    await interrupted(session, session.send("go"), at="")
    assert said(session.state.chat_history) == [("user", "person", "go")]
    _, end = await collect(session.carry_on())
    assert end.result == "whole"
    assert model.sent[1] == model.sent[0]


async def test_a_cut_answer_names_the_user_only_where_the_user_asked(store: Store, tmp_path: Path) -> None:
    model = Halting(HALTS, HALTS, "done")
    session = await open_real(store, model, tmp_path)
    named: list[str] = []
    for by in ("the user", ""):
        async for event in session.carry_on() if named else session.send("go"):
            if isinstance(event, TextDelta) and event.delta.endswith(HALF[7:]):
                await session.interrupt(by)
                await session.interrupt("a second request")
        named.append(list(session.state.chat_history)[-1].text.partition(" before")[0])
    assert named == ["[Interrupted by the user", "[Interrupted by the program that ran it"]


async def test_what_the_time_limit_cut_is_kept_and_called_so(store: Store) -> None:
    session = await open_session(store, Halting(HALTS), limits=Limits(timeout_s=0.5))
    _, end = await collect(session.send("go"))
    assert end.status == "timeout"
    stored = list(reopen(store).show("s1").state.chat_history)
    assert said(stored)[1:] == [KEPT[0], ("user", "runtime", "[Interrupted by the time limit")]


@pytest.mark.parametrize(
    ("provider", "number"),
    [("openai-chat", signal.SIGINT), ("openai-responses", signal.SIGTERM), ("anthropic", signal.SIGINT)],
)
def test_every_wire_format_takes_what_was_read(tmp_path: Path, provider: str, number: signal.Signals) -> None:
    command = Command(tmp_path)
    halts = stall(say(HALF * 12, reasoning="hm", pieces=12))
    with ModelServer([halts, say("whole"), say("yes")]) as server:
        for name in ("OPENAI", "ANTHROPIC"):
            command.env |= {f"{name}_BASE_URL": server.base_url, f"{name}_API_KEY": "k"}
        stream = ("--output-format", "stream-json")
        process = command.start("-p", "go", "-m", f"{provider}/some-model", *stream)
        assert process.stdout is not None
        lines = map(json.loads, process.stdout)
        session_id = next(line["session_id"] for line in lines if HALF in line.get("delta", ""))
        process.send_signal(number)
        process.communicate(timeout=120)
        assert process.returncode == 128 + number
        assert command.run("-p", "-r", session_id).out == "whole\n"
        assert command.run("-p", "sure?", "-r", session_id).out == "yes\n"
        assert not server.rejections
        sent = [request.raw.decode() for request in server.requests]
    assert HALF not in sent[0]
    assert HALF in sent[1]
    mark = f"[Interrupted by the signal {number.name}"
    assert sent[1].index(HALF) < sent[1].index(mark)
    assert command.run("replay", session_id).code == 0
    shown = command.run("sessions", "show", session_id).out
    assert HALF in shown
    assert mark in shown
    assert HALF in command.run("sessions", "export", session_id, "--format", "md").out
