"""The messages of a session since it was last read: excerpts with their origin, in chunks for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from ....state.conversation.attached_texts import split_person_text
from ....state.conversation.messages import Message
from ....state.databases.database import Database
from ....state.memory.facts import make_message_id
from ....state.store.recording import RecordedMessage, list_messages
from ..memory.memory_tool import NAME as MEMORY_TOOL

_MOST_EXCERPT_CHARS = 6_000
_TAIL_CHARS = 2_000

ExcerptKind = Literal["person", "model", "tool"]
"""Who wrote an excerpt. Files that a person attached count as `tool`: somebody else may have written them."""


class Excerpt(NamedTuple):
    """A text of a session."""

    kind: ExcerptKind
    text: str
    origin: str
    """The id of the call with the text as its result, or of the message; see `make_message_id`."""
    label: str
    """What a model reads before the text."""
    row: int
    """The number of the record of its message in the session."""


class ExcerptChunk(NamedTuple):
    """Passages that are given to a model together."""

    excerpts: tuple[Excerpt, ...]
    end: int
    """The number of the first record after them."""


def read_excerpts(
    database: Database, session_id: str, since: int, end: int, mask: Callable[[str], str]
) -> list[Excerpt]:
    """Return the excerpts of a session's own messages in the records from `since` up to, without, `end`.

    Messages that Sandbur wrote itself and results of the memory tool are left out, long texts are cut, and
    secrets are masked.
    """
    found = [one for one in list_messages(database, session_id, since) if one.row < end]
    return [
        excerpt._replace(text=_shorten(mask(excerpt.text)))
        for recorded in sorted(found, key=lambda one: one.row)
        if recorded.message is not None
        for excerpt in _split_message(recorded, recorded.message)
        if excerpt.text.strip()
    ]


def split_chunks(excerpts: Sequence[Excerpt], most_chars: int, end: int) -> Iterator[ExcerptChunk]:
    """Yield the excerpts in chunks of at most `most_chars` characters, if single messages have fewer.

    A chunk ends between two messages, so that `end` of a chunk says what was read. The last one ends at
    `end`.
    """
    chunk: list[Excerpt] = []
    size = 0
    for message in _group_by_message(excerpts):
        added = sum(len(excerpt.text) for excerpt in message)
        if chunk and size + added > most_chars:
            yield ExcerptChunk(tuple(chunk), message[0].row)
            chunk, size = [], 0
        chunk += message
        size += added
    if chunk:
        yield ExcerptChunk(tuple(chunk), end)


def _group_by_message(excerpts: Sequence[Excerpt]) -> Iterator[list[Excerpt]]:
    message: list[Excerpt] = []
    for excerpt in excerpts:
        if message and message[-1].row != excerpt.row:
            yield message
            message = []
        message.append(excerpt)
    if message:
        yield message


def _split_message(recorded: RecordedMessage, message: Message) -> Iterator[Excerpt]:
    """Yield the excerpts of one message."""
    origin = make_message_id(recorded.log, recorded.position)
    if message.origin == "person":
        text = split_person_text(message.text)
        yield Excerpt("person", text.own, origin, "the person", recorded.row)
        yield Excerpt("tool", text.skill, origin, "text of a skill", recorded.row)
        for file in text.files:
            yield Excerpt("tool", file, origin, "file", recorded.row)
    elif message.origin == "model":
        yield Excerpt("model", message.text, origin, "the assistant", recorded.row)
    for result in message.tool_results:
        if result.tool != MEMORY_TOOL and not result.put_away:
            label = f"output of {result.tool}"
            yield Excerpt("tool", result.content, result.call_id, label, recorded.row)


def _shorten(text: str) -> str:
    if len(text) <= _MOST_EXCERPT_CHARS:
        return text
    head = _MOST_EXCERPT_CHARS - _TAIL_CHARS
    return f"{text[:head]}\n[...]\n{text[-_TAIL_CHARS:]}"
