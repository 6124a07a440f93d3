"""A talk: participants of a hub that hear each other, and who of them speaks next."""

from __future__ import annotations

import asyncio
import inspect
import reprlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Literal, Optional, Self, cast

from typing_extensions import TypeForm, Unpack

from ....actions.tools.functions.callee import name_of
from ....actions.turn.user_code import UserCode
from ....state.errors import UsageError, WrongType
from ...sdk.runs.request import RunArguments, RunRequest
from ...sdk.runs.result import RunFailed
from .core import HubCore
from .participant import HubMessage, Member, check_turn, require_text
from .record import HubEntry, TurnKind, digest

TURN = "It is your turn to speak."
"""The message by which a participant is asked to speak."""
_CHOOSE = "Who speaks next? Answer with a name, or with null if the talk is over: {names}."


ChooseSpeaker = Callable[["Talk"], "str | Awaitable[str | None] | None"]
"""Returns the name of the next speaker of a talk; None ends the talk."""


LetSpeak = Callable[[Literal["spoke", "answered"], str, RunRequest[Any]], Awaitable["HubMessage"]]
"""Lets a participant answer a message."""


class Participant:
    """An agent in a talk. The others of the talk hear what it says."""

    def __init__(self, member: Member, let_speak: LetSpeak) -> None:
        self._let_speak = let_speak
        self.name = member.name
        self.session_id = member.session_id
        """The id of the agent's session in the hub."""

    async def run(
        self, message: str = TURN, *, output: TypeForm[Any] | None = None, **options: Unpack[RunArguments]
    ) -> HubMessage:
        """Let the agent speak, and return its message. `message` is for it alone.

        The other arguments are those of `Agent.run`. Raises `RunFailed` if it does not answer.
        """
        return await self._let_speak("spoke", message, check_turn(message, output, options))

    async def ask(
        self, message: str, *, output: TypeForm[Any] | None = None, **options: Unpack[RunArguments]
    ) -> HubMessage:
        """Let the agent answer only the program: the other participants do not hear the answer."""
        request = check_turn(message, output, options)
        return await self._let_speak("answered", message, request)


