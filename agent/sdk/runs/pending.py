"""Calls that wait for a decision, as programs see them, and the function that decides about them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ....actions.ports.events import Event, PendingDecision, RunFinished
from ....state.calls import CallDecision, PendingCall
from ....state.conversation.messages import parse_json_object
from ....state.errors import WrongType
from ...session.decisions import make_decision


@dataclass(frozen=True, slots=True)
class PendingToolCall:
    """A tool call that waits for a person or a program to decide."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    """The arguments by name, with masked secrets. A changed copy can be passed to `approve`."""
    kind: Literal["approval", "outcome_unknown"]
    """`approval`: the call waits for approval. `outcome_unknown`: it was running when its process died, and
    has to be settled."""
    reason: str
    """Why the call waits, as a sentence."""
    arguments_json: str
    """The arguments as the model wrote them."""

    @classmethod
    def of(cls, call: PendingDecision | PendingCall) -> PendingToolCall:
        arguments = parse_json_object(call.arguments) or {}
        return cls(call.call_id, call.tool, arguments, call.kind, call.reason, call.arguments)


ApprovalVerdict = bool | str | None
OnApproval = Callable[[PendingToolCall], Awaitable[ApprovalVerdict] | ApprovalVerdict]
"""Returns True to approve a call, False or a reason to deny it, None to let it wait."""


class ApprovalHandler:
    """Asks the program's function about the waiting calls of one run, once per call."""

    def __init__(self, decide: OnApproval | None) -> None:
        self._decide = decide
        self._asked: set[str] = set()
        self._task: asyncio.Future[list[CallDecision]] | None = None
        self._is_stopped = False

    async def decisions_after(self, event: Event) -> list[CallDecision]:
        """Return the decisions after the end of a run; an empty list if no call waits, or calls shall go on
        waiting."""
        if self._decide is None or self._is_stopped or not isinstance(event, RunFinished):
            return []
        calls = [
            call for call in event.pending if call.kind == "approval" and call.call_id not in self._asked
        ]
        if event.status != "needs_approval" or not calls:
            return []
        self._task = asyncio.ensure_future(self._ask([PendingToolCall.of(call) for call in calls]))
        await asyncio.wait([self._task])
        return [] if self._task.cancelled() else self._task.result()

    async def _ask(self, calls: list[PendingToolCall]) -> list[CallDecision]:
        decisions: list[CallDecision] = []
        for call in calls:
            self._asked.add(call.call_id)
            assert self._decide is not None, "only a handler with a function asks"
            answer = self._decide(call)
            verdict = await answer if inspect.isawaitable(answer) else answer
            if verdict is not None:
                decisions.append(_make_decision(call, verdict))
        return decisions

    def stop(self) -> None:
        """Ask no further questions. A function that is still deciding is cancelled, and its calls go on
        waiting."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()


def _make_decision(call: PendingToolCall, verdict: bool | str) -> CallDecision:
    if isinstance(verdict, bool):
        return make_decision(call.call_id, "approve" if verdict else "deny")
    if isinstance(verdict, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return make_decision(call.call_id, "deny", verdict)
    raise WrongType(
        f"on_approval returned {verdict!r} for {call.tool}.",
        "It returns True to approve, False or a reason to deny, None to leave the call waiting.",
    )
