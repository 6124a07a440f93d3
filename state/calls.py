"""A tool call on its way from the model's wish to its result."""

from typing import Literal

from state.messages import ToolResult
from state.record import Record

Effect = Literal["read", "idempotent", "verifiable", "effect"]
"""What running a call twice would mean: nothing, nothing, checkable, unknown."""

Decision = Literal["undecided", "approved", "denied", "invalid"]


class PendingCall(Record):
    """One call of the active history's last message that has no result yet."""

    call_id: str
    tool: str
    arguments: str
    """The JSON text that runs: the model's, or the person's after an edit."""
    effect: Effect = "effect"
    decision: Decision = "undecided"
    """`invalid`: never runs; `reason` is the error the model gets."""
    reason: str = ""
    """Why it asks, was denied or is invalid."""
    decided_by: Literal["policy", "rule", "person", "runtime"] = "policy"
    edited: bool = False


Move = Literal["proposed", "started", "finished"]
"""What the journal records of a call, in this order."""


class JournaledCall(Record):
    """The last recorded move of a call."""

    call_id: str
    move: Move
    at: str
    """UTC, ISO 8601."""
    result: ToolResult | None = None
    """Set if `finished`."""


class CallDecision(Record):
    """What a person says about one pending call."""

    call_id: str
    approved: bool
    reason: str = ""
    arguments: str | None = None
    """New JSON arguments: the call runs with these instead."""
