"""Append-only histories. Copying and appending cost the same at any length."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, Self, cast

from pydantic import GetCoreSchemaHandler, SerializationInfo, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from .messages import Message


class Log:
    """The list of messages that transcripts share. Messages are only appended to it."""

    __slots__ = ("__weakref__", "ends", "messages", "number", "saved", "sealed", "session_id")

    def __init__(self, session_id: str | None = None, number: int | None = None) -> None:
        self.session_id = session_id
        """The session that owns the log; None until a store has stored it."""
        self.number = number
        self.messages: list[Message] = []
        self.ends: list[int] = [0]
        """`ends[i]` is the size in bytes of the first `i` messages."""
        self.saved = 0
        """The number of stored messages."""
        self.sealed = False
        """Whether the log belongs to another session. A fork reads such a log, and appends to a new one."""

    def append(self, message: Message) -> None:
        self.messages.append(message)
        self.ends.append(self.ends[-1] + message.size_bytes)


class TranscriptRange(NamedTuple):
    log: Log
    start: int
    end: int

    @property
    def is_loaded(self) -> bool:
        return len(self.log.messages) >= self.end


class LogBook(Protocol):
    """The names of logs in a store, which transcripts need to be stored as references."""

    def name_log(self, span: TranscriptRange) -> tuple[str, int]: ...
    def log(self, session_id: str, number: int) -> Log: ...


class Transcript:
    """An immutable view of messages. `append` returns a new view that shares the old messages."""

    __slots__ = ("_length", "spans")

    def __init__(self, spans: Sequence[TranscriptRange] = ()) -> None:
        self.spans = tuple(spans)
        self._length = sum(span.end - span.start for span in self.spans)

    @classmethod
    def of(cls, *messages: Message) -> Self:
        return cls().append(*messages)

    def append(self, *messages: Message) -> Self:
        """Return a longer view. If this view is not the newest of its log, the messages go to a new log."""
        if not messages:
            return self
        *head, last = self.spans or (TranscriptRange(Log(), 0, 0),)
        log, start, end = last
        if log.sealed or end != len(log.messages):
            head.append(last)
            log, start = Log(), 0
        for message in messages:
            log.append(message)
        return type(self)((*head, TranscriptRange(log, start, len(log.messages))))

    def append_in_new_log(self, *messages: Message) -> Self:
        """Return a longer view whose new messages are in a new log. If the view is dropped, nothing of it
        remains.
        """
        return type(self)((*self.spans, *self.of(*messages).spans)) if messages else self

    def compact(self, summary: Message, keep_last: int, lasting: Sequence[Message] = ()) -> Self:
        """Return a view of `summary`, the messages in `lasting`, and the last `keep_last` messages.

        No message is deleted.
        """
        newest = self.part(max(len(self) - keep_last, 0))
        return type(self)((*self.of(summary, *lasting).spans, *newest.spans))

    def part(self, first: int, end: int | None = None) -> Self:
        """Return a view of the messages from index `first` up to, but not including, `end` (None: up to the
        last).
        """
        spans: list[TranscriptRange] = []
        begin = 0
        for log, start, stop in self.spans:
            skipped = max(first - begin, 0)
            length = stop - start if end is None else min(end - begin, stop - start)
            if skipped < length:
                spans.append(TranscriptRange(log, start + skipped, start + length))
            begin += stop - start
        return type(self)(spans)

    def unload(self) -> Self:
        """Return a view that only refers to the store, so that the memory of the messages can be freed."""
        if any(span.log.number is None for span in self.spans):
            return self
        spans = [TranscriptRange(Log(s.log.session_id, s.log.number), s.start, s.end) for s in self.spans]
        return type(self)(spans)

    @property
    def size_bytes(self) -> int:
        return sum(log.ends[end] - log.ends[start] for log, start, end in self.spans)

    @property
    def last(self) -> Message | None:
        for log, start, end in reversed(self.spans):
            if end > start:
                return log.messages[end - 1]
        return None

    def __iter__(self) -> Iterator[Message]:
        for span in self.spans:
            if not span.is_loaded:
                raise LookupError("this history is only in the store; read it from the store")
            yield from islice(span.log.messages, span.start, span.end)

    def __reversed__(self) -> Iterator[Message]:
        for log, start, end in reversed(self.spans):
            for index in range(end - 1, start - 1, -1):
                yield log.messages[index]

    @property
    def requesting_message(self) -> Message | None:
        """Return the last message that is not a tool result. It requested the pending calls."""
        return next((message for message in reversed(self) if message.role != "tool"), None)

    def __len__(self) -> int:
        return self._length

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object] | None = None) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        return self.spans == other.spans or list(self) == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            _validate,
            serialization=core_schema.plain_serializer_function_ser_schema(_serialize, info_arg=True),
        )


def _serialize(value: Transcript, info: SerializationInfo) -> list[Any]:
    """Return references if the context has a `log_book`, otherwise the messages themselves."""
    book = _find_log_book(info.context)
    if book is None:
        return [message.model_dump(mode="json") for message in value]
    return [[*book.name_log(span), span.start, span.end] for span in value.spans]


def _validate(value: Any, info: ValidationInfo) -> Transcript:
    if isinstance(value, Transcript):
        return value
    book = _find_log_book(info.context)
    if book is None:
        return Transcript.of(*(Message.model_validate(item) for item in value))
    return Transcript(
        [
            TranscriptRange(book.log(session_id, number), start, end)
            for session_id, number, start, end in value
        ]
    )


def _find_log_book(context: Any) -> LogBook | None:
    return cast(dict[str, LogBook], context or {}).get("log_book")
