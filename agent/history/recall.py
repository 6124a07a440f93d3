"""Recall: searches the messages of a session since it began, also those that compressions took out."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Literal

from ...actions.ports import Toolbox
from ...state.conversation.messages import Message
from ...state.conversation.transcript import Transcript
from ...state.databases.database import find_listener
from ...state.errors import UsageError
from ...state.lazy_dataclass import dataclass
from ...state.search.ranking import list_query_words
from ...state.search.words import find_stem, list_parts
from ...state.store.recording import load_messages
from ...state.store.sessions.message_search import (
    MOST_INDEXED,
    PASSAGE_CHARS,
    FoundPassage,
    MessageSearch,
    describe_call,
    flatten_message,
    load_text,
)
from ...state.store.sessions.message_sources import make_mark
from ...state.store.store import Store

MOST_FOUND = 6
_MOST_COMPARED = 150
_SHOWN_CHARS, _STEP_CHARS, _AROUND_CHARS = 700, 100, 400
_MOST_SENTENCE_CHARS = 300
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n|(?<=[\u3002\uff01\uff1f])")
_NEIGHBOUR_CHARS, _PAGE_CHARS = 250, 4000
_BEFORE, _AFTER = 24, 8
"""How many messages around a hit may hold its question, its answer, its call or its result."""
BEHIND = f"Only the older messages are searched so far: the next search adds up to {MOST_INDEXED:,}."
_REFERENCE = re.compile(r"#([0-9a-f]{6})\.(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
_SPACES = re.compile(r"[ \t]{2,}|\n{3,}")

Kind = Literal["person", "answer", "call", "result"]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The message that belongs to a passage: the answer to a question, the call of a result, or reversed."""

    kind: Kind
    text: str
    """The beginning of the message, on one line."""


@dataclass(frozen=True, slots=True)
class RecalledPassage:
    """A part of a message."""

    kind: Kind
    tool: str
    """The tool of a call or a result; else empty."""
    call_id: str
    """The call of a result, which is the handle of the result; else empty."""
    session_id: str
    where: str
    """Which session the message is of; empty for the session that is searched."""
    seq: int
    at: str
    """The end of the step that added the message: UTC, ISO 8601; empty if the step is damaged."""
    text: str
    start: int
    """The first character of `text` in the message."""
    size: int
    """The characters of the whole message."""
    mark: str
    """The message as a reference, without the first character."""
    is_in_view: bool
    neighbour: Neighbour | None

    @property
    def reference(self) -> str:
        """Return the text that, as a query, shows the passage and what follows."""
        return f"#{self.mark}.{self.start}"

    @property
    def rest(self) -> str:
        """Return the text that, as a query, shows what follows the passage; empty at the end."""
        end = self.start + len(self.text)
        return f"#{self.mark}.{end}" if end < self.size else ""


def list_quoting_tools(toolbox: Toolbox) -> frozenset[str]:
    """Return the tools of a session whose calls and results no search has to find."""
    return frozenset(name for name, tool in toolbox.items() if tool.traits.repeats_messages)


def is_reference(query: str) -> bool:
    """Return whether a query is the reference of a passage."""
    return _REFERENCE.fullmatch(query.strip()) is not None


def recall(
    store: Store,
    session_id: str,
    query: str,
    hidden: Collection[str] = (),
    in_view: Sequence[Transcript] = (),
    tell: Callable[[str], object] | None = None,
) -> list[RecalledPassage]:
    """Return the passages that match a query best, the best one first.

    Searched are all messages of the session, those of its sub-agents, and those of what it was forked from up
    to the fork. Messages of `in_view`, which the model reads in each request, come last. A query that is the
    reference of a passage returns the message from there on. `hidden` are tools whose calls and results are
    left out. If there are too many new messages for one search, `tell`, or the
    listener of the store, gets a sentence.
    """
    search = MessageSearch(store.database, session_id, hidden)
    reader = _Reader(store, search, session_id, hidden, in_view)
    if reference := _REFERENCE.fullmatch(query.strip()):
        mark, log, position, start = reference.groups()
        found = search.find_message(mark, int(log), int(position))
        passage = None if found is None else reader.read(found._replace(start=int(start)), [], _PAGE_CHARS)
        if passage is None:
            raise UsageError("This session has no such passage.", "Search for some of its words.")
        return [passage]
    if not (words := list_query_words(query)):
        raise UsageError("The query has no words.", "Write some words of what you look for.")
    found_passages = search.search(query, _MOST_COMPARED)
    if search.is_behind:
        (tell or find_listener(store.database.on_notice))(BEHIND)
    return reader.read_best(found_passages, words)


