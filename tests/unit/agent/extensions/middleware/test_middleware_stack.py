"""What a session's middleware is told, in which order, and what keeps it from opening."""

from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session

from sandbur import Agent
from sandbur.actions.ports.events import Event, Notice, RunFinished, ToolFinished
from sandbur.agent.extensions.middleware.middleware import Middleware, MiddlewareSession
from sandbur.agent.extensions.middleware.middleware_stack import in_order
from sandbur.state.errors import MiddlewareError, UsageError
from sandbur.state.store.store import Store


class Diary(Middleware):
    """Watches everything; every other method is async."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def note(self, what: str) -> None:
        assert self.session.id == "s1"
        self.told.append(what)

    def on_start(self, session: MiddlewareSession) -> None:
        self.note(f"start {session.model}")

    async def before_reply(self, text: str | None) -> None:
        self.note(f"before reply {text}")

    def after_reply(self, result: RunFinished) -> None:
        self.note(f"after reply {result.result}")

    async def before_reasoning(self, request: Any) -> None:
        self.note("before reasoning")

    def after_reasoning(self, reply: Any) -> None:
        self.note("after reasoning")

    async def before_acting(self, call: Any) -> None:
        self.note(f"before acting {call.name}")

    def after_acting(self, call: Any, outcome: Any) -> None:
        self.note(f"after acting {outcome.content}")

    async def before_observing(self, call: Any, outcome: Any) -> None:
        self.note("before observing")

    def after_observing(self, result: ToolFinished) -> None:
        self.note(f"after observing {result.content}")


class Printing(Middleware):
    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []

    def before_printing(self, event: Event) -> None:
        self.events.append(("before", event))

    async def after_printing(self, event: Event) -> None:
        self.events.append(("after", event))


async def test_a_middleware_is_told_what_happens_in_order(store: Store) -> None:
    diary = Diary()
    session = await open_session(store, ScriptedModel(act("a"), "done"), Recorder(), middleware=[diary])
    await collect(session.send("go"))
    assert diary.told == [
        "start scripted/one",
        "before reply go",
        "before reasoning",
        "after reasoning",
        "before acting act",
        "after acting did a",
        "before observing",
        "after observing did a",
        "before reasoning",
        "after reasoning",
        "after reply done",
    ]


async def test_every_event_is_told_before_and_after_it_is_shown(store: Store) -> None:
    printing = Printing()
    session = await open_session(store, ScriptedModel("hi"), middleware=[printing])
    shown: list[Event] = []
    async for event in session.send("go"):
        assert printing.events[-1] == ("before", event)
        shown.append(event)
    assert [event for when, event in printing.events if when == "after"] == shown


@pytest.mark.parametrize(
    "moment",
    ["before_reply", "after_reply", "before_reasoning", "after_reasoning", "before_acting", "after_acting",
     "before_observing", "after_observing", "before_printing"],
)  # fmt: skip
async def test_a_watcher_that_fails_is_told_and_the_run_goes_on(store: Store, moment: str) -> None:
    def fail(*said: Any) -> None:
        raise LookupError("lost")

    fail.__name__ = moment
    broken = Middleware()
    setattr(broken, moment, fail)
    tool = Recorder()
    session = await open_session(store, ScriptedModel(act("a"), "done"), tool, middleware=[broken])
    events, end = await collect(session.send("go"))
    assert (end.status, end.result, tool.done) == ("done", "done", ["a"])
    told = [event.message for event in events if isinstance(event, Notice)]
    assert f"The middleware Middleware failed in {moment}: LookupError: lost." in told


class Opening(Middleware):
    def __init__(self, name: str, told: list[str], fails: bool = False) -> None:
        self.name, self._told, self._fails = name, told, fails

    async def on_start(self, session: MiddlewareSession) -> None:
        if self._fails:
            raise OSError("no door")
        self._told.append(f"{self.name} starts")

    def on_stop(self, session: MiddlewareSession) -> None:
        self._told.append(f"{self.name} stops")


async def test_a_session_whose_middleware_cannot_start_does_not_open_and_the_others_are_stopped(
    store: Store,
) -> None:
    told: list[str] = []
    layers = [Opening("a", told), Opening("b", told), Opening("c", told, fails=True), Opening("d", told)]
    with pytest.raises(MiddlewareError, match="The middleware c failed in on_start: OSError: no door"):
        await open_session(store, ScriptedModel(), middleware=layers)
    assert told == ["a starts", "b starts", "b stops", "a stops"]


class TooFew(Middleware):
    async def wrap_model_call(self, request: Any) -> Any:  # pyright: ignore
        return request


class Odd(Middleware):
    priority: Any = "first"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Middleware, "The middleware Middleware is a class, not an object. Write Middleware()."),
        ("audit", "A str was given as middleware. Derive its class from sandbur.Middleware."),
        (Odd(), "The middleware Odd has the priority 'first'. It is a whole number from 0 on."),
        (
            TooFew(),
            "The method wrap_model_call of the middleware TooFew cannot be called with two arguments."
            " Declare it as: async def wrap_model_call(self, request, next)",
        ),
    ],
)
def test_what_is_no_middleware_is_refused_at_the_start(given: Any, said: str) -> None:
    with pytest.raises(MiddlewareError) as refused:
        in_order([given])
    assert str(refused.value) == said


async def test_a_middleware_that_wraps_nothing_costs_nothing(store: Store) -> None:
    from sandbur.agent.extensions.middleware.middleware_stack import MiddlewareStack

    model = ScriptedModel()
    stack = MiddlewareStack([Middleware()], MiddlewareSession("s1", model.name, Path.cwd()))
    assert stack.around_model(model) is model
    assert stack.around_tools() is None


class Clock(Middleware):
    """Brings a tool along, and notes when its sessions open and close."""

    def __init__(self, told: list[str]) -> None:
        self._told = told
        self.tools = (Recorder("tell_time", "read"),)

    def on_start(self, session: MiddlewareSession) -> None:
        self._told.append(f"start {session.id}")
        session.notify("the clock ticks")

    async def on_stop(self, session: MiddlewareSession) -> None:
        self._told.append(f"stop {session.id}")


async def test_an_agent_takes_middleware_with_its_tools(tmp_path: Path) -> None:
    told: list[str] = []
    model = ScriptedModel([("tell_time", {"text": "now"})], "noon")
    agent = Agent(
        model, store=f"sqlite:///{tmp_path}/s.db", cwd=tmp_path, middleware=[Clock(told)],
        allow=["tell_time"], env={"HOME": str(tmp_path)},
    )  # fmt: skip
    async with agent.session("a") as session:
        events = [event async for event in session.stream("when?")]
        assert told == ["start a"]
    assert told == ["start a", "stop a"]
    assert "the clock ticks" in [event.message for event in events if isinstance(event, Notice)]
    assert getattr(events[-1], "result", "") == "noon"


def test_an_agent_with_what_is_no_middleware_says_so_at_once(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"a list of objects of sandbur\.Middleware, and not the class Middleware"
    ):
        Agent(ScriptedModel("x"), cwd=tmp_path, middleware=[Middleware], env={"HOME": str(tmp_path)})  # pyright: ignore
