"""The port for hooks: the questions that actions ask hooks, and the answers of hooks."""

from typing import Protocol

from ...state.calls import HookVerdict, PendingCall
from ...state.conversation.messages import Message, ToolUse, UserContent
from ...state.lazy_dataclass import dataclass
from . import ToolOutcome


@dataclass(frozen=True, slots=True)
class PromptAdvice:
    refusal: str = ""
    """Why the message is refused. An empty text means that it is accepted."""
    context: str = ""
    """Context for the model, added to the message."""


@dataclass(frozen=True, slots=True)
class CallAdvice:
    verdict: HookVerdict | None = None
    arguments: str | None = None
    """The JSON arguments that replace the model's arguments, or None to keep the model's."""


class Advice(Protocol):
    """Lets hooks influence a session. Each method is called once and its answer is recorded with the step; a
    replay uses the record.
    """

    @property
    def stop_reason(self) -> str:
        """Return why the run must end after this step, or an empty text if the run continues."""
        ...

    @property
    def comments_results(self) -> bool:
        """Return whether hooks may need time to comment on results."""
        ...

    def judges(self, reply: Message) -> bool:
        """Return whether hooks may need time to check a reply, before a step records that they are asked."""
        ...

    def give_up(self) -> None:
        """Stop waiting for hooks, because the run ends while it is starting."""
        ...

    async def rewrite_message(self, message: UserContent) -> UserContent:
        """Return the message that begins the run in place of a person's message. Called before the message is
        recorded.
        """
        ...

    async def rewrite_answer(self, text: str) -> str:
        """Return the text that replaces the text of an answer. Called before the format of the answer is
        checked.
        """
        ...

    async def rewrite_observed(self, text: str) -> str:
        """Return the text that is stored in place of an observed message."""
        ...

    async def after_observed(self, text: str) -> None:
        """Tell the hooks about an observed message that is stored, or that was taken in from another
        process.
        """
        ...

    async def on_prompt(self, text: str) -> PromptAdvice:
        """Check a person's message before it is accepted."""
        ...

    async def before_call(self, use: ToolUse) -> CallAdvice:
        """Check a call of the model that the gate has not judged yet."""
        ...

    async def on_question(self, call: PendingCall) -> HookVerdict | None:
        """Check a call for which the gate asks a person. Return None to leave the question to the person.

        Called a second time if the call needs a decision again right before its start: then only a denial
        counts.
        """
        ...

    async def after_call(self, call: PendingCall, outcome: ToolOutcome, duration_ms: int) -> str:
        """Return a comment for the model on a call that has run and is recorded, or an empty text."""
        ...

    async def on_answer(self, text: str, is_second: bool) -> str:
        """Check an answer that would end the turn. Return why the turn must continue, or an empty text.

        `is_second`: the turn was continued once already, so it ends now whatever this method returns.
        """
        ...

    async def before_compression(self) -> None: ...

    async def after_compression(self, summary: str) -> None: ...
