"""A worker answers the messages of sessions, in order, and hands every session back."""

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.stores.waiting import AGENT, set_head

from sandbur import Agent, Middleware, MiddlewareSession, Overloaded, tool
from sandbur.actions.ports import ModelEvent, ModelRequest
from sandbur.actions.ports.events import Event, RunFinished, TextDelta
from sandbur.agent.fleet.messages import create_session, send_message
from sandbur.agent.fleet.worker import Worker
from sandbur.state.errors import ModelError, SessionHeld, UsageError
from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall


def make_agent_env(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "SANDBUR_HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "config")}


def make_agent(tmp_path: Path, model: Any, **arguments: Any) -> Agent[Any]:
    env = make_agent_env(tmp_path)
    return Agent(ScriptedModel(model), planning="off", cwd=tmp_path, env=env, **arguments)


class Stalling(ScriptedModel):
    """Streams half of an answer, then nothing more ever."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("Half of an ")
        yield TextDelta("answer and more ")
        await asyncio.sleep(600)


def echo(request: Any) -> str:
    return f"heard {list(request.messages)[-1].text}"


class Fleet:
    """Workers of one agent on one store."""

    def __init__(self, store: Store, agent: Agent[Any]) -> None:
        self.store, self.agent = store, agent
        self.events: dict[str, list[Event]] = defaultdict(list)
        self.notices: list[str] = []

    def worker(self, **arguments: Any) -> Worker:
        return Worker(
            self.store,
            {AGENT: self.agent},
            on_event=lambda session_id, event: self.events[session_id].append(event),
            on_notice=self.notices.append,
            **arguments,
        )

    async def add(self, session_id: str, *messages: str, **arguments: Any) -> str:
        await create_session(self.store, AGENT, self.agent, session_id, **arguments)
        for message in messages:
            await send_message(self.store, session_id, message)
        return session_id

    def results(self, session_id: str) -> list[str | None]:
        return [one.result for one in self.events[session_id] if isinstance(one, RunFinished)]

    def head(self, session_id: str) -> tuple[Any, ...]:
        sql = "SELECT status, owner, wake_at, attempts FROM heads WHERE session_id = ?"
        return self.store.database.query(sql, (session_id,))[0]


async def test_a_worker_answers_all_messages_of_all_sessions_in_order(store: Store, tmp_path: Path) -> None:
    fleet = Fleet(store, make_agent(tmp_path, echo))
    for number in range(3):
        await fleet.add(f"s{number}", "one", "two")
    await fleet.worker().run(once=True)
    for number in range(3):
        assert fleet.results(f"s{number}") == ["heard one", "heard two"]
        assert fleet.head(f"s{number}") == ("done", "", "", 0)
    assert store.database.query("SELECT id FROM workers") == []
    await send_message(store, "s1", "three")
    await fleet.worker().run(once=True)
    assert fleet.results("s1")[2:] == ["heard three"]
    assert len(store.show("s1").state.chat_history) == 6


class Openings(Middleware):
    """Counts how often a session is opened."""

    def __init__(self) -> None:
        self.count = 0

    async def on_start(self, session: MiddlewareSession) -> None:
        self.count += 1


async def test_a_worker_opens_a_session_once_that_it_created(store: Store, tmp_path: Path) -> None:
    openings = Openings()
    fleet = Fleet(store, make_agent(tmp_path, echo, middleware=[openings]))
    worker = fleet.worker()
    labels = {"app": "a", "user": "ada", "tags": ("t",)}
    await worker.create_session(store.tenant, AGENT, "s", labels, "Be brief.")
    with pytest.raises(UsageError, match="exists already"):
        await worker.create_session(store.tenant, AGENT, "s", {})
    assert store.index.summary("s").status == "new"
    opened = openings.count
    await send_message(store, "s", "one")
    await worker.run(once=True)
    assert (fleet.results("s"), openings.count) == (["heard one"], opened)
    settings = store.index.settings("s")
    assert (settings.user, settings.tags) == ("ada", ("t",))
    assert settings.system_prompt.endswith("Be brief.")
    assert store.verify("s") == []


async def test_a_created_session_that_another_worker_ran_is_read_again(store: Store, tmp_path: Path) -> None:
    fleet = Fleet(store, make_agent(tmp_path, echo))
    worker = fleet.worker()
    await worker.create_session(store.tenant, AGENT, "s", {})
    await send_message(store, "s", "one")
    await fleet.worker().run(once=True)
    await send_message(store, "s", "two")
    await worker.run(once=True)
    assert fleet.results("s") == ["heard one", "heard two"]
    assert len(store.show("s").state.chat_history) == 4
    assert fleet.notices == []


async def test_a_hint_is_heard_at_once_and_drain_ends_the_worker(store: Store, tmp_path: Path) -> None:
    answered = asyncio.Event()

    def reply(request: Any) -> str:
        answered.set()
        return echo(request)

    fleet = Fleet(store, make_agent(tmp_path, reply))
    worker = fleet.worker()
    running = asyncio.ensure_future(worker.run())
    await fleet.add("s", "hello")
    worker.hint()
    await answered.wait()
    while fleet.head("s")[1]:  # noqa: ASYNC110 -- the store tells nobody
        await asyncio.sleep(0.01)
    await worker.drain()
    await running
    assert fleet.head("s")[:3] == ("done", "", "")


async def test_a_call_that_waits_for_a_person_keeps_its_session_from_every_worker(
    store: Store, tmp_path: Path
) -> None:
    done: list[str] = []

    @tool
    def refund(order: str) -> str:
        """Refund an order."""
        done.append(order)
        return "refunded"

    def reply(request: Any) -> Any:
        last = list(request.messages)[-1]
        if last.tool_results:
            return "it is done"
        return ToolCall("refund", order=last.text) if last.text.isdigit() else f"heard {last.text}"

    fleet = Fleet(store, make_agent(tmp_path, reply, tools=[refund]))
    await fleet.add("s", "7", "next")
    await fleet.worker().run(once=True)
    assert fleet.head("s")[:3] == ("needs_approval", "", "")
    await fleet.worker().run(once=True)
    assert done == []
    decided = fleet.agent.clone(store=store.url)
    result = await decided.approve("s", record_only=True)
    assert (result.status, done) == ("interrupted", [])
    await fleet.worker().run(once=True)
    assert done == ["7"]
    assert fleet.results("s")[1:] == ["it is done", "heard next"]
    assert fleet.head("s")[:3] == ("done", "", "")


async def test_a_drained_session_goes_on_with_another_worker_and_its_call_runs_once(
    store: Store, tmp_path: Path
) -> None:
    is_in_second, done = asyncio.Event(), list[int]()

    @tool
    async def work(part: int) -> str:
        """Do a part."""
        done.append(part)
        if len(done) == 2:
            is_in_second.set()
            await asyncio.sleep(60)
        return "ok"

    def reply(request: Any) -> Any:
        parts = sum(message.role == "assistant" for message in request.messages)
        return ToolCall("work", part=parts) if parts < 4 else "the end"

    fleet = Fleet(store, make_agent(tmp_path, reply, tools=[work], mode="yolo"))
    await fleet.add("s", "go")
    first = fleet.worker()
    running = asyncio.ensure_future(first.run())
    await is_in_second.wait()
    await first.drain()
    await running
    status, owner, wake_at, _ = fleet.head("s")
    assert (status, owner) == ("running", "")
    assert wake_at
    await fleet.worker().run(once=True)
    assert done == [0, 1, 2, 3]
    assert fleet.results("s")[-1] == "the end"


async def test_a_session_that_always_fails_is_tried_again_later_and_then_put_aside(
    store: Store, tmp_path: Path
) -> None:
    def fail(request: Any) -> Any:
        return ModelError("the model is broken")

    fleet = Fleet(store, make_agent(tmp_path, fail))
    await fleet.add("s", "go")
    await fleet.worker().run(once=True)
    status, owner, wake_at, attempts = fleet.head("s")
    assert (status, owner, attempts) == ("error", "", 1)
    assert wake_at > store.database.query("SELECT updated_at FROM heads")[0][0]
    set_head(store, "s", attempts=4, wake_at="2020-01-01T00:00:00.000+00:00")
    await fleet.worker().run(once=True)
    assert fleet.head("s") == ("failed", "", "", 5)
    assert [one.status for one in store.sessions()] == ["failed"]
    assert "failed (it waits for a person)" in fleet.notices[-1]
    repaired = Fleet(store, make_agent(tmp_path, echo))
    await send_message(store, "s", "again")
    await repaired.worker().run(once=True)
    assert repaired.head("s") == ("done", "", "", 0)


async def test_a_rate_limited_session_waits_until_the_time_that_the_provider_named(
    store: Store, tmp_path: Path
) -> None:
    busy = Overloaded("busy")
    busy.retry_after_s = 3600
    replies: list[Any] = [busy]
    fleet = Fleet(store, make_agent(tmp_path, lambda request: replies[-1]))
    await fleet.add("s", "go")
    await fleet.worker().run(once=True)
    status, owner, wake_at, attempts = fleet.head("s")
    assert (status, owner, attempts) == ("rate_limited", "", 0)
    await send_message(store, "s", "more")
    assert fleet.head("s")[2] == wake_at, "a message does not shorten the wait"
    replies.append("fine")
    set_head(store, "s", wake_at="2020-01-01T00:00:00.000+00:00")
    await fleet.worker().run(once=True)
    assert fleet.results("s")[1:] == ["fine", "fine"]


async def test_a_claimed_session_is_refused_to_others(store: Store, tmp_path: Path) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def reply(request: Any) -> str:
        inside.set()
        await go_on.wait()
        return "done"

    fleet = Fleet(store, make_agent(tmp_path, reply))
    await fleet.add("s", "go")
    worker = fleet.worker()
    running = asyncio.ensure_future(worker.run(once=True))
    await inside.wait()
    with pytest.raises(SessionHeld):
        async with fleet.agent.clone(store=store.url).session("s") as session:
            await session.run("mine")
    assert worker.running == ("s",)
    go_on.set()
    await running
    assert fleet.results("s") == ["done"]


async def test_messages_for_sessions_that_no_worker_runs_are_refused(store: Store, tmp_path: Path) -> None:
    store.index.create("chat", SessionSettings(model="m", cwd="/"))
    with pytest.raises(UsageError, match="has no agent of a program"):
        await send_message(store, "chat", "hello")
    fleet = Fleet(store, make_agent(tmp_path, echo))
    await fleet.add("s")
    with pytest.raises(UsageError, match="is a command"):
        await send_message(store, "s", "/mode yolo")
    with pytest.raises(UsageError, match="is empty"):
        await send_message(store, "s", "  ")
    assert fleet.head("s")[2] == ""
    with pytest.raises(UsageError, match="needs an agent"):
        Worker(store, {})


@pytest.mark.parametrize(
    ("stop", "named"),
    [
        (lambda worker, session_id: worker.drain(), "[Interrupted by the shutdown of its worker"),
        (lambda worker, session_id: worker.interrupt(session_id), "[Interrupted by a request to stop"),
    ],
)
async def test_the_mark_of_a_cut_answer_names_who_stopped_the_run(
    store: Store, tmp_path: Path, stop: Any, named: str
) -> None:
    streaming = asyncio.Event()
    fleet = Fleet(
        store, Agent(Stalling("unread"), planning="off", cwd=tmp_path, env=make_agent_env(tmp_path))
    )
    await fleet.add("s1", "one")
    worker = Worker(
        store,
        {AGENT: fleet.agent},
        on_event=lambda _, event: isinstance(event, TextDelta) and streaming.set(),
    )
    running = asyncio.ensure_future(worker.run())
    await streaming.wait()
    await stop(worker, "s1")
    await worker.drain()
    await running
    assert list(store.show("s1").state.chat_history)[-1].text.startswith(named)
