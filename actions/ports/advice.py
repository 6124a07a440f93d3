"""What the actions ask of whoever has a say in a session beside the person and the gate: hooks."""

from dataclasses import dataclass
from typing import Protocol

from ...state.calls import HookVerdict, PendingCall
from ...state.conversation.messages import Message, ToolUse
from . import ToolOutcome


@dataclass(frozen=True, slots=True)
class PromptAdvice:
    refusal: str = ""
    """Why the message is not taken in; empty: it is."""
    context: str = ""
    """What the model is told beside it."""


@dataclass(frozen=True, slots=True)
class CallAdvice:
    verdict: HookVerdict | None = None
    arguments: str | None = None
    """The JSON text to run with in place of the model's."""


class Advice(Protocol):
    """Each is asked once, and what it says is recorded with the step; a replay takes it from there."""

    @property
    def stop_reason(self) -> str:
        """Why the run is to end after this step; empty: it goes on."""
        ...

    @property
    def comments_results(self) -> bool:
        """Whether it may take its time over what calls came to."""
        ...

    def judges(self, reply: Message) -> bool:
        """Tell whether it may take its time over a reply, before a step records that."""
        ...

    def give_up(self) -> None:
        """Wait for nobody any more: the run is to end, and its beginning with it."""
        ...

    async def on_prompt(self, text: str) -> PromptAdvice:
        """A person's message is about to be taken in."""
        ...

    async def before_call(self, use: ToolUse) -> CallAdvice:
        """The model wants a call that the gate has not judged yet."""
        ...

    async def on_question(self, call: PendingCall) -> HookVerdict | None:
        """The gate says that a person has to be asked about a call; None: so be it.

        Asked once more if the call asks again right before its start: then only a denial counts.
        """
        ...

    async def after_call(self, call: PendingCall, outcome: ToolOutcome, duration_ms: int) -> str:
        """A call has run, and is recorded; return what the model is told beside the outcome."""
        ...

    async def on_answer(self, text: str, is_second: bool) -> str:
        """The model has answered, and the turn would end; return why it is not to, or nothing.

        `is_second`: the turn goes on because of such a reason already, and ends now whatever is said.
        """
        ...

    async def before_compression(self) -> None: ...

    async def after_compression(self, summary: str) -> None: ...