class Talk:
    """Participants that hear each other: all participants of a hub, or a group of them."""

    def __init__(self, hub: HubCore, names: list[str], order: Any) -> None:
        self._hub = hub
        self._names: list[str] = names
        self._order = order
        self._position = 0
        """The place of the next speaker in the declared order."""

    @property
    def participants(self) -> tuple[Participant, ...]:
        """Return the participants in their order."""
        return tuple(map(self._find, self._names))

    def __getitem__(self, name: str) -> Participant:
        """Return the participant of this name; raises `UsageError` if there is none."""
        self._require(name)
        return self._find(name)

    def _find(self, name: str) -> Participant:
        return Participant(self._hub.members[name], partial(self._answer, name))

    def __contains__(self, name: object) -> bool:
        """Return whether a participant has this name."""
        return name in self._names

    def __iter__(self) -> Iterator[Participant]:
        return iter(self.participants)

    def __len__(self) -> int:
        return len(self._names)

    def group(
        self,
        names: Iterable[str],
        announcement: str = "",
        *,
        order: Literal["declared"] | ChooseSpeaker = "declared",
    ) -> HubGroup:
        """Return a talk of some participants, for `async with`. The others hear nothing of it."""
        if isinstance(names, str) or not isinstance(cast("object", names), Iterable):
            raise WrongType(
                f"A group takes a list of names, not {reprlib.repr(names)}.",
                'Write hub.group(["ada", "bea"]).',
            )
        require_text("The announcement of a group", announcement)
        if order != "declared" and not callable(order):
            raise WrongType(
                f"`order` of a group is not {reprlib.repr(order)}.",
                'It takes "declared" or a function that returns a name.',
            )
        chosen = [self[name].name for name in names]
        if not chosen or len(set(chosen)) < len(chosen):
            raise UsageError(
                "A group needs a participant, and each name once.", f"There are: {self._list()}."
            )
        return HubGroup(self._hub, chosen, announcement, order)

    def _drop(self, name: str) -> None:
        """Take a participant out of the talk, if it is there."""
        if name in self._names:
            place = self._names.index(name)
            self._names.remove(name)
            self._position -= place < self._position

    async def broadcast(self, message: str, *, name: str = "") -> None:
        """Let all participants hear a message of the program. `name` is its speaker; empty: none."""
        require_text("An announcement", message)
        require_text("The name of a speaker", name)
        if not message.strip():
            raise UsageError("The announcement is empty.", "Write what the participants have to hear.")
        async with self._operate():
            asked = digest(message, self._names)
            if self._hub.record.find("announced", asked, name) is None:
                to = self._list_listeners(name)
                await self._hub.write(HubEntry(kind="announced", name=name, text=message, to=to, asked=asked))

    async def next(
        self, message: str = TURN, *, output: TypeForm[Any] | None = None, **options: Unpack[RunArguments]
    ) -> HubMessage | None:
        """Let the next participant speak, and return its message. None: the order ends the talk.

        Raises `RunFailed` if it does not answer; in the declared order it is the next one again then.
        """
        return await self._run_next_turn(message, check_turn(message, output, options))

    async def run(
        self,
        rounds: int = 1,
        message: str = TURN,
        *,
        output: TypeForm[Any] | None = None,
        **options: Unpack[RunArguments],
    ) -> list[HubMessage]:
        """Let participants speak one after the other, as many as there are times `rounds`.

        If a participant is removed before its turn in a round, the round has one turn less.
        """
        if type(rounds) is not int or rounds < 0:
            raise WrongType(f"`rounds` is a whole number, not {reprlib.repr(rounds)}.", "Write hub.run(2).")
        request = check_turn(message, output, options)
        messages: list[HubMessage] = []
        for _ in range(rounds):
            if not await self._run_round(message, request, messages):
                break
        return messages

    async def ask_all(
        self, message: str, *, output: TypeForm[Any] | None = None, **options: Unpack[RunArguments]
    ) -> dict[str, HubMessage]:
        """Let all participants answer the program at the same time. None of them hears an answer."""
        request = check_turn(message, output, options)
        async with self._operate():
            asked, names = _digest_turn(message, request), tuple(self._names)
            record = self._hub.record
            record.raise_failure("all", asked)
            # They are stored in one step: either all of them are there or none.
            entries = [one for name in names if (one := record.find("answered", asked, name))]
            if not entries:
                made = await self._take_turns("all", names, message, request)
                entries = await self._hub.write(*made)
            return {one.name: self._read(one, request) for one in entries}

    async def _run_round(self, message: str, request: RunRequest[Any], messages: list[HubMessage]) -> bool:
        """Add what one round of participants says. Return False if the order ended the talk."""
        self._require_participants()
        present, spoken, turns = set(self._names), set[str](), 0

        def is_due() -> bool:
            return turns < len(spoken | present.intersection(self._names))

        while is_due():
            one = await self._run_next_turn(message, request, is_due)
            if one is None:
                return not is_due()
            messages.append(one)
            spoken.add(one.name)
            turns += 1
        return True

    async def _run_next_turn(
        self, message: str, request: RunRequest[Any], is_due: Callable[[], bool] = lambda: True
    ) -> HubMessage | None:
        """Let the next participant speak. None: the order ends the talk, or no turn is due any more."""
        self._hub.lock.require_free()
        # The function may ask a participant, so it is called before the turn begins.
        chosen = await self._call_order() if callable(self._order) else None
        async with self._operate():
            name = await self._choose(chosen) if is_due() else None
            if name is None:
                return None
            spoken = await self._speak("spoke", name, message, request)
            # A participant that failed is the next one again.
            self._position = (self._position + 1) % len(self._names)
            return spoken

    async def _answer(
        self, name: str, kind: Literal["spoke", "answered"], message: str, request: RunRequest[Any]
    ) -> HubMessage:
        """Let a participant answer a message."""
        async with self._operate():
            self._require(name)
            return await self._speak(kind, name, message, request)

    @asynccontextmanager
    async def _operate(self) -> AsyncGenerator[None]:
        """Hold the hub during an operation. Raises `UsageError` if the talk is not open."""
        async with self._hub.lock:
            self._require_open()
            yield

    def _require_open(self) -> None:
        """Raise `UsageError` if the talk is not open. A hub without a record is not."""
        _ = self._hub.record

    async def _speak(
        self, kind: Literal["spoke", "answered"], name: str, message: str, request: RunRequest[Any]
    ) -> HubMessage:
        asked = _digest_turn(message, request)
        self._hub.record.raise_failure(kind, asked, name)
        entry = self._hub.record.find(kind, asked, name)
        if entry is None:
            (entry,) = await self._hub.write(*await self._take_turns(kind, (name,), message, request))
        return self._read(entry, request)

    async def _take_turns(
        self, kind: TurnKind, names: Sequence[str], message: str, request: RunRequest[Any]
    ) -> list[HubEntry]:
        """Let participants answer at the same time, and return the entries of their answers."""
        record = self._hub.record
        await record.store_failure()
        number = record.find_turn_number(kind, _digest_turn(message, request), names[0])
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._take_turn(kind, name, message, request, number)) for name in names
                ]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _take_turn(
        self, kind: TurnKind, name: str, message: str, request: RunRequest[Any], number: int
    ) -> HubEntry:
        """Let a participant answer, and return the entry of its answer. `number` is that of its turn."""
        asked = _digest_turn(message, request)
        member = self._hub.members[name]
        try:
            # After a crash the same turn has the same id, by which its participant knows it.
            end = await self._hub.answer(name, f"{self._hub.id}:{number}:{asked}", message, request)
            entry = HubEntry(
                kind="spoke" if kind == "spoke" else "answered",
                name=name,
                text=end.result or "",
                to=self._list_listeners(name) if kind == "spoke" else (),
                asked=asked,
                output=(end.output,) if end.has_output else (),
            )
            self._read(entry, request)
        except BaseException as error:  # a cancellation, too: the program may catch it and go on
            is_open = not member.is_between_turns
            self._hub.record.keep_failure(kind, asked, name, error, number if is_open else 0)
            raise
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
        with UserCode(f"The function {name_of(self._order)} (order)"):
            chosen = self._order(self)
            return await chosen if inspect.isawaitable(chosen) else chosen

    def _require_participants(self) -> None:
        if not self._names:
            raise UsageError("The talk has no participant.", "Add an agent to the hub: await hub.add(agent).")

    async def _choose(self, chosen: str | None) -> str | None:
        """Return the name of the next speaker. `chosen` is what the function of the program returned."""
        self._require_participants()
        if self._order == "declared":
            return self._names[self._position % len(self._names)]
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
        answer = await self._speak("answered", self._hub.moderator, text, check_turn(text, kind, {}))
        return answer.output

    def _list_listeners(self, speaker: str) -> tuple[str, ...]:
        """Return the names of those who hear what `speaker` says."""
        moderator = (self._hub.moderator,) if self._hub.moderator else ()
        return tuple(name for name in (*self._names, *moderator) if name != speaker)

    def _require(self, name: str) -> None:
        if name not in self._names:
            raise UsageError(f"{str(name)[:64]!r} takes no part. There are: {self._list()}.")

    def _list(self) -> str:
        return ", ".join(self._names) or "none"


class HubGroup(Talk):
    """Some participants of a hub, who talk among themselves: `async with hub.group(["a", "b"]) as group`."""

    def __init__(self, hub: HubCore, names: list[str], announcement: str, order: Any) -> None:
        super().__init__(hub, names, order)
        self._announcement = announcement
        self._was_opened = False

    async def __aenter__(self) -> Self:
        if self._was_opened:
            raise UsageError("This group was opened before.", "Make another one: hub.group([...]).")
        _ = self._hub.record
        self._names = [name for name in self._names if name in self._hub.names]
        self._was_opened = True
        self._hub.groups.append(self)
        try:
            if self._announcement:
                await self.broadcast(self._announcement)
        except BaseException:  # a cancellation, too: the group is not open
            self._hub.groups.remove(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the group. Its messages are in the record of the hub."""
        self._hub.groups.remove(self)

    def _require_open(self) -> None:
        super()._require_open()
        if not any(one is self for one in self._hub.groups):
            raise UsageError("This group is not open.", "Write `async with hub.group([...]) as group:`.")


def _digest_turn(message: str, request: RunRequest[Any]) -> str:
    form = request.form
    return digest(message, None if form is None else form.digest)
