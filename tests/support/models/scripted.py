"""A model that answers from a list, and the parts to run it on the real graph and store."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandbur.actions.masking.masker import TextMasker
from sandbur.actions.masking.span import SecretSpan
from sandbur.actions.ports import (
    BadArguments,
    CallPlaces,
    CallSettings,
    EventPort,
    ModelEvent,
    ModelRequest,
    Ports,
    Reply,
    RequestSettings,
    ToolContext,
    ToolListing,
    ToolOutcome,
    ToolSpec,
    ToolTraits,
    Verdict,
)
from sandbur.actions.ports.events import Event, RunFinished, TextDelta
from sandbur.actions.turn.plan.decision_tools import DECISION_TOOLS
from sandbur.agent.extensions.middleware.middleware import Middleware, MiddlewareSession
from sandbur.agent.extensions.middleware.middleware_stack import MiddlewareStack
from sandbur.agent.graph import CALLS_START_NEXT, build_application, build_graph
from sandbur.agent.history.telemetry.telemetry import Telemetry
from sandbur.agent.runtime.wiring import DiskWitness
from sandbur.agent.session.inbox import SessionInbox
from sandbur.agent.session.observers import Observer, Observers
from sandbur.agent.session.position import Position
from sandbur.agent.session.run_limits import Limits
from sandbur.agent.session.session import Session
from sandbur.agent.session.waiting_calls import SessionRules
from sandbur.state.application import ApplicationState, ExecutionMode, Usage
from sandbur.state.calls import Effect
from sandbur.state.conversation.messages import Message, Text, ToolUse
from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store

Call = tuple[str, dict[str, Any]]
Turn = str | Sequence[Call] | Exception | Callable[[], Any]


def act(*texts: str) -> list[tuple[str, dict[str, str]]]:
    return [("act", {"text": text}) for text in texts]


class ScriptedModel:
    """Answers each request with the next turn: text, a list of (tool, arguments), or an error to raise."""

    name = "scripted/one"

    def __init__(
        self,
        *turns: Turn,
        context_window: int = 100_000,
        finish: str | None = None,
        cost_usd: float | None = 0.0,
    ) -> None:
        self.cost_usd = cost_usd
        self.turns = list(turns)
        self.requests: list[ModelRequest] = []
        self.context_window = context_window
        self.finish = finish

    async def aclose(self) -> None:
        pass

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        turn = self.turns.pop(0)
        if callable(turn):
            turn = await turn()
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, str):
            yield TextDelta(turn)
            blocks: tuple[Any, ...] = (Text(text=turn),)
        else:
            number = len(self.requests)
            blocks = tuple(
                ToolUse(call_id=f"c{number}_{n}", tool=tool, arguments=_text(arguments))
                for n, (tool, arguments) in enumerate(turn)
            )
        message = Message(role="assistant", origin="model", blocks=blocks)
        finish: Any = self.finish or ("tool_calls" if message.tool_uses else "stop")
        tokens = self._tokens(request)
        usage = Usage(llm_calls=1, input_tokens=tokens, output_tokens=5, cost_usd=self.cost_usd)
        yield Reply(message, finish, usage)

    def _tokens(self, request: ModelRequest) -> int:
        return (100 + request.size_bytes) // 4


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


class Recorder:
    """A tool that records its calls; `work` is called for each of them."""

    def __init__(
        self, name: str = "act", effect: Effect = "effect", work: Callable[[str], Any] | None = None
    ) -> None:
        self.spec = ToolSpec(name, f"{name} something", {"type": "object", "properties": {}})
        self.traits = ToolTraits()
        self.effect: Effect = effect
        self.done: list[str] = []
        self._work = work

    def parse(self, arguments: str) -> str:
        try:
            return str(json.loads(arguments)["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadArguments(f"{self.spec.name}: text is missing or the JSON is broken") from error

    def effect_of(self, arguments: str) -> Effect:
        return self.effect

    def subject(self, arguments: str) -> str:
        return arguments

    def paths(self, arguments: str) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: str, context: ToolContext) -> ToolOutcome:
        self.done.append(arguments)
        if self._work is not None:
            await self._work(arguments)
        return ToolOutcome("ok", f"did {arguments}")


class AskUnlessYolo:
    def judge(
        self, tool: Any, arguments: Any, mode: ExecutionMode, paths: Any = None, plan: Any = None
    ) -> Verdict:
        if arguments == "forbidden":
            return Verdict("deny", "denied by rule act(forbidden)", "act(forbidden)")
        return Verdict("allow" if mode == "yolo" else "ask", f"{tool.spec.name} is not read-only")


class MasksNothing(TextMasker):
    def find_spans(self, data: bytes) -> list[SecretSpan]:
        return []

    def stream(self) -> Any:
        return _PassesOn()


class _PassesOn:
    def feed(self, piece: str) -> str:
        return piece

    def end(self) -> str:
        return ""


class DenyAll:
    def judge(
        self, tool: Any, arguments: Any, mode: ExecutionMode, paths: Any = None, plan: Any = None
    ) -> Verdict:
        return Verdict("deny", "denied by rule *", "*")


async def open_session(
    store: Store,
    model: Any,
    *tools: Recorder,
    session_id: str = "s1",
    mode: ExecutionMode = "yolo",
    limits: Limits | None = None,
    gate: Any = None,
    telemetry: Telemetry | None = None,
    middleware: Sequence[Middleware] = (),
    observers: Sequence[Observer] = (),
) -> Session:
    events = EventPort()
    watching = Observers(events.notify)
    watching.add(*observers)
    if telemetry is not None:
        observer = telemetry.session(session_id, MasksNothing())
        watching.add(observer)
        middleware = (*middleware, *observer.middleware)
    stack = MiddlewareStack(middleware, MiddlewareSession(session_id, model.name, Path.cwd()))
    if middleware:
        watching.add(stack)
    trace = watching.around_trace(await store.open_trace(session_id))
    around = stack.around_model(model)
    ports = scripted_ports(store, around, *tools, session_id=session_id, trace=trace, gate=gate)
    ports = replace(ports, calls=CallSettings(wrap=stack.around_tools()), events=events)
    await stack.start()
    application = await build_application(
        build_graph(), session_id, store.persister(CALLS_START_NEXT), ApplicationState(execution_mode=mode)
    )
    position = Position(session_id, application, store)
    inbox = SessionInbox(store.inbox(session_id), position, ports.masker, None, events.notify)
    ports = replace(ports, inbox=inbox)
    settings = SessionSettings(model=model.name, cwd=str(Path.cwd()))
    return Session(
        position,
        ports,
        inbox,
        SessionRules(settings, lambda _: ports.gate, lambda _: None),
        limits or Limits(),
        watching,
    )


def scripted_ports(
    store: Store, model: Any, *tools: Recorder, session_id: str = "s1", trace: Any, gate: Any = None
) -> Ports:
    offer = ToolListing((*(tool.spec for tool in tools), *DECISION_TOOLS), 100, "")
    return Ports(
        session_id="",
        model=model,
        requests=RequestSettings("You are a test.", offer, compress_at=0.8),
        toolbox={tool.spec.name: tool for tool in tools},
        gate=gate or AskUnlessYolo(),
        fingerprinter=DiskWitness(),
        journal=store.journal(session_id),
        trace=trace,
        masker=MasksNothing(),
        places=CallPlaces(Path.cwd()),
    )


async def collect(events: AsyncIterator[Event]) -> tuple[list[Event], RunFinished]:
    seen = [event async for event in events]
    last = seen[-1]
    assert isinstance(last, RunFinished)
    return seen, last


def plan(*descriptions: str) -> list[Call]:
    return [("submit_plan", {"steps": [{"description": text} for text in descriptions]})]


def finish(summary: str, status: str = "completed") -> list[Call]:
    return [("finish_step", {"status": status, "summary": summary})]


START = [("start_plan", {"goal": "the goal"})]
