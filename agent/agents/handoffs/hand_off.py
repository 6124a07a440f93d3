"""Hands a conversation over: an agent answers in the session that another agent began.

Only that first session knows who has the conversation. An agent that got it from there ends its run when it
hands the conversation on, and the call of the first session goes on with the next agent. So a chain of
hand-offs is as deep as one, and one place limits it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Literal

from ....actions.ports import CallSuspended, ToolContext, ToolOutcome
from ....actions.ports.events import Notice, RunFinished
from ....actions.turn.output.answer_check import find_run_output
from ....actions.turn.output.format import describe_format
from ....state.application import RunOptions, Usage
from ....state.conversation.messages import HandOff, UserContent
from ....state.errors import SandburError, UsageError
from ....state.lazy_dataclass import dataclass
from ...runtime.agent_definition import NAMELESS_FIRST, Definition, HandoffDefinition, SubAgentDefinition
from ...session.session import Session
from ..children import Children
from ..task import ChildTask, Seat, count_usage
from .history import select_history

NAME = "hand_off"
MOST_HAND_OFFS = 10
"""In one run."""
_NOTE = "[{speaker} hands the conversation to you: answer the user.{note}]"
_TOO_MANY = (
    f"The conversation was handed over {MOST_HAND_OFFS} times in this run, which is the most."
    " Answer the user yourself, and do not call hand_off again in this run."
)


@dataclass(frozen=True, slots=True)
class HandOffOrder:
    """The arguments of one call of the tool `hand_off`."""

    agent: str
    message: str
    """The message for the agent; empty in a call that passes on the user's own message."""


async def hand_off(
    children: Children, parent: Session, definition: Definition, order: HandOffOrder, context: ToolContext
) -> ToolOutcome:
    """Let other agents answer until one does, hands the conversation back, or has to wait for a person.

    Raises `CallSuspended` if that needs another run.
    """
    by = parent.settings.spawned_by
    if by is not None and by.has_conversation:
        text = f"The conversation goes to {order.agent}."
        goes = HandOff(agent=order.agent, note=order.message)
        return ToolOutcome("ok", text, ends_run=text, hand_off=goes)
    return await _Conversation(children, parent, definition, context).run(order)


