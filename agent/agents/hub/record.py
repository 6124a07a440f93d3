"""The record of a hub: a session of its own, whose history is what happened in the hub, in order.

A program that was killed runs its block again from the beginning. Each of its operations then finds its
entry, in the same order, and does nothing else; the first one without an entry goes on.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import field, replace
from typing import Any, Literal, TypedDict

from ....actions.ports import ModelEvent, ModelRequest
from ....actions.turn.user_code import read_text
from ....state import errors
from ....state.conversation.messages import HUB_NUMBER, Message, encodable
from ....state.errors import ModelError, SandburError, UsageError
from ....state.lazy_dataclass import dataclass
from ....state.process.crashpoints import reach
from ...sdk.runs.result import RunFailed
from ...sdk.session import AgentSession, opened_session

EntryKind = Literal["began", "announced", "spoke", "answered", "failed", "chose", "joined", "left", "ended"]
"""`began`, `ended`: a block of the program. `announced`: a message of the program. `spoke`: an answer that
others hear. `answered`: one that only the program gets. `failed`: a turn without an answer. `chose`: who
speaks next."""
TurnKind = Literal["spoke", "answered", "all"]
"""`all`: all participants answer the program at the same time."""
_DETAILS = "sandbur.hub.entry"
_MOST_CHARS = 2000
"""The most characters of the message and of the hint of a stored error."""
_DID = {
    "began": "began with other participants",
    "announced": "made an announcement",
    "spoke": "let {name} speak",
    "answered": "asked {name}",
    "failed": "had a turn of {name} that failed",
    "chose": "chose who speaks next",
    "joined": "added {name}",
    "left": "removed {name}",
    "ended": "ended",
}


class RecordModel:
    """The model of a hub's own session, which is never asked."""

    name = "sandbur/hub"
    context_window = 1_000_000

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        raise ModelError("The session of a hub has no model.", "Talk to one of its participants.")
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class HubEntry:
    """One thing that happened in a hub."""

    number: int = 0
    kind: EntryKind
    name: str = ""
    """The participant that spoke, or the name of the speaker of an announcement."""
    text: str = ""
    to: tuple[str, ...] = ()
    """The participants that hear the entry."""
    asked: str = ""
    """A digest of the operation and its arguments, which identifies a repetition of the operation."""
    output: tuple[Any, ...] = field(default=())
    """The JSON value of the answer; empty if the answer is a text. Of a failure: a `TurnFailure`."""

    def is_failure_of(self, turn: TurnKind, asked: str, name: str) -> bool:
        """Return whether it is a failure of this turn. Any participant may have failed in a turn of all."""
        if self.kind != "failed" or self.asked != asked or self.output[0]["turn"] != turn:
            return False
        return turn == "all" or self.name == name

    @property
    def as_message(self) -> Message:
        """Return the message as others hear it."""
        return Message.user(self.text, name=self.name or None, metadata={HUB_NUMBER: self.number})

    @property
    def as_stored(self) -> Message:
        details = {"kind": self.kind, "to": list(self.to), "asked": self.asked, "output": list(self.output)}
        metadata = {HUB_NUMBER: self.number, _DETAILS: details}
        return Message.user(self.text, name=self.name or None, metadata=metadata)


class TurnFailure(TypedDict):
    """The further fields of the entry of a failed turn. Stored sessions depend on them."""

    turn: TurnKind
    error: str
    """The name of the class."""
    message: str
    hint: str
    number: int
    """The number in the id of the turn, by which the next try goes on with it. 0: the turn has ended."""


def digest(*asked: Any) -> str:
    """Return what identifies an operation of the program: its arguments, as JSON values."""
    return hashlib.sha256(json.dumps(asked, ensure_ascii=False).encode()).hexdigest()[:16]


