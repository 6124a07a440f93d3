"""A talk: participants of a hub that hear each other, and who of them speaks next."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Optional, Protocol, cast

from typing_extensions import TypeForm, Unpack

from ....actions.ports.events import RunFinished
from ....state.errors import UsageError
from ...sdk.runs.request import RunArguments, RunRequest
from ...sdk.runs.result import RunFailed
from .participant import HubMessage, Member, check_request
from .record import EntryKind, HubEntry, HubRecord, digest

TURN = "It is your turn to speak."
"""What a participant is told when it has to speak."""
_CHOOSE = "Who speaks next? Answer with a name, or with null if the talk is over: {names}."


class HubCore(Protocol):
    """What talks need of their hub."""

    @property
    def id(self) -> str: ...
    @property
    def lock(self) -> asyncio.Lock:
        """Held during an operation: one speaks at a time."""
        ...

    @property
    def members(self) -> dict[str, Member]: ...
    @property
    def moderator(self) -> str:
        """The name of the agent that chooses who speaks next; empty if there is none."""
        ...

    @property
    def record(self) -> HubRecord: ...
    async def write(self, *entries: HubEntry) -> list[HubEntry]:
        """Store entries, and give them to those who hear them."""
        ...

    async def answer(self, name: str, turn: str, message: str, request: RunRequest[Any]) -> RunFinished:
        """Let a member answer in its session."""
        ...


ChooseSpeaker = Callable[["Talk"], "str | Awaitable[str | None] | None"]
"""Returns the name of the next speaker of a talk; None ends the talk."""


class Participant:
    """An agent in a talk. The others of the talk hear what it says."""

    def __init__(self, talk: Talk, member: Member) -> None:
        self._talk = talk
        self.name = member.name
        self.session_id = member.session_id
        """The id of the agent's session in the hub."""

    async def run(
        self, message: str = TURN, *, output: TypeForm[Any] | None = None, **options: Unpack[RunArguments]
    ) -> HubMessage:
        """Let the agent speak, and return what it said. `message` is for it alone.

        The other arguments are those of `Agent.run`. Raises `RunFailed` if it does not answer.
        """
        return await self._talk.let_speak("spoke", self.name, message, check_request(output, options))

    async def ask(
        self, message: str, *, output: TypeForm[Any] | None = None, **options: Unpack[RunArguments]
    ) -> HubMessage:
        """Let the agent answer the program alone: nobody else hears the answer."""
        return await self._talk.let_speak("answered", self.name, message, check_request(output, options))


