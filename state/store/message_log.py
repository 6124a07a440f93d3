"""Stores the logs of messages. Knows their numbers, and which messages are written."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from ..calls import PendingCall
from ..conversation.content import Attachment
from ..conversation.messages import (
    Message,
    ToolResult,
    ToolUse,
    assistant_message,
    parse_json_object,
    runtime_message,
    tool_message,
)
from ..conversation.transcript import Log, Transcript, TranscriptRange
from ..databases.chain import Entry, find_next_number, list_quarantined_places, list_rows
from ..databases.damaged_values import encode_value
from ..databases.database import Database
from ..errors import make_damage_error
from .deltas import encode_message, parse_message
from .files.contents import make_content_reader
from .recording import list_message_rows

_TEXT = "(A record of this session was damaged on disk. The text that was here is lost.)"


def fill_gaps(
    messages: Sequence[Message | None], before: Sequence[Message], pending: Sequence[PendingCall]
) -> list[Message]:
    """Return `messages` with a stand-in in place of each None.

    `before` are the messages before them, `pending` the calls without a result after the last message.
    """
    whole = list(before)
    for place, message in enumerate(messages):
        is_last = place == len(messages) - 1
        if message is not None:
            whole.append(message)
        elif is_last and pending and not _is_asked(whole, pending):
            whole.append(_make_request([(call.call_id, call.tool) for call in pending]))
        else:
            whole.append(_make_stand_in(whole, messages[place + 1 :], pending))
    return whole[len(before) :]


def is_stand_in(message: Message | None) -> bool:
    """Return whether a message that requests calls is a stand-in for a damaged message."""
    return message is not None and message.origin == "runtime" and bool(message.tool_uses)


def _is_asked(before: Sequence[Message], pending: Sequence[PendingCall]) -> bool:
    """Return whether an earlier message requested the pending calls, so that some of its calls have
    results.
    """
    return {call.call_id for call in pending} <= {use.call_id for use in _find_unanswered(before)}


def _make_stand_in(
    before: Sequence[Message], after: Sequence[Message | None], pending: Sequence[PendingCall]
) -> Message:
    unanswered = _find_unanswered(before)
    answered = {result.call_id for result in _find_leading_results(after)} | {
        call.call_id for call in pending
    }
    missing = [use for use in unanswered if use.call_id not in answered]
    if missing:
        return _make_lost_result(missing[0])
    asked = {use.call_id for use in unanswered}
    orphans = [result for result in _find_leading_results(after) if result.call_id not in asked]
    if orphans:
        return _make_request([(result.call_id, result.tool) for result in orphans])
    if before and before[-1].role == "user":
        return assistant_message(_TEXT, "runtime")
    return runtime_message(_TEXT)


def _find_unanswered(before: Sequence[Message]) -> list[ToolUse]:
    """Return the calls of the newest model message that have no result."""
    done: set[str] = set()
    for message in reversed(before):
        done |= {result.call_id for result in message.tool_results}
        if message.role != "tool":
            return [use for use in message.tool_uses if use.call_id not in done]
    return []


def _find_leading_results(after: Sequence[Message | None]) -> list[ToolResult]:
    """Return the tool results that follow directly. Damaged messages between them are skipped."""
    found: list[ToolResult] = []
    for message in after:
        if message is None:
            continue
        if message.role != "tool":
            break
        found += message.tool_results
    return found


def _make_request(calls: Sequence[tuple[str, str]]) -> Message:
    uses = tuple(ToolUse(call_id=call_id, tool=tool, arguments="{}") for call_id, tool in calls)
    return Message(role="assistant", origin="runtime", blocks=uses)


def _make_lost_result(use: ToolUse) -> Message:
    content = "The record of this result was damaged on disk. Verify the effect before you repeat the call."
    return tool_message(ToolResult(call_id=use.call_id, tool=use.tool, outcome="unknown", content=content))


class SessionLogs:
    """The logs of one session. The logs of its ancestors are read-only."""

    def __init__(self, database: Database, session_id: str) -> None:
        self._database = database
        self._session_id = session_id
        self._logs: WeakValueDictionary[tuple[str, int], Log] = WeakValueDictionary()
        self._growing: dict[tuple[str, int], Log] = {}
        """The logs with messages that are not on disk. Other logs exist while a history needs them."""
        self._digests: WeakKeyDictionary[Log, list[bytes]] = WeakKeyDictionary()
        """For each log, a digest of its rows up to each message."""
        self._encoded: list[tuple[Log, str]] = []
        """The rows that will be written next, as JSON, with their log."""
        self.is_unchecked = False
        """Whether the records have not been checked since the last run ended."""
        self._next_number = find_next_number(database, "messages", session_id, "log")

    def name_log(self, span: TranscriptRange) -> tuple[str, int]:
        """Return the log's name in the store. A new log gets a name."""
        log = span.log
        if log.session_id is None or log.number is None:
            log.session_id, log.number = self._session_id, self._next_number
            self._next_number += 1
        name = log.session_id, log.number
        self._logs.setdefault(name, log)
        if log.saved < len(log.messages):
            self._growing[name] = log
        return name

    def log(self, session_id: str, number: int) -> Log:
        """Return a known log, or a new reference to a log without loaded messages."""
        log = self._logs.get((session_id, number))
        if log is None:
            log = self._logs[session_id, number] = Log(session_id, number)
            log.sealed = session_id != self._session_id
        return log

    def load(self, transcript: Transcript, pending: Sequence[PendingCall] = ()) -> None:
        """Load the messages of every span from the store, with stand-ins for damaged messages.

        `pending` are the calls that the last message, not counting results, requests.
        """
        for log, _, end in transcript.spans:
            if len(log.messages) < end:
                is_last = log is transcript.spans[-1].log
                self._extend(log, end, pending if is_last else ())

    def require_checked(self) -> None:
        """Raise `DamagedRecords` if the records were not checked when the session was opened."""
        if self.is_unchecked:
            raise make_damage_error(self._session_id)

    @property
    def are_whole(self) -> bool:
        """Return whether no message of the session itself is quarantined."""
        return not list_quarantined_places(self._database, self._session_id, "messages")

    def seal(self) -> None:
        """Seal every known log, because the rows after its end belong to steps that do not count."""
        for log in self._logs.values():
            log.sealed = True

    def _extend(self, log: Log, end: int, pending: Sequence[PendingCall]) -> None:
        start = len(log.messages)
        assert log.session_id is not None
        assert log.number is not None
        name = log.session_id, log.number
        if not start:
            self._digests.pop(log, None)
        contents = make_content_reader(self._database)
        there: dict[int, Message | None] = {}
        for position, body in list_message_rows(self._database, *name, start, end):
            self._extend_digest(log, body)
            there[position] = parse_message(body, contents)
        found = [there.get(index) for index in range(start, end)]
        is_whole = None not in found
        if not is_whole:
            self.require_checked()
        for message in cast(list[Message], found) if is_whole else fill_gaps(found, log.messages, pending):
            log.append(message)
        log.saved = len(log.messages)

    def list_unsaved_rows(self) -> list[Entry]:
        """Return a row for every message that is not on disk."""
        self._encoded.clear()
        rows: list[Entry] = []
        for (_, number), log in self._growing.items():
            for idx in range(log.saved, len(log.messages)):
                body = encode_message(log.messages[idx])
                self._encoded.append((log, body))
                rows.append(Entry("messages", (number, idx, body)))
        return rows

    def list_unsaved_files(self) -> list[Attachment]:
        """Return the attachments of the messages that are not on disk."""
        return [
            file
            for log in self._growing.values()
            for message in log.messages[log.saved :]
            for file in message.files
        ]

    def mark_saved(self) -> None:
        for log in self._growing.values():
            log.saved = len(log.messages)
        self._growing.clear()
        for log, body in self._encoded:
            self._extend_digest(log, body)
        self._encoded.clear()

    def _extend_digest(self, log: Log, body: str) -> None:
        digests = self._digests.setdefault(log, [])
        whole = (digests[-1] if digests else b"") + encode_value(body)
        digests.append(blake2b(whole, digest_size=20).digest())

    def digest_history(self, history: Transcript) -> bytes:
        """Return a digest of the rows of a history."""
        parts: list[bytes] = []
        for log, start, end in history.spans:
            assert log.session_id is not None
            assert log.number is not None
            digests = self._digests.get(log, [])
            last = digests[end - 1] if 0 < end <= len(digests) else b""
            parts.append(b"%b %d %d %d %b" % (log.session_id.encode(), log.number, start, end, last))
        return blake2b(b"\n".join(parts), digest_size=20).digest()


