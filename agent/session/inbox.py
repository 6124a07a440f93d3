"""What a person says while a run goes on: kept at once, read with the next call, or sent after the run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...state.application import InboxTaken
from ...state.errors import UsageError
from ...state.messages import encodable
from ...state.session import InboxKind, WaitingMessage

if TYPE_CHECKING:
    from ...actions.ports import Masker
    from ...actions.ports.advice import Advice
    from ...state.store.inbox import Inbox


class SessionInbox:
    """The inbox of one session as its runs see it."""

    def __init__(self, inbox: "Inbox", masker: "Masker") -> None:
        self.handed = 0
        """The number of the newest steering message that a call of the model was made with."""
        self._inbox = inbox
        self._masker = masker

    async def steering(self, taken: InboxTaken) -> Sequence[WaitingMessage]:
        """Hand out what steers and is in no history yet, oldest first."""
        waiting = await self._inbox.read(taken)
        steering = [one for one in waiting if one.kind == "steer"]
        self.handed = max((self.handed, *(one.number for one in steering)))
        return steering

    async def open(self, taken: InboxTaken) -> None:
        await self._inbox.read(taken)

    def waiting(self, taken: InboxTaken) -> tuple[WaitingMessage, ...]:
        return self._inbox.waiting(taken)

    async def add(self, kind: InboxKind, text: str, advice: "Advice | None", taken: InboxTaken) -> None:
        """Keep a message, without its secrets; it is on disk when this returns.

        Raises `UsageError` for one that cannot be said to a model that works.
        """
        said = self._masker.text(encodable(text)).strip()
        if not said:
            raise UsageError("There is nothing in this message.")
        context = ""
        if kind == "steer":
            from ...actions.turn.commands import is_command

            if is_command(said):
                raise UsageError(
                    f"{said.split()[0][:40]} is a command: it cannot be said to a model that works.",
                    "Queue it: it is taken when the run is over.",
                )
            if advice is not None:
                # A queued one is looked at when it is sent.
                found = await advice.on_prompt(said)
                if found.refusal:
                    raise UsageError(f"A hook refused the message: {found.refusal}")
                context = found.context
        await self._inbox.add(kind, said, context, max(taken.steer, taken.queue))

    async def withdraw(self, number: int, taken: InboxTaken, is_running: bool) -> str:
        """Take a message back and return it; raises `UsageError` once it was read, or is not there."""
        found = next((one for one in self._inbox.waiting(taken) if one.number == number), None)
        if found is None or (is_running and found.kind == "steer" and number <= self.handed):
            raise UsageError("The model has this message already.")
        if not await self._inbox.withdraw(number):
            raise UsageError("This message does not wait any more.")
        return found.text

    async def next_queued(self, taken: InboxTaken) -> tuple[str, InboxTaken] | None:
        """Return what is to be sent next, and what is taken with it; None: nothing waits.

        What was to steer a run that is over comes first, as one message. A command of the chat leads to no
        step that could tell of it, so it is taken here and now.
        """
        waiting = await self._inbox.read(taken)
        steering = [one for one in waiting if one.kind == "steer"]
        if steering:
            text = "\n\n".join(one.text for one in steering)
            return text, taken.model_copy(update={"steer": steering[-1].number})
        if not waiting:
            return None
        first = waiting[0]
        if first.text.startswith(("/", "!")):
            if not await self._inbox.withdraw(first.number):
                return await self.next_queued(taken)
            return first.text, taken
        return first.text, taken.model_copy(update={"queue": first.number})