class Talk:
    """Participants that hear each other: those of a hub, or some of them."""

    def __init__(self, hub: HubCore, names: list[str], order: Any) -> None:
        self._hub = hub
        self._names = names
        self._order = order
        self._position = 0
        """The place of the next speaker in the declared order."""

    @property
    def participants(self) -> tuple[Participant, ...]:
        """Return the participants in their order."""
        return tuple(Participant(self, self._hub.members[name]) for name in self._names)

    def __getitem__(self, name: str) -> Participant:
        """Return the participant of this name; raises `UsageError` if there is none."""
        self._require(name)
        return Participant(self, self._hub.members[name])

    async def broadcast(self, message: str, *, name: str = "") -> None:
        """Let all participants hear a message of the program. `name` is its speaker; empty: none."""
        if not message.strip():
            raise UsageError("The announcement is empty.", "Write what the participants have to hear.")
        async with self._hub.lock:
            asked = digest(message, self._names)
            if self._hub.record.find("announced", asked, name) is None:
                to = self._list_listeners(name)
                await self._hub.write(HubEntry(kind="announced", name=name, text=message, to=to, asked=asked))

    async def next(
        self, message: str = TURN, *, output: TypeForm[Any] | None = None, **options: Unpack[RunArguments]
    ) -> HubMessage | None:
        """Let the next participant speak, and return what it said. None: the order ends the talk."""
        request = check_request(output, options)
        # The function may ask a participant, so it is called before the turn begins.
        chosen = await self._call_order() if callable(self._order) else None
        async with self._hub.lock:
            name = await self._choose(chosen)
            return None if name is None else await self._speak("spoke", name, message, request)

    async def run(
        self, rounds: int = 1, message: str = TURN, **options: Unpack[RunArguments]
    ) -> list[HubMessage]:
        """Let participants speak one after the other, as many as there are times `rounds`."""
        messages: list[HubMessage] = []
        for _ in range(rounds):
            for _ in range(len(self._names)):
                one = await self.next(message, **options)
                if one is None:
                    return messages
                messages.append(one)
        return messages

    async def ask_all(
        self, message: str, *, output: TypeForm[Any] | None = None, **options: Unpack[RunArguments]
    ) -> dict[str, HubMessage]:
        """Let all participants answer the program at the same time. None of them hears an answer."""
        request = check_request(output, options)
        async with self._hub.lock:
            asked, names = _digest_turn(message, request), tuple(self._names)
            # They are stored in one step: either all of them are there or none.
            entries = [one for name in names if (one := self._hub.record.find("answered", asked, name))]
            if not entries:
                entries = await self._hub.write(*await self._answer_at_once(names, message, request))
            return {one.name: self._read(one, request) for one in entries}

    async def let_speak(
        self, kind: EntryKind, name: str, message: str, request: RunRequest[Any]
    ) -> HubMessage:
        """Let a participant answer a message."""
        async with self._hub.lock:
            self._require(name)
            return await self._speak(kind, name, message, request)

    async def _answer_at_once(
        self, names: tuple[str, ...], message: str, request: RunRequest[Any]
    ) -> list[HubEntry]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._make_entry("answered", name, message, request)) for name in names
                ]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _speak(self, kind: EntryKind, name: str, message: str, request: RunRequest[Any]) -> HubMessage:
        entry = self._hub.record.find(kind, _digest_turn(message, request), name)
        if entry is None:
            (entry,) = await self._hub.write(await self._make_entry(kind, name, message, request))
        return self._read(entry, request)

    async def _make_entry(
        self, kind: EntryKind, name: str, message: str, request: RunRequest[Any]
    ) -> HubEntry:
        """Let a participant answer, and return the entry of its answer."""
        asked = _digest_turn(message, request)
        # After a crash the same turn has the same id, by which its participant knows it.
        turn = f"{self._hub.id}:{self._hub.record.next_number}:{asked}"
        end = await self._hub.answer(name, turn, message, request)
        entry = HubEntry(
            kind=kind,
            name=name,
            text=end.result or "",
            to=self._list_listeners(name) if kind == "spoke" else (),
            asked=asked,
            output=(end.output,) if end.has_output else (),
        )
        self._read(entry, request)
        return entry

    def _read(self, entry: HubEntry, request: RunRequest[Any]) -> HubMessage:
        typed = self._hub.members[entry.name].find_type(request)
        output: Any = entry.output[0] if entry.output else entry.text
        if typed is not None and entry.output:
            try:
                output = typed.parse(output)
            except ValueError:
                raise RunFailed(
                    f"The answer of {entry.name} is not of the type `output`.", f"It is: {entry.text[:200]}"
                ) from None
        return HubMessage(entry.name, entry.text, output, entry.number)

    async def _call_order(self) -> str | None:
        """Return the speaker that the function of the program chooses. In a repeated block, what it chose
        before counts.
        """
        self._require_participants()
        chosen = self._order(self)
        return await chosen if inspect.isawaitable(chosen) else chosen

    def _require_participants(self) -> None:
        if not self._names:
            raise UsageError("Nobody takes part.", "Add an agent: await hub.add(agent).")

    async def _choose(self, chosen: str | None) -> str | None:
        """Return the name of the next speaker. `chosen` is what the function of the program returned."""
        self._require_participants()
        if self._order == "declared":
            place = self._position % len(self._names)
            self._position = (place + 1) % len(self._names)
            return self._names[place]
        return await (self._record_choice(chosen) if callable(self._order) else self._ask_moderator())

    async def _record_choice(self, chosen: str | None) -> str | None:
        found = self._hub.record.find("chose", "")
        if found is None:
            if chosen is not None:
                self._require(chosen)
            (found,) = await self._hub.write(HubEntry(kind="chose", name=chosen or "", text="Next speaker."))
        return found.name or None

    async def _ask_moderator(self) -> str | None:
        kind = cast("Any", Optional)[cast("Any", Literal)[tuple(self._names)]]
        text = _CHOOSE.format(names=", ".join(self._names))
        answer = await self._speak("answered", self._hub.moderator, text, check_request(kind, {}))
        return answer.output

    def _list_listeners(self, speaker: str) -> tuple[str, ...]:
        """Return the names of those who hear what `speaker` says."""
        moderator = (self._hub.moderator,) if self._hub.moderator else ()
        return tuple(name for name in (*self._names, *moderator) if name != speaker)

    def _require(self, name: str) -> None:
        if name not in self._names:
            raise UsageError(
                f"{str(name)[:64]!r} takes no part. There are: {', '.join(self._names) or 'none'}."
            )


def _digest_turn(message: str, request: RunRequest[Any]) -> str:
    form = request.form
    return digest(message, None if form is None else form.digest)
