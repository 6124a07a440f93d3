"""From one graph step to what a person calls an event: said, called, decided, planned, compressed."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from agent.report.account import (
    Compressed,
    Decided,
    Happened,
    Lost,
    PlanMade,
    PlanStep,
    PlanStepBegan,
    PlanStepEnded,
    Said,
    Standing,
    What,
)
from agent.report.calls import CallBook
from agent.report.cutting import Room, cut
from state.messages import Message, Text, Thinking, ToolResult, ToolUse
from state.store.message_pages import MessagePages
from state.store.step_drafts import StepDraft
from state.usage import Usage

_DECISIONS = frozenset({"start_plan", "submit_plan", "finish_step"})
"""Calls that move the graph; what they lead to is told instead."""

PlanSteps = dict[str, dict[str, Any]]


class Teller:
    def __init__(self, pages: MessagePages, book: CallBook, room: Room) -> None:
        self._pages = pages
        self._book = book
        self._room = room
        self._newest: Mapping[str, Any] = {}
        self._goal = ""
        self.tool_ms = 0
        """What the calls took whose results the step brought."""

    @property
    def standing(self) -> Standing:
        """Where the session stands behind the last step that was told."""
        newest = self._newest
        return Standing(
            mode=str(newest.get("execution_mode") or ""),
            goal=self._goal,
            plan=tuple(
                PlanStep(
                    step_id,
                    str(step.get("description", "")),
                    str(step.get("status", "")),
                    str(step.get("analysis", "")),
                )
                for step_id, step in _plan(newest).items()
            ),
            waiting=frozenset(
                str(call.get("call_id"))
                for call in _elements(newest, "pending_tool_calls")
                if call.get("decision") == "undecided"
            ),
            usage=Usage.model_validate(newest.get("usage") or {}),
        )

    def tell(self, draft: StepDraft) -> Iterator[Happened]:
        """Yield what a step did, in the order in which a person wants to read it."""
        self._newest = draft.after
        self._goal = str(draft.after.get("current_goal") or self._goal)
        self.tool_ms = 0
        owners = _log_owners(draft.after)
        moves = list(_plan_moves(draft))
        for step_id, what in moves:
            if not isinstance(what, PlanStepEnded):
                yield Happened(draft.seq, draft.at, step_id, what)
        for what in self._decisions(draft):
            yield Happened(draft.seq, draft.at, draft.after.get("active_step_id"), what)
        for reference in draft.added:
            message = self._pages.message(*reference)
            owner = owners.get(reference[:2])
            whats = [Lost("A message is damaged.")] if message is None else self._said(message, draft)
            for what in whats:
                yield Happened(draft.seq, draft.at, owner, what)
        if draft.action == "prompt" and not draft.added:
            said = Said("command", cut(str(draft.after.get("user_input") or ""), self._room.message_chars))
            yield Happened(draft.seq, draft.at, None, said)
        for step_id, what in moves:
            if isinstance(what, PlanStepEnded):
                yield Happened(draft.seq, draft.at, step_id, what)

    def _said(self, message: Message, draft: StepDraft) -> Iterator[What]:
        if draft.action == "context_compressor":
            yield Compressed(cut(message.text, self._room.message_chars))
            return
        if draft.action == "step_summarizer" and message.origin == "runtime":
            return
        for block in message.blocks:
            if isinstance(block, Text) and block.text.strip():
                by = cast(Any, message.origin if message.origin != "tool" else "runtime")
                yield Said(by, cut(block.text, self._room.message_chars))
            elif isinstance(block, Thinking) and block.text.strip():
                yield Said("thinking", cut(block.text, self._room.message_chars))
            elif isinstance(block, ToolUse) and block.tool not in _DECISIONS:
                yield self._book.asked(block)
            elif isinstance(block, ToolResult):
                self._answered(block)

    def _answered(self, result: ToolResult) -> None:
        call = self._book.answered(result)
        if call is not None:
            self.tool_ms += call.duration_ms or 0

    def _decisions(self, draft: StepDraft) -> Iterator[What]:
        """Yield what a person decided in this step, and note what they changed."""
        before = {call["call_id"]: call for call in _elements(draft.before, "pending_tool_calls")}
        decided: list[Any] = []
        for pending in _elements(draft.after, "pending_tool_calls"):
            call_id = str(pending["call_id"])
            if pending.get("edited"):
                self._book.edited(call_id, str(pending.get("arguments", "")))
            was = before.get(call_id, {})
            is_new = (was.get("decision"), was.get("settled_as")) != (
                pending.get("decision"),
                pending.get("settled_as"),
            )
            call = self._book.find(call_id)
            if draft.action == "human_confirm" and is_new and call is not None:
                signed = [verdict for verdict in call.verdicts if verdict.who and verdict.at <= draft.at]
                decided += [(call, signed[-1])] if signed else []
        if decided:
            yield Decided(tuple(decided))


def _plan_moves(draft: StepDraft) -> Iterator[tuple[str | None, What]]:
    """Yield what a step did to the plan; one that ends with its first answer also began then."""
    before, after = _plan(draft.before), _plan(draft.after)
    if draft.action == "vibe_planner" and list(before) != list(after):
        steps = tuple((step_id, str(step.get("description", ""))) for step_id, step in after.items())
        yield None, PlanMade(steps, is_revision=any(step_id in after for step_id in before))
    for step_id, step in after.items():
        was = before.get(step_id, {}).get("status", "pending")
        status = step.get("status")
        if was == "pending" and status != "pending":
            yield step_id, PlanStepBegan(step_id, str(step.get("description", "")))
        if status != was and status in ("completed", "failed"):
            yield step_id, PlanStepEnded(step_id, str(status), str(step.get("analysis", "")))


def _plan(fields: Mapping[str, Any]) -> PlanSteps:
    return {str(step["step_id"]): step for step in _elements(fields, "vibe_plan") if "step_id" in step}


def _log_owners(fields: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    """Return the plan step that each log of messages belongs to."""
    return {
        (span[0], span[1]): step_id
        for step_id, step in _plan(fields).items()
        for span in step.get("chat_history") or ()
    }


def _elements(fields: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the elements of a field; those that a damaged record leaves open are left out."""
    return [element for element in fields.get(name) or () if isinstance(element, dict)]
