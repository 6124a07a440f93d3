"""The code of a workflow in the place of a model: it reads the history, and replies with the next calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ....actions.ports import ModelEvent, ModelRequest, Reply
from ....actions.ports.events import TextDelta
from ....state.application import Usage
from ....state.conversation.messages import Message, ToolUse, assistant_message
from ....state.errors import WorkflowFailed
from ....state.session import WORKFLOW_MODELS
from .branch_tool import NAME
from .logic import WorkflowAnswer, WorkflowLogic, hand_on
from .turn import BranchArguments, find_turn

_WINDOW = 1 << 40
"""A history that holds the position of a workflow is never compressed."""


class WorkflowModel:
    """Implements `actions.ports.Model`. It costs nothing, and the same history has always the same reply."""

    def __init__(self, logic: WorkflowLogic, writes_json: bool) -> None:
        """`writes_json`: whether the answer is JSON, even if it is a text."""
        self.name = f"{WORKFLOW_MODELS}{logic.kind}"
        self.context_window = _WINDOW
        self._logic = logic
        self._writes_json = writes_json

    async def aclose(self) -> None:
        """Do nothing: the object holds no resource."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose == "summary":
            raise WorkflowFailed("The history of a workflow cannot be compressed: it is its position.")
        history = request.histories[0]
        turn = find_turn(history, self._logic.members)
        if turn is None:
            raise WorkflowFailed("The workflow has no message to begin with.", "Send one.")
        if turn.answer is not None:
            text = turn.answer
        else:
            self._logic.check_members(turn)
            step = await self._logic.advance(turn)
            if not isinstance(step, WorkflowAnswer):
                yield Reply(_make_calls(step, len(history)), "tool_calls", Usage())
                return
            text = self._write(step)
        yield TextDelta(text)
        yield Reply(assistant_message(text), "stop", Usage())

    def _write(self, answer: WorkflowAnswer) -> str:
        value = answer.value
        if not self._writes_json:
            return hand_on(value)
        return hand_on([value])[1:-1]


def _make_calls(calls: Sequence[BranchArguments], place: int) -> Message:
    """Return the message with these calls. Their ids follow from the place, so that a kill changes none."""
    uses = (
        ToolUse(
            call_id=f"branch_{place}_{number}",
            tool=NAME,
            arguments=one.model_dump_json(exclude_defaults=True),
        )
        for number, one in enumerate(calls)
    )
    return Message(role="assistant", origin="model", blocks=tuple(uses))
