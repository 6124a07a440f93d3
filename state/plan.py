"""The plan of a goal: steps that each keep a history of their own."""

from typing import Literal

from pydantic import Field

from state.messages import ToolResult, ToolUse
from state.record import Record
from state.transcript import Transcript

StepStatus = Literal["pending", "in_progress", "completed", "failed"]


class VibeStep(Record):
    step_id: str
    """"1", "2", ... in plan order; revised plans go on counting."""
    description: str
    status: StepStatus = "pending"
    chat_history: Transcript = Field(default_factory=Transcript)
    """The step's own history; after the step it only refers to the store."""
    analysis: str = ""
    """How the step ended, in the words of the model."""

    @property
    def tool_calls(self) -> list[ToolUse]:
        return [use for message in self.chat_history for use in message.tool_uses]

    @property
    def tool_results(self) -> list[ToolResult]:
        return [
            block
            for message in self.chat_history
            for block in message.blocks
            if isinstance(block, ToolResult)
        ]
