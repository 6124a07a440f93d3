"""Messages that a person sends during a run. They are stored at once, and the model reads them with its next
call or after the run."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeGuard

from ...actions.ports import Masker
from ...actions.ports.advice import Advice
from ...actions.turn.commands import is_command, parse_shell_command
from ...actions.turn.model_call import Model, refusal_of
from ...state.application import InboxTaken
from ...state.conversation.messages import UserContent, encodable
from ...state.databases.database import Statement
from ...state.errors import UsageError
from ...state.session import InboxKind, WaitingMessage
from ...state.store.sessions.inbox import Inbox, NewMessage
from .position import Position
from .secrets import mask_parts


class SessionInbox:
    """The inbox of one session, as its runs use it."""

    def __init__(
        self,
        inbox: Inbox,
        position: Position,
        masker: Masker,
        advice: Advice | None,
        tell: Callable[[str], None],
        model: Model | None = None,
    ) -> None:
        """`advice` checks every steering message. `tell` is called with the reason of each refusal.

        `model` reads the files of queued messages.
        """
        self._model = model
        self.last_number = 0
        """The number of the newest message that a model call contained."""
        self._next_taken: InboxTaken | None = None
        """The numbers of the messages that the session's next message contains."""
        self._position = position
        self._inbox = inbox
        self._masker = masker
        self._advice = advice
        self._tell = tell
        self._advised: dict[int, WaitingMessage] = {}
        """Number of a message from another process -> the message with the context that hooks added."""

    async def load_new_messages(self, taken: InboxTaken) -> Sequence[WaitingMessage]:
        """Return the steering and observed messages that no history contains yet, oldest first."""
        waiting = await self._inbox.read(taken)
        found = [await self._take_in(one) for one in waiting if one.kind != "queue"]
        new = [one for one in found if one is not None]
        self.last_number = max((self.last_number, *(one.number for one in new)))
        return new

    async def _take_in(self, message: WaitingMessage) -> WaitingMessage | None:
        """Return a message after the hooks checked it, or None if it was refused or withdrawn."""
        if self._advice is None or not message.is_from_outside:
            return message
        if message.number not in self._advised:
            text = message.text
            if message.kind == "observe":
                text = self._mask(await self._advice.rewrite_observed(text))
            found = await self._advice.on_prompt(text)
            if found.refusal:
                if await self._inbox.withdraw(message.number):
                    self._tell(f"A hook refused the message: {found.refusal}")
                return None
            self._advised[message.number] = replace(message, text=text, context=found.context)
            if message.kind == "observe":
                await self._advice.after_observed(text)
        return self._advised[message.number]

    async def read(self) -> None:
        """Read the messages that have waited since the last run or came from another process."""
        await self._inbox.read(self._taken)

    @property
    def waiting(self) -> tuple[WaitingMessage, ...]:
        """Return the known messages that wait to be sent, in order."""
        waiting = self._inbox.waiting(self._next_taken or self._taken)
        return tuple(one for one in waiting if one.kind != "observe")

    @property
    def observed(self) -> tuple[WaitingMessage, ...]:
        """Return the known observed messages that no history contains yet, in order."""
        return tuple(one for one in self._inbox.waiting(self._taken) if one.kind == "observe")

    @property
    def _taken(self) -> InboxTaken:
        return self._position.state.inbox_taken

    async def steer(self, text: str) -> None:
        """Send a message to the working model. It is on disk when this returns; the next model call contains
        it.

        If no run reads the message, it is queued. Raises `UsageError` for a command.
        """
        await self._add("steer", text)

    async def queue(self, text: str) -> None:
        """Store a message or a command to be sent after the run. It is on disk when this returns."""
        await self._add("queue", text)

    async def observe(self, *texts: str) -> None:
        """Store messages to be added to the history without a reply. All of them are on disk when this
        returns, or none.
        """
        advice = self._advice
        if advice is None:
            await self._add("observe", *texts)
            return
        rewritten = [self._mask(await advice.rewrite_observed(self._mask(text))) for text in texts]
        await self._add("observe", *rewritten)
        for text in rewritten:
            await advice.after_observed(text)

    async def _add(self, kind: InboxKind, *texts: str) -> None:
        """Store messages with their secrets masked. Raises `UsageError` if one cannot be sent to a model."""
        checked = [await self._check(kind, masked) for masked in mask_messages(self._masker, texts)]
        await self._inbox.add_many(kind, checked, self._taken.newest)

    async def _check(self, kind: InboxKind, masked: str) -> NewMessage:
        """Return a message with the context that hooks add."""
        context = ""
        if kind != "queue":
            if kind == "steer" and _is_order(masked):
                raise UsageError(
                    f"{masked.split()[0][:40]} is a command: it cannot be sent to a working model.",
                    "Queue it: the chat executes it after the run.",
                )
            if self._advice is not None:
                # Hooks check a queued message when it is sent.
                found = await self._advice.on_prompt(masked)
                if found.refusal:
                    raise UsageError(f"A hook refused the message: {found.refusal}")
                context = found.context
        return NewMessage(masked, context)

    def _mask(self, text: str) -> str:
        return _mask(self._masker, text)

    async def withdraw(self, number: int) -> str:
        """Remove a message and return it. Raises `UsageError` if the model has read it, or if it does not
        wait."""
        found = next((one for one in self._inbox.waiting(self._taken) if one.number == number), None)
        is_read = found is not None and found.kind != "queue" and number <= self.last_number
        if found is None or (is_read and self._position.is_held):
            raise UsageError("The model has this message already.")
        if not await self._inbox.withdraw(number):
            raise UsageError("This message no longer waits.")
        return found.text

    async def next_queued(self) -> UserContent | None:
        """Return the message to send now, or None if no message waits or a call waits for a decision.

        It is a text, or a list of texts and files.
        Steering messages of a run that has ended come first, joined to one message. A message is removed from
        the inbox by the step that adds it to the history. A chat command has no such step, so it is removed
        here; a shell command has one.
        """
        if self._position.next_action == "human_confirm":
            return None
        taken = self._taken
        sent = [one for one in await self._inbox.read(taken) if one.kind != "observe"]
        waiting = [one for one in sent if not await self._leave_out(one)]
        steering = [one for one in waiting if one.kind == "steer"]
        if steering:
            self._next_taken = taken.model_copy(update={"steer": steering[-1].number})
            return "\n\n".join(one.text for one in steering)
        if not waiting:
            return None
        first = waiting[0]
        if first.message is None and _leads_to_no_step(first.text):
            if not await self._inbox.withdraw(first.number):
                return await self.next_queued()
            self._next_taken = taken
            return first.text
        self._next_taken = taken.model_copy(update={"queue": first.number})
        return self._without_refused(first.content)

    def include_next(self) -> None:
        """Make the next step record that it contains the message that `next_queued` returned."""
        if self._next_taken is not None:
            # Another message may have been observed meanwhile.
            taken = self._next_taken.model_copy(update={"observe": self._taken.observe})
            self._position.change(inbox_taken=taken)
            self._next_taken = None

    async def _leave_out(self, message: WaitingMessage) -> bool:
        """Withdraw a command that no person typed here: another process sent it, or it was sent to the
        model."""
        is_order = message.message is None and _is_order(message.text)
        if not is_order or not (message.is_from_outside or message.kind == "steer"):
            return False
        if await self._inbox.withdraw(message.number):
            word = message.text.split()[0][:40]
            self._tell(f"{word} was left out: a command counts only where a person types it.")
        return True

    def _without_refused(self, content: UserContent) -> UserContent:
        """Return a message with a sentence in place of each file that the model cannot take.

        A file that the model could not take was refused when it was sent, so this is another model.
        """
        model = self._model
        if isinstance(content, str) or model is None:
            return content
        return tuple(
            f"{part.label} was left out: {why}"
            if not isinstance(part, str) and (why := refusal_of(model, part))
            else part
            for part in content
        )