class _Reader:
    """Reads the messages that a search found."""

    def __init__(
        self,
        store: Store,
        search: MessageSearch,
        session_id: str,
        hidden: Collection[str],
        in_view: Sequence[Transcript],
    ) -> None:
        self._store = store
        self._search = search
        self._session_id = session_id
        self._hidden = hidden
        self._texts: dict[tuple[str, int, int], str] = {}
        """The place of a message -> its text."""
        self._shown: dict[tuple[str, int, int], int] = {}
        """The place of a message -> how many characters of its text are in the message itself."""
        self._in_view = [
            (span.log.session_id, span.log.number, span.start, span.end)
            for history in in_view
            for span in history.spans
        ]

    def read_best(self, found: Sequence[FoundPassage], words: Sequence[str]) -> list[RecalledPassage]:
        """Return the first passages, one for each message, and equal ones once."""
        weights = {find_stem(word): weight for word, weight in self._search.weigh_words(words).items()}
        nearness = {one: -_measure_nearness(self._load_text(one), weights) for one in found}
        # Sorting keeps the order of the search among passages that are equally good.
        best = sorted(found, key=lambda one: (self._is_in_view(one), nearness[one]))
        first = {(one.session_id, one.log, one.position): one for one in reversed(best)}
        ordered = sorted(first.values(), key=best.index)
        passages: dict[str, RecalledPassage] = {}
        for place in ordered:
            if (passage := self.read(place, words)) is not None:
                passages.setdefault(" ".join(passage.text.split()), passage)
            if len(passages) == MOST_FOUND:
                break
        return list(passages.values())

    def read(
        self, place: FoundPassage, words: Sequence[str], most_chars: int = _SHOWN_CHARS
    ) -> RecalledPassage | None:
        """Return a passage with its neighbour; None if the message is gone or ends before it."""
        steps = self._search.find_around(place, _BEFORE, _AFTER)
        first, end = min(steps, default=0), max(steps, default=-1) + 1
        found = load_messages(self._store.database, place.session_id, place.log, first, end)
        near = {at: message for at, message in found.items() if message is not None and at in steps}
        message = near.get(place.position)
        text = self._load_whole(place, message)
        if message is None or place.start >= len(text):
            return None
        start = _find_window(text, place.start, words, most_chars)
        kind = _find_kind(message)
        results = [one for one in message.tool_results if one.tool not in self._hidden]
        tools = [one.tool for one in (*results, *message.tool_uses) if one.tool not in self._hidden]
        return RecalledPassage(
            kind,
            tool=tools[0] if tools else "",
            call_id=results[0].call_id if results else "",
            session_id=place.session_id,
            where=self._describe_session(place.session_id),
            seq=place.seq,
            at=self._search.find_time(place),
            text=text[start : start + most_chars],
            start=start,
            size=len(text),
            mark=f"{make_mark(place.session_id)}.{place.log}.{place.position}",
            is_in_view=self._is_in_view(place),
            neighbour=_find_neighbour(near, place.position, self._hidden),
        )

    def _load_text(self, place: FoundPassage) -> str:
        """Return the text of a passage; empty if its message is gone."""
        at = place.position
        if (place.session_id, place.log, at) in self._texts:
            text = self._load_whole(place, None)
        else:
            found = load_messages(self._store.database, place.session_id, place.log, at, at + 1)
            text = self._load_whole(place, found.get(at))
        return text[place.start : place.start + PASSAGE_CHARS]

    def _load_whole(self, place: FoundPassage, message: Message | None) -> str:
        """Return the text of the message of a passage. It is loaded once, because outputs may be long."""
        key = (place.session_id, place.log, place.position)
        if key not in self._texts:
            self._texts[key] = load_text(self._store.database, place.session_id, message, self._hidden)
            self._shown[key] = len(flatten_message(message, self._hidden))
        return self._texts[key]

    def _is_in_view(self, place: FoundPassage) -> bool:
        """Return whether the model reads a passage. It does not read what a shortened result left out."""
        if place.start >= self._shown.get((place.session_id, place.log, place.position), place.start + 1):
            return False
        return any(
            (owner, number) == (place.session_id, place.log) and start <= place.position < end
            for owner, number, start, end in self._in_view
        )

    def _describe_session(self, session_id: str) -> str:
        if session_id == self._session_id:
            return ""
        if self._store.index.summary(session_id).spawned_by is None:
            return f"before the fork, in {session_id[:8]}"
        by = self._store.index.settings(session_id).spawned_by
        name = f"{by.agents[-1]} " if by is not None else ""
        return f"sub-agent {name}{session_id[:8]}"


def _measure_nearness(text: str, weights: Mapping[str, float]) -> float:
    """Return the weight of the stems that stand together in a text, at most: in one sentence and, counted
    half, in two that follow each other.
    """
    sentences = [{find_stem(word) for word in list_parts(one)} & weights.keys() for one in _split(text)]
    one = max((sum(map(weights.__getitem__, stems)) for stems in sentences), default=0.0)
    pairs = (first | second for first, second in pairwise(sentences))
    return one + max((sum(map(weights.__getitem__, stems)) for stems in pairs), default=one) / 2