class _Conversation:
    """One call of the first session."""

    def __init__(
        self, children: Children, parent: Session, definition: Definition, context: ToolContext
    ) -> None:
        self._children = children
        self._parent = parent
        self._definition = definition
        self._context = context
        self._name = definition.name or NAMELESS_FIRST
        self._count = 0
        """The hand-offs of this call so far."""
        self._usage = Usage()

    async def run(self, order: HandOffOrder) -> ToolOutcome:
        try:
            return await self._run(order)
        except UsageError as error:
            return self._return_to_first(f"{error.message} {error.hint}", "error")

    async def _run(self, order: HandOffOrder) -> ToolOutcome:
        before, given_by = _count_hand_offs(self._parent), self._name
        goes, seat = HandOff(agent=order.agent, note=order.message), self._find_seat(order)
        if seat is None and before >= MOST_HAND_OFFS:
            return ToolOutcome("error", _TOO_MANY)
        while True:
            if seat is None:
                if goes.agent == self._name:
                    return self._return_to_first(
                        f"{given_by} hands the conversation back to you. {goes.note}"
                    )
                if before + self._count == MOST_HAND_OFFS:
                    return self._return_to_first(_TOO_MANY, "error")
                self._count += 1
                seat = await self._make_seat(goes, given_by)
            outcome = await self._ask(goes.agent, seat)
            if outcome.waits_for:
                return outcome
            if outcome.hand_off is None:
                return self._return_to_first(outcome.content, "error")
            if outcome.ends_run is not None:
                if self._count:
                    self._parent.ports.emit(Notice(f"{goes.agent} has the conversation now."))
                return replace(outcome, usage=self._usage)
            given_by, goes, seat = goes.agent, outcome.hand_off, None

    def _find_seat(self, order: HandOffOrder) -> Seat | None:
        """Return the place of the agent that has the conversation, if the call passes a message on to it."""
        speaker = self._parent.state.hand_off
        if speaker is None or speaker.agent != order.agent or order.message:
            return None
        message = _find_new_messages(self._parent)
        return Seat(
            key=speaker.key, message=message, step=speaker.step, options=self._make_options(order.agent)
        )

    async def _make_seat(self, goes: HandOff, given_by: str) -> Seat:
        """Return the place of an agent that gets the conversation now."""
        call_id, number = self._context.call_id, self._count
        messages = tuple(self._parent.state.chat_history)
        wanted = self._find_target(goes.agent).history
        note = f" {given_by} says:\n{goes.note}" if goes.note else ""
        return Seat(
            key=call_id if number == 1 else f"{call_id}/{number}",
            message=_NOTE.format(speaker=given_by, note=note),
            number=number,
            history=await select_history(messages, wanted, self._name, goes.agent),
            options=self._make_options(goes.agent),
        )

    def _make_options(self, name: str) -> RunOptions:
        """Return the options of a target's run: its answer has the form that the run of the parent needs."""
        form = find_run_output(self._parent.state, self._parent.ports)
        own = self._find_target(name).agent.definition.output
        if form is None or (own is not None and own.output_schema == form.output_schema):
            return RunOptions()
        return RunOptions(output=form.output_schema, instructions=describe_format(form))

    async def _ask(self, name: str, seat: Seat) -> ToolOutcome:
        """Run an agent until it has answered, hands the conversation on, or waits for a person."""
        target = self._find_target(name)
        agent = replace(target.agent, definition=self._let_hand_on(target.agent.definition, name))
        task = ChildTask(
            prompt="", description="the conversation", agent=name, agents={name: agent}, seat=seat
        )

        def conclude(parent: Session, child: Session, end: RunFinished, call_id: str) -> ToolOutcome:
            if end.result is None:
                raise CallSuspended(child.error or SandburError(f"{name} ended as {end.status}."))
            self._usage += count_usage(child, call_id)
            if (goes := child.state.hand_off) is not None:
                return ToolOutcome("ok", "", hand_off=goes)
            sits = HandOff(agent=name, tool=NAME, key=seat.key, step=child.last_sequence, count=self._count)
            return ToolOutcome("ok", f"{name} answered.", ends_run=end.result, hand_off=sits)

        return await self._children.run(self._parent, self._definition, task, self._context, conclude)

    def _find_target(self, name: str) -> HandoffDefinition:
        """Return an agent that this one names, also through several hand-offs. Raises `UsageError`."""
        found = next((one for one in walk_handoffs(self._definition) if one.agent.name == name), None)
        if found is None:
            raise UsageError(f"The agent {name} is not here any more.", "Answer the user yourself.")
        return found

    def _let_hand_on(self, target: Definition, name: str) -> Definition:
        """Return the definition of a target with the agents that it may give the conversation to.

        They are those that it names, or else the others of the first agent; and always the first agent.
        """
        of_first = tuple(one for one in self._definition.handoffs if one.agent.name != name)
        back = SubAgentDefinition(
            name=self._name, description="had the conversation first", definition=self._definition
        )
        return replace(target, handoffs=(HandoffDefinition(agent=back), *(target.handoffs or of_first)))

    def _return_to_first(self, text: str, outcome: Literal["ok", "error"] = "ok") -> ToolOutcome:
        """Return the outcome of a call after which the first agent continues the conversation."""
        self._parent.ports.emit(Notice(f"{self._name} has the conversation."))
        back = HandOff(agent="", count=self._count)
        return ToolOutcome(outcome, text.strip(), hand_off=back, usage=self._usage)


def walk_handoffs(definition: Definition) -> Iterator[HandoffDefinition]:
    """Yield the agents that a definition names, and those that these name."""
    for one in definition.handoffs:
        yield one
        yield from walk_handoffs(one.agent.definition)


def _count_hand_offs(session: Session) -> int:
    """Return how many hand-offs there were since the newest message of the user."""
    turn = takewhile(lambda one: one.origin != "person", reversed(session.state.chat_history))
    results = (result for message in turn for result in message.tool_results)
    return sum(result.hand_off.count for result in results if result.hand_off is not None)


def _find_new_messages(session: Session) -> UserContent:
    """Return what the user wrote since the last answer, also what the session only observed."""
    history = reversed(session.state.chat_history)
    newest = takewhile(lambda one: one.role == "user" and not one.tool_uses, history)
    contents = [one.user_content for one in newest if one.origin == "person"][::-1]
    if all(isinstance(one, str) for one in contents):
        return "\n\n".join(map(str, contents))
    return [part for one in contents for part in ((one,) if isinstance(one, str) else one)]
