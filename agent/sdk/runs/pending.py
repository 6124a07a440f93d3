"""Calls that wait for a decision, as programs see them, and the function that decides about them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from ....actions.ports.events import Event, PendingDecision, RunFinished
from ....actions.tools.functions.callee import name_of
from ....actions.turn.user_code import UserCode
from ....state.calls import CallDecision, PendingCall
from ....state.conversation.messages import parse_json_object
from ....state.errors import WrongType
from ....state.lazy_dataclass import dataclass
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
    plan_changes: str = ""
    """How a proposed plan, the argument `plan`, differs from the one that was approved before: one change a
    line. Empty for other calls."""
    changes: str = ""
    """The difference of files that the call would write, if its arguments do not show it. A long one is
    shortened."""

    @classmethod
    def of(cls, call: PendingDecision | PendingCall) -> PendingToolCall:
        arguments = parse_json_object(call.arguments) or {}
        return cls(
            call.call_id, call.tool, arguments, call.kind, call.reason, call.arguments, call.plan_changes,
            call.changes,
        )  # fmt: skip


ApprovalVerdict = bool | str | None
OnApproval = Callable[[PendingToolCall], Awaitable[ApprovalVerdict] | ApprovalVerdict]
"""Returns True to approve a call, False or a reason to deny it, None to let it wait."""


class ApprovalHandler:
    """Asks the program's function about the waiting calls of one run, once per call, one call at a time."""

    def __init__(self, decide: OnApproval | None) -> None:
        self._decide = decide
        self._turn = asyncio.Lock()
        self._answers: dict[str, asyncio.Task[CallDecision | None]] = {}
        """Call id -> the answer of the function, or the function that still decides."""
        self._used: set[str] = set()
        """The calls whose answer a run has got."""
        self._is_stopped = False

    async def decide(self, calls: Sequence[PendingCall]) -> list[CallDecision]:
        """Return the decisions about calls of a sub-agent; others beside it run on.

        `decisions_after` returns what the function decides, or raises its error, if this is cancelled or the
        function fails.
        """
        tasks = await self._ask([PendingToolCall.of(call) for call in calls])
        has_failed = any(task.exception() for task in tasks.values() if not task.cancelled())
        return [] if has_failed else self._use(tasks)

    async def decisions_after(self, event: Event) -> list[CallDecision]:
        """Return the decisions after the end of a run; an empty list if no call waits, or calls shall go on
        waiting."""
        if not isinstance(event, RunFinished) or event.status != "needs_approval":
            return []
        calls = [PendingToolCall.of(one) for one in event.pending if one.kind == "approval"]
        return self._use(await self._ask(calls))

    async def _ask(self, calls: Sequence[PendingToolCall]) -> dict[str, asyncio.Task[CallDecision | None]]:
        """Return the ended answers about calls whose answer no run has got."""
        new = [call for call in calls if call.call_id not in self._used]
        if self._decide is None or self._is_stopped or not new:
            return {}
        for call in new:
            if call.call_id not in self._answers:
                self._answers[call.call_id] = asyncio.ensure_future(self._ask_one(call, self._decide))
        tasks = {call.call_id: self._answers[call.call_id] for call in new}
        await asyncio.wait(tasks.values())
        return tasks

    def _use(self, tasks: Mapping[str, asyncio.Task[CallDecision | None]]) -> list[CallDecision]:
        """Return the decisions; raises the error of the function."""
        found = [one for task in tasks.values() if not task.cancelled() and (one := task.result())]
        self._used.update(tasks)
        return found

    async def _ask_one(self, call: PendingToolCall, decide: OnApproval) -> CallDecision | None:
        async with self._turn:
            with UserCode(f"The function {name_of(decide)} (on_approval)"):
                answer = decide(call)
                verdict = await answer if inspect.isawaitable(answer) else answer
        return None if verdict is None else _make_decision(call, verdict)

    def stop(self) -> None:
        """Ask no further questions. A function that is still deciding is cancelled, and its calls go on
        waiting."""
        self._is_stopped = True
        for task in self._answers.values():
            task.cancel()


def _make_decision(call: PendingToolCall, verdict: bool | str) -> CallDecision:
    if isinstance(verdict, bool):
        return make_decision(call.call_id, "approve" if verdict else "deny")
    if isinstance(verdict, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return make_decision(call.call_id, "deny", verdict)
    raise WrongType(
        f"on_approval returned {verdict!r} for {call.tool}.",
        "It returns True to approve, False or a reason to deny, None to leave the call waiting.",
    )