def _is_order(text: str) -> bool:
    """Return whether a text would be a command if a person typed it."""
    return is_command(text) or parse_shell_command(text) is not None


def _leads_to_no_step(text: str) -> bool:
    """Return whether the chat itself executes the text; a shell command is a step."""
    return is_command(text) or parse_shell_command(text) == ""


def _mask(masker: Masker, text: str) -> str:
    return masker.text(encodable(text)).strip()


def mask_messages(masker: Masker, texts: Sequence[str]) -> list[str]:
    """Return texts with their secrets masked. Raises `UsageError` if one of them is empty."""
    masked = [_mask(masker, text) for text in texts]
    if "" in masked:
        place = f"Message {masked.index('') + 1} of {len(masked)}" if len(masked) > 1 else "The message"
        raise UsageError(f"{place} is empty.", "Write what the model has to know.")
    return masked


def _mask_content(masker: Masker, content: UserContent) -> UserContent:
    """Return a message with its secrets masked. Raises `UsageError` if there is nothing in it."""
    if isinstance(content, str):
        return mask_messages(masker, [content])[0]
    masked = mask_parts(masker, content)
    return mask_messages(masker, ["".join(masked)])[0] if _is_text(masked) else masked


def _is_text(content: UserContent) -> TypeGuard[Sequence[str]]:
    return all(isinstance(part, str) for part in content)


async def leave_messages(
    inbox: Inbox,
    masker: Masker,
    kind: InboxKind,
    *contents: UserContent,
    also: Callable[[int], Sequence[Statement]] = lambda newest: (),
) -> tuple[WaitingMessage, ...]:
    """Store messages for a session that this process does not run. All are on disk when this returns, or
    none. `also` returns, for the number of the last one, what the same transaction writes.

    Only a queued message may have files. Raises `UsageError` for an empty message, and for a command unless
    it is only observed.
    """
    masked = [_mask_content(masker, content) for content in contents]
    texts = [one for one in masked if isinstance(one, str)]
    if kind != "queue" and len(texts) < len(masked):
        raise UsageError("Files cannot be sent into a run.", "Send them as the next message.")
    if kind != "observe" and (order := next(filter(_is_order, texts), None)):
        raise UsageError(
            f"{order.split()[0][:40]} is a command: it works only if a person types it into the chat.",
            "Write it in words, or continue the session: sandbur -r ID",
        )
    return await inbox.add_from_outside(kind, *masked, also=also)
