"""Actions are plain functions over state and ports; what they tell leaves through a port."""

import ast
import asyncio
import inspect
import logging
from typing import Any

import pytest
from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import AsyncBaseStateSaver
from support.models.scripted import Recorder, ScriptedModel, scripted_ports
from support.places import ROOT

from sandbur.actions.ports.events import Event, Notice, ToolFinished, ToolStarted
from sandbur.actions.turn.burr_action import Changes, graph_action
from sandbur.agent.graph import (
    ACTIONS,
    CALLS_START_NEXT,
    TRANSITIONS,
    TransitionCondition,
    build_application,
    build_graph,
)
from sandbur.agent.session.position import Position
from sandbur.state.application import ApplicationState
from sandbur.state.process.cancellation import run_to_end, wait_until_done
from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_is_a_plain_function_over_state_and_ports(name: str) -> None:
    plain = inspect.unwrap(ACTIONS[name])  # pyright: ignore[reportArgumentType]
    assert inspect.iscoroutinefunction(plain)
    assert list(inspect.signature(plain).parameters)[:2] == ["state", "ports"]


def test_nothing_but_the_wrapper_yields_to_burr() -> None:
    files = [ROOT / "actions" / f"{name}.py" for name in ACTIONS]
    files.extend((ROOT / "actions" / "turn").glob("*.py"))
    streams = {
        path.name
        for path in files
        for found in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(found, ast.AsyncFunctionDef) and any(isinstance(n, ast.Yield) for n in ast.walk(found))
    }
    assert streams == {"burr_action.py"}


async def test_an_action_runs_without_burr(store: Store) -> None:
    ports = scripted_ports(store, ScriptedModel(), trace=await store.open_trace("s1"))
    heard: list[Event] = []
    ports.events.listener = heard.append
    plain: Any = inspect.unwrap(ACTIONS["prompt"])  # pyright: ignore[reportArgumentType]
    changes = await plain(ApplicationState(), ports, user_input="/mode yolo")
    assert (changes["execution_mode"], changes["user_input"]) == ("yolo", "/mode yolo")
    assert [type(event) for event in heard] == [Notice]


class Saver(AsyncBaseStateSaver):
    """Keeps what Burr asks it to save."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    async def save(self, *args: Any, **kwargs: Any) -> None:
        named = dict(zip(("partition", "app", "seq", "position", "state", "status"), args, strict=False))
        self.log.append((named["position"], named["status"]))


async def cancelled(work: Any) -> None:
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
    with pytest.raises(asyncio.CancelledError):
        task.result()


async def stuck(state: Any, **_: Any) -> Any:
    await asyncio.sleep(3600)


async def test_burr_saves_a_cancelled_plain_action_as_completed() -> None:
    """The reason why our actions are handed to Burr as streaming ones; if this fails, they need not be."""
    log: list[Any] = []

    @action(reads=[], writes=[])
    async def plain(state: State[Any]) -> State[Any]:
        return await stuck(state)

    app = await _application(plain, log)
    await cancelled(app.astep())
    assert log == [("act", "completed")]


async def test_a_cancelled_action_of_ours_is_not_completed() -> None:
    log: list[Any] = []

    @graph_action(reads=[], writes=[])
    async def ours(state: ApplicationState) -> Changes:
        return await stuck(state)

    app = await _application(ours, log)
    await cancelled(_streamed(app))
    assert log == [("act", "failed")]


async def test_a_failing_action_tells_the_log_of_burr_nothing(caplog: pytest.LogCaptureFixture) -> None:
    @graph_action(reads=[], writes=[])
    async def ours(state: ApplicationState) -> Changes:
        raise ValueError("broken")

    app = await _application(ours, [])
    with caplog.at_level(logging.DEBUG, "burr"), pytest.raises(ValueError, match="broken"):
        await _streamed(app)
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


async def _application(act: Any, log: list[Any]) -> Any:
    builder: Any = ApplicationBuilder()
    return await (
        builder.with_actions(act=act)
        .with_transitions(("act", "act"))
        .with_entrypoint("act")
        .with_state(kept="a secret")
        .with_state_persister(Saver(log))
        .abuild()
    )


async def _streamed(app: Any) -> None:
    async for _, step in app.astream_iterate(halt_after=["act"]):
        await step.get()


async def test_what_a_step_tells_is_heard_before_the_step_ends(store: Store) -> None:
    model = ScriptedModel([("act", {"text": "a"}), ("act", {"text": "b"})], "done")
    ports = scripted_ports(store, model, Recorder(effect="read"), trace=await store.open_trace("s1"))
    log: list[Any] = []
    ports.events.listener = log.append
    state = ApplicationState(execution_mode="yolo")
    app = await build_application(build_graph(), "s1", store.persister(CALLS_START_NEXT), state)
    position = Position("s1", app, store)
    await position.claim(SessionSettings(model=model.name, cwd="/"), "go")
    inputs = {"ports": ports, "user_input": "go"}
    async for act, step in app.astream_iterate(halt_after=["execute_tools"], inputs=inputs):
        await step.get()
        log.append(act.name)
    await position.release("done")
    told = [event if isinstance(event, str) else type(event).__name__ for event in log]
    assert told == [
        "MessageAdded", "prompt", "UsageChanged", "ToolRequested", "ToolRequested", "router",
        "ToolStarted", "ToolStarted", "ToolFinished", "ToolFinished", "execute_tools",
    ]  # fmt: skip
    started = [event.call_id for event in log if isinstance(event, ToolStarted)]
    assert started == [event.call_id for event in log if isinstance(event, ToolFinished)]


async def test_the_next_action_is_looked_for_once_a_state(store: Store) -> None:
    asked: list[str] = []

    def counting(condition: TransitionCondition) -> TransitionCondition:
        def holds(state: ApplicationState) -> bool:
            asked.append(condition.name)
            return condition.holds(state)

        return TransitionCondition(condition.name, holds)

    ways = tuple((start, end, counting(condition)) for start, end, condition in TRANSITIONS)
    model = ScriptedModel("hello")
    ports = scripted_ports(store, model, trace=await store.open_trace("s1"))
    app = await build_application(
        build_graph(ways), "s1", store.persister(CALLS_START_NEXT), ApplicationState()
    )
    position = Position("s1", app, store)
    await position.claim(SessionSettings(model=model.name, cwd="/"), "hi")
    inputs = {"ports": ports, "user_input": "hi"}
    async for _, step in app.astream_iterate(halt_after=["router"], inputs=inputs):
        await step.get()
    assert position.next_action == position.next_action == "prompt"
    await position.release("done")
    way_to = {start: [rule.name for origin, _, rule in TRANSITIONS if origin == start] for start in ACTIONS}
    from_prompt = way_to["prompt"][: way_to["prompt"].index("a message") + 1]
    assert asked == [*from_prompt, *way_to["router"]]


async def test_a_wait_to_the_end_outlasts_every_cancellation() -> None:
    began, ended, told = asyncio.Event(), asyncio.Event(), list[str]()

    async def work() -> str:
        began.set()
        await ended.wait()
        told.append("over")
        return "result"

    task = asyncio.ensure_future(run_to_end(work()))
    await began.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    ended.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told == ["over"]


async def test_the_first_cancellation_of_a_wait_is_told_once() -> None:
    work = asyncio.ensure_future(asyncio.sleep(3600))
    calls: list[bool] = []
    task = asyncio.ensure_future(wait_until_done(work, lambda: calls.append(work.cancel())))
    await asyncio.sleep(0)
    task.cancel()
    assert isinstance(await task, asyncio.CancelledError)
    assert calls == [True]