def _split(text: str) -> Iterator[str]:
    """Yield the sentences and lines of a text, the longest ones in parts."""
    for sentence in _SENTENCE_END.split(text):
        for start in range(0, len(sentence), _MOST_SENTENCE_CHARS):
            yield sentence[start : start + _MOST_SENTENCE_CHARS]


def _find_kind(message: Message) -> Kind:
    if message.tool_results:
        return "result"
    if message.role == "assistant":
        return "call" if message.tool_uses else "answer"
    return "person"


def _find_window(text: str, start: int, words: Sequence[str], most_chars: int) -> int:
    """Return where the part of a text begins that has most of the words, in or around a passage.

    The words are in its middle. Without words, it begins with the passage.
    """
    if not words:
        return start
    first, end = max(start - _AROUND_CHARS, 0), start + PASSAGE_CHARS + _AROUND_CHARS
    stems = {find_stem(word) for word in words}

    def count(begin: int) -> int:
        window = {find_stem(word) for word in list_parts(text[begin : begin + most_chars])}
        return len(stems & window)

    last = max(min(end, len(text)) - most_chars, first)
    counts = {begin: count(begin) for begin in range(first, last + _STEP_CHARS, _STEP_CHARS)}
    best = [begin for begin, number in counts.items() if number == max(counts.values())]
    return min(best[len(best) // 2], last)


def _find_neighbour(near: Mapping[int, Message], at: int, hidden: Collection[str]) -> Neighbour | None:
    """Return what belongs to a message: of a result its call, of a call its result, of a question its answer,
    and of an answer its question.
    """
    message = near[at]
    before = [near[place] for place in sorted(near, reverse=True) if place < at]
    after = [near[place] for place in sorted(near) if place > at]
    for kind, text in _list_partners(message, before, after, hidden):
        if line := cut_line(text, _NEIGHBOUR_CHARS):
            return Neighbour(kind, line)
    return None


def _list_partners(
    message: Message, before: Sequence[Message], after: Sequence[Message], hidden: Collection[str]
) -> Iterator[tuple[Kind, str]]:
    asked = {one.call_id for one in message.tool_results if one.tool not in hidden}
    uses = (use for one in before for use in one.tool_uses)
    yield from _label("call", (describe_call(use) for use in uses if use.call_id in asked))
    made = {one.call_id for one in message.tool_uses if one.tool not in hidden}
    results = (one for later in after for one in later.tool_results)
    wanted = (one for one in results if one.call_id in made and not one.put_away)
    yield from _label("result", (one.content for one in wanted))
    if message.role == "user":
        turn = takewhile(lambda one: one.role != "user", after)
        yield from _label("answer", (one.text for one in turn if one.role == "assistant"))
    elif message.role == "assistant":
        yield from _label("person", (one.text for one in before if one.role == "user"))


def _label(kind: Kind, texts: Iterable[str]) -> Iterator[tuple[Kind, str]]:
    return ((kind, text) for text in texts)


def cut_line(text: str, most_chars: int) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text[: most_chars * 2].split())
    return line if len(line) <= most_chars else f"{line[:most_chars]}..."


_SPEAKERS: Mapping[Kind, str] = {
    "person": "user",
    "answer": "agent",
    "call": "call of {tool}",
    "result": "result of {tool}",
}
_PARTNERS: Mapping[Kind, str] = {
    "person": "asked",
    "answer": "answered",
    "call": "the call",
    "result": "the result",
}


def format_head(passage: RecalledPassage, time: str) -> str:
    """Return on one line which session a passage is of, whose it is, and when it was added."""
    speaker = _SPEAKERS[passage.kind].format(tool=passage.tool)
    is_readable = passage.call_id and not passage.where.startswith("sub-agent")
    handle = f"handle {passage.call_id}" if is_readable else ""
    parts = (passage.where, speaker, handle, f"step {passage.seq}", time)
    return ", ".join(filter(None, parts))


def format_passage(passage: RecalledPassage) -> str:
    """Return the text of a passage, with a mark where it is cut."""
    begin = "..." if passage.start else ""
    end = f"... (goes on: {passage.rest} of {passage.size:,} characters)" if passage.rest else ""
    return f"{begin}{_SPACES.sub(_narrow, passage.text.strip())}{end}"


def format_neighbour(passage: RecalledPassage) -> str:
    """Return what belongs to a passage on one line; empty if there is nothing."""
    near = passage.neighbour
    return "" if near is None else f"{_PARTNERS[near.kind]}: {near.text}"


def _narrow(gap: re.Match[str]) -> str:
    return "\n\n" if gap[0][0] == "\n" else " "
