"""What the actions ask of hooks, which can influence a session besides the person and the gate."""

from dataclasses import dataclass
from typing import Protocol

from ...state.calls import HookVerdict, PendingCall
from ...state.conversation.messages import Message, ToolUse, UserContent
from . import ToolOutcome


@dataclass(frozen=True, slots=True)
class PromptAdvice:
    refusal: str = ""
    """Why the message is refused; empty: it is accepted."""
    context: str = ""
    """Context for the model, added to the message."""


@dataclass(frozen=True, slots=True)
class CallAdvice:
    verdict: HookVerdict | None = None
    arguments: str | None = None
    """The JSON text to run with in place of the model's."""


class Advice(Protocol):
    """Each method is called once and its answer is recorded with the step; a replay uses the record."""

    @property
    def stop_reason(self) -> str:
        """Why the run has to end after this step; empty: it continues."""
        ...

    @property
    def comments_results(self) -> bool:
        """Whether it may take time to comment on results."""
        ...

    def judges(self, reply: Message) -> bool:
        """Return whether it may take time to check a reply, before a step records that."""
        ...

    def give_up(self) -> None:
        """Stop waiting for hooks: the run is ending while it starts."""
        ...

    async def rewrite_message(self, message: UserContent) -> UserContent:
        """Return a person's message as it is to begin the run; called before anything of it is recorded."""
        ...

    async def rewrite_answer(self, text: str) -> str:
        """Return the text of an answer as it is to be recorded; called before its format is checked."""
        ...

    async def rewrite_observed(self, text: str) -> str:
        """Return a message that is only observed as it is to be stored."""
        ...

    async def after_observed(self, text: str) -> None:
        """Called once an observed message is stored, or was taken in from another process."""
        ...

    async def on_prompt(self, text: str) -> PromptAdvice:
        """Check a person's message before it is accepted."""
        ...

    async def before_call(self, use: ToolUse) -> CallAdvice:
        """The model wants a call that the gate has not judged yet."""
        ...

    async def on_question(self, call: PendingCall) -> HookVerdict | None:
        """Check a call for which the gate asks a person; None: the question stays.

        Called again if the call asks again right before its start: then only a denial counts.
        """
        ...

    async def after_call(self, call: PendingCall, outcome: ToolOutcome, duration_ms: int) -> str:
        """Called after a call has run and is recorded; return a comment for the model."""
        ...

    async def on_answer(self, text: str, is_second: bool) -> str:
        """Called when the model's answer would end the turn; return why it must not end, or nothing.

        `is_second`: the turn was continued for such a reason already, and ends now in any case.
        """
        ...

    async def before_compression(self) -> None: ...

    async def after_compression(self, summary: str) -> None: ...
