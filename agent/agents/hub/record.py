"""The record of a hub: a session of its own, whose history is what happened in the hub, in order.

A program that was killed runs its block again from the beginning. Each of its operations then finds its
entry, in the same order, and does nothing else; the first one without an entry goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ....actions.ports import ModelEvent, ModelRequest
from ....state.conversation.messages import HUB_NUMBER, Message, encodable
from ....state.errors import ModelError, UsageError
from ....state.process.crashpoints import reach
from ...sdk.session import AgentSession

EntryKind = Literal["began", "announced", "spoke", "answered", "chose", "joined", "left", "ended"]
"""`began`, `ended`: a block of the program. `announced`: a message of the program. `spoke`: an answer that
others hear. `answered`: one that only the program gets. `chose`: who speaks next."""
_DETAILS = "sandbur.hub.entry"
_DID = {
    "began": "began with other participants",
    "announced": "made an announcement",
    "spoke": "let {name} speak",
    "answered": "asked {name}",
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
    """Whose it is: the participant, or the name that an announcement has."""
    text: str = ""
    to: tuple[str, ...] = ()
    """The participants that hear it."""
    asked: str = ""
    """A digest of what the program asked for, by which a repeated operation is known."""
    output: tuple[Any, ...] = field(default=())
    """The JSON value of the answer; empty if the answer is a text."""

    @property
    def as_message(self) -> Message:
        """Return the message as others hear it."""
        return Message.user(self.text, name=self.name or None, metadata={HUB_NUMBER: self.number})

    @property
    def as_stored(self) -> Message:
        details = {"kind": self.kind, "to": list(self.to), "asked": self.asked, "output": list(self.output)}
        metadata = {HUB_NUMBER: self.number, _DETAILS: details}
        return Message.user(self.text, name=self.name or None, metadata=metadata)


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

    @property
    def passed(self) -> list[HubEntry]:
        """The entries up to where the program is: in a repeated block without those still to come."""
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
        """Return the entry of an operation that is repeated; None: it is new.

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

    async def add(self, *entries: HubEntry) -> list[HubEntry]:
        """Store new entries in one step, and return them with their numbers."""
        mask = self._session.opened.ports.masker.text
        numbered = [
            replace(one, number=number, text=mask(encodable(one.text)))
            for number, one in enumerate(entries, self.next_number)
        ]
        reach("hub_before_record")
        await self._session.opened.observe_hub([one.as_stored for one in numbered])
        self.entries += numbered
        return numbered


def list_messages(entries: Sequence[HubEntry]) -> list[Message]:
    """Return what was announced and said, in order."""
    return [one.as_message for one in entries if one.kind in ("announced", "spoke")]


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
