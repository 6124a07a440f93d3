"""The requests that a past session sent to its model, built again from its records, with its decisions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, ConfigDict

from .....actions.ports import FinishReason, ModelEvent, ModelRequest, Reply, Tool
from .....actions.workspace.paths import format_count
from .....state.conversation.messages import Message, parse_json_or_text
from .....state.errors import SandburError
from .....state.lazy_dataclass import dataclass
from .....state.store.store import Store
from .....state.trace import ModelCalled
from ....config.load import load_settings
from ....history.replay.replay_steps import Moment, read_recording
from ....history.replay.walk import Live, Today, Walk
from ....runtime.agent_definition import Definition
from ....runtime.runtime import Runtime
from ..suites.recorded import shorten_id

_LAST_CHARS = 200


class DecisionCall(BaseModel):
    """A tool call that a model asks for."""

    model_config = ConfigDict(frozen=True)

    tool: str
    arguments: Any
    """The arguments as a JSON value; a text if they are not JSON."""

    @property
    def text(self) -> str:
        return f"{self.tool} {json.dumps(self.arguments, sort_keys=True, ensure_ascii=False)}"


class ModelDecision(BaseModel):
    """What a model answered to one request."""

    model_config = ConfigDict(frozen=True)

    text: str
    calls: tuple[DecisionCall, ...] = ()
    sandbur_version: str = ""
    """The version of Sandbur that asked for it; empty in records of versions without this field."""

    @classmethod
    def of(cls, message: Message) -> ModelDecision:
        """Return the decision in a reply."""
        calls = (
            DecisionCall(tool=use.tool, arguments=parse_json_or_text(use.arguments))
            for use in message.tool_uses
        )
        return cls(text=message.text, calls=tuple(calls))

    @property
    def summary(self) -> str:
        """The calls, or else the text, in one line."""
        summary = "; ".join(call.text for call in self.calls) or " ".join(self.text.split())
        return summary if len(summary) <= _LAST_CHARS else f"{summary[:_LAST_CHARS]}…"


class Agreement(NamedTuple):
    """How two decisions about one request agree."""

    is_same: bool
    """Whether the same tools are called with the same arguments, or both answer without a call."""
    metrics: Mapping[str, float]


def compare_decisions(recorded: ModelDecision, other: ModelDecision) -> Agreement:
    """Compare two decisions. The order of calls does not matter, nor do the words of answers."""
    tools = sorted(call.tool for call in recorded.calls) == sorted(call.tool for call in other.calls)
    mine, theirs = (sorted(call.text for call in one.calls) for one in (recorded, other))
    metrics = {"same_tools": float(tools)}
    if recorded.calls:
        metrics["same_arguments"] = (Counter(mine) & Counter(theirs)).total() / len(mine)
    elif not other.calls:
        metrics["same_text"] = float(recorded.text.split() == other.text.split())
    return Agreement(mine == theirs, metrics)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request of a past session, and what its model decided."""

    session_id: str
    seq: int
    """The step of the session."""
    request: ModelRequest
    decision: ModelDecision
    digest: str
    """The digest of the system prompt and the tools in the request."""


class _Collector:
    """A model that keeps the request of a step, and repeats the recorded reply."""

    name = "evaluation/recorded"
    context_window = 1_000_000

    def __init__(self) -> None:
        self.request: ModelRequest | None = None
        self.reply: Message | None = None
        self.called: ModelCalled | None = None

    def enter(self, moment: Moment) -> None:
        self.request, self.called = None, moment.called
        self.reply = None if moment.called is None else moment.called.reply or moment.reply

    async def aclose(self) -> None:
        """Do nothing: the object holds no resource."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.request = request
        if self.reply is not None and self.called is not None:
            yield Reply(self.reply, cast("FinishReason", self.called.finish or "stop"), self.called.usage)


async def collect_requests(
    store: Store, session_id: str, env: Mapping[str, str], agent: Definition | None
) -> tuple[list[RecordedRequest], list[str]]:
    """Return the requests of a session with a recorded reply, and notices. Nothing is run or asked.

    `agent` has the tools of the session; None: that of the session if it can be loaded.
    """
    recording = await store.database.offload(lambda: read_recording(store, session_id))
    collector = _Collector()
    walk = Walk(recording, Today(own=dict(await _find_tools(store, session_id, env, agent))), Live(collector))
    found: list[RecordedRequest] = []
    lost, changed, lacking = 0, 0, 0
    for moment in recording.moments():
        if moment.called is None or moment.reply is None:
            continue
        collector.enter(moment)
        if moment.began is not None and moment.began.conditions is not None:
            await _try_step(walk, moment)
        if collector.request is None or collector.reply is None or walk.asked is None:
            lost += 1
        elif not walk.knows_all_tools:
            lacking += 1
        else:
            changed += walk.asked.fixed_sha256 != moment.called.request.fixed_sha256
            decision, digest = ModelDecision.of(collector.reply), walk.asked.fixed_sha256
            found.append(RecordedRequest(session_id, moment.seq, collector.request, decision, digest))
    name = f"Session {shorten_id(session_id)}"
    notices = (
        (lost, "cannot be built again from the records"),
        (lacking, "left out, because tools of the agent are not here"),
        (changed, "sent with other tools or another prompt than recorded, as this version has them"),
    )
    return found, [f"{name}: {format_count(count, 'request')} {why}." for count, why in notices if count]


async def _try_step(walk: Walk, moment: Moment) -> None:
    """Run a step as far as its request. What follows the reply may differ today, and does not matter."""
    try:
        await walk.step(moment)
    except SandburError:
        return


async def _find_tools(
    store: Store, session_id: str, env: Mapping[str, str], agent: Definition | None
) -> Mapping[str, Tool]:
    """Return the tools that a resume of the session would have; empty if it cannot be opened here."""
    stored = store.index.settings(session_id)
    overrides = {"cwd": Path(stored.cwd)} if agent is None else agent.overrides
    try:
        settings = load_settings(overrides, env, of_project=agent is None)
        runtime = Runtime({}, settings, store, env, None, agent, agent is not None)
        try:
            session = await runtime.resume(session_id, needs_model=False)
            await runtime.let_go(session)
        finally:
            await runtime.aclose(closes_store=False)
            store.forget(session_id)
    except SandburError:
        return {}
    return {name: tool for name, tool in session.ports.toolbox.items() if name in stored.own_tools}