class HubRecord:
    """The entries of one hub, and those of its interrupted block that the program has not repeated yet."""

    def __init__(self, session: AgentSession[str]) -> None:
        self._session = session
        self.entries = [found for one in session.history if (found := _read_entry(one)) is not None]
        ends = [number for number, one in enumerate(self.entries, 1) if one.kind == "ended"]
        self._repeated = deque(self.entries[ends[-1] if ends else 0 :])
        self._failure: HubEntry | None = None
        """The last turn, if it failed. It is stored as soon as the program goes on after it."""

    @property
    def passed(self) -> list[HubEntry]:
        """The entries up to the present operation: in a repeated block, without those not yet repeated."""
        return self.entries[: len(self.entries) - len(self._repeated)]

    @property
    def next_number(self) -> int:
        return len(self.entries) + 1

    async def give_up_block(self) -> None:
        """End the interrupted block: the program does not repeat it."""
        if self._repeated:
            self._repeated.clear()
            await self.add(HubEntry(kind="ended", text="The block was given up."))

    def find(self, kind: EntryKind, asked: str, name: str | None = None) -> HubEntry | None:
        """Return the entry of a repeated operation; None if the operation is new.

        Raises `UsageError` if the program did something else at this place.
        """
        if not self._repeated:
            return None
        found = self._repeated[0]
        if found.kind != kind or found.asked != asked or name not in (None, found.name):
            did = _DID[found.kind].format(name=found.name)
            raise UsageError(
                f"The program does not repeat what it did in the hub {self._session.id} before it was"
                f" interrupted: there it {did} (entry {found.number}), in other words or not at all here.",
                "Run the same block again, or give the block up: MessageHub(..., repeats=False).",
            )
        return self._repeated.popleft()

    def raise_failure(self, turn: TurnKind, asked: str, name: str = "") -> None:
        """Raise the error of a turn that is repeated, if it failed before."""
        if self._repeated and self._repeated[0].is_failure_of(turn, asked, name):
            raise _make_error(self._repeated.popleft())

    def keep_failure(self, turn: TurnKind, asked: str, name: str, error: BaseException, number: int) -> None:
        """Keep a turn that failed; if participants that answer at the same time fail, the first failure.

        `number` is part of the id of the turn; 0: the turn has ended.
        """
        if self._failure is None:
            what, text, hint = _describe_error(error)
            message, hint = self._mask(text), self._mask(hint)
            details = TurnFailure(turn=turn, error=what, message=message, hint=hint, number=number)
            self._failure = HubEntry(
                kind="failed", name=name, text=f"I gave no answer. {message}", asked=asked, output=(details,)
            )

    async def store_failure(self) -> None:
        """Store the last turn, if it failed: the program goes on after it."""
        if self._failure is not None:
            await self.add()

    def find_turn_number(self, turn: TurnKind, asked: str, name: str = "") -> int:
        """Return the number in the id of a new turn. A turn that is tried again goes on under its old id."""
        last = self.entries[-1] if self.entries else None
        if last is not None and last.is_failure_of(turn, asked, name):
            return last.output[0]["number"] or self.next_number
        return self.next_number

    async def add(self, *entries: HubEntry) -> list[HubEntry]:
        """Store new entries in one step, and return them with their numbers.

        The turn that failed before them is stored with them.
        """
        failures = () if self._failure is None else (self._failure,)
        numbered = [
            replace(one, number=number, text=self._mask(one.text))
            for number, one in enumerate((*failures, *entries), self.next_number)
        ]
        reach("hub_before_record")
        await opened_session(self._session).observe_hub([one.as_stored for one in numbered])
        self.entries += numbered
        self._failure = None
        return numbered[len(failures) :]

    def _mask(self, text: str) -> str:
        return opened_session(self._session).ports.masker.text(encodable(text))


def list_messages(entries: Sequence[HubEntry]) -> list[Message]:
    """Return the announcement and the messages, in order."""
    return [one.as_message for one in entries if one.kind in ("announced", "spoke")]


def _describe_error(error: BaseException) -> tuple[str, str, str]:
    """Return the class, the message and the hint of an error that ended a turn."""
    if isinstance(error, SandburError):
        return type(error).__name__, error.message[:_MOST_CHARS], error.hint[:_MOST_CHARS]
    if isinstance(error, asyncio.CancelledError | TimeoutError):
        return TimeoutError.__name__, "The program ended the turn.", ""
    return RunFailed.__name__, f"{type(error).__name__}: {read_text(error)}"[:_MOST_CHARS], ""


def _make_error(entry: HubEntry) -> Exception:
    details: TurnFailure = entry.output[0]
    if details["error"] == TimeoutError.__name__:
        return TimeoutError(details["message"])
    found = getattr(errors, details["error"], None)
    kind = found if isinstance(found, type) and issubclass(found, SandburError) else RunFailed
    return kind(details["message"], details["hint"])


def _read_entry(message: Message) -> HubEntry | None:
    details: Any = (message.metadata or {}).get(_DETAILS)
    if not isinstance(details, dict) or not message.hub_number:
        return None
    values: dict[str, Any] = details  # pyright: ignore[reportUnknownVariableType]
    return HubEntry(
        number=message.hub_number,
        kind=values["kind"],
        name=message.name or "",
        text=message.text,
        to=tuple(values["to"]),
        asked=values["asked"],
        output=tuple(values["output"]),
    )
