"""Further calls that the tool of a running call makes."""

from typing import Protocol

from ...state.calls import PendingCall
from ...state.conversation.messages import ToolResult


class NestedCallWaits(Exception):
    """A nested call needs a person's decision. `call` is the undecided call."""

    def __init__(self, call: PendingCall) -> None:
        super().__init__(call.call_id)
        self.call = call


class NestedCallsDiffer(Exception):
    """A tool that ran again made other nested calls than before. The message tells the model the
    difference.
    """


class NestedCalls(Protocol):
    """Lets the tool of a running call make further calls, each with its own verdict and its own records.

    The tool runs from its beginning again after a crash, and after a decision about one of these calls. The
    nested calls of the new run are matched by their order with the recorded calls. If a call has a recorded
    result, this result is returned.
    """

    async def begin(self) -> None:
        """Go back to the first nested call, because the tool runs from its beginning."""
        ...

    async def request(self, tool: str, arguments: str) -> ToolResult:
        """Run a call with JSON arguments, or return its recorded result, masked and limited like every
        result.

        Raises `NestedCallWaits` if the call needs a decision: the tool must end with `ToolOutcome.waits_for`.
        Raises `NestedCallsDiffer` if the call differs from the recorded one: the tool must end with this
        error.
        """
        ...

    def finish(self) -> None:
        """Raise `NestedCallsDiffer` if the tool made fewer nested calls than before."""
        ...

    def describe(self) -> str:
        """Return the nested calls of this run in order, one per line with its outcome; empty if there are
        none.
        """
        ...