MOST_CALLS = 20
_MOST_CHARS = 400


def list_calls_after(database: Database, session_id: str, seq: int) -> tuple[str, ...]:
    """Return the calls that were started after step `seq`, as `tool arguments`, without its pending calls."""
    rows = database.query("SELECT record FROM steps WHERE session_id = ? AND seq = ?", (session_id, seq))
    if not rows:
        return ()
    after = ("record > ?", (int(rows[0][0]),))
    # Damaged rows count, too, because these calls may have happened.
    calls = list_rows(database, "calls", session_id, ("call_id", "move", "body"), *after)
    started = [(call_id, body) for _, call_id, move, body in calls if move == "started"]
    arguments: dict[str, str] = {}
    for *_, body in list_rows(database, "messages", session_id, ("body",), *after):
        if (message := parse_message(body)) is not None:
            arguments |= {use.call_id: use.arguments for use in message.tool_uses}
    # A call that the step waits for was proposed before the step. Its own record settles it.
    lost = [(call_id, body) for call_id, body in started if call_id in arguments]
    found = {call_id: _describe_call(body, arguments[call_id]) for call_id, body in lost}
    return tuple(found.values())[:MOST_CALLS]


def make_lost_note(calls: tuple[str, ...]) -> str:
    calls_text = "\n".join(f"- {call}" for call in calls)
    return (
        "A part of this conversation was damaged on disk and is left out. In it these calls had been started;"
        f" they may or may not have taken effect. Verify before you repeat any of them:\n{calls_text}"
    )


def _describe_call(body: str, arguments: str) -> str:
    tool = (parse_json_object(body) or {}).get("tool", "a call")
    return f"{tool} {arguments}"[:_MOST_CHARS]
