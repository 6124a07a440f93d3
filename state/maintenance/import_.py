"""Imports an exported session. Everything is checked before anything is written, and approvals are
dropped.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from datetime import datetime
from itertools import count
from typing import Any, BinaryIO, NamedTuple, TypeGuard, cast

from pydantic import ValidationError

from ..conversation.messages import parse_json_object
from ..databases.chain import Chain, Entry, digest_of, format_row_key, insert_row, make_first_digest
from ..databases.database import Database, Statement
from ..databases.schema import CHAINED
from ..errors import UsageError
from ..lazy_dataclass import dataclass
from ..process.clock import now
from ..session import SessionSettings, WaitingMessage
from ..store.deltas import PATCH
from ..store.files.contents import insert_chunk, insert_uses
from ..store.recording import list_attachments
from ..store.seals import CHANGED, find_broken_seals, insert_seals, parse_seals, write_marks
from ..store.sessions.inbox import insert_imported
from ..store.sessions.listing import STATUSES
from ..store.sessions.session_rows import delete_rows, insert_head, insert_session
from ..store.sessions.settings_proof import record_settings
from ..trace import SessionImported
from .export import BadLine, ExportedRecord, ExportFile, SessionPart, parse_chained_row, parse_content_chunk

_BATCH_BYTES = 4_000_000
_MAX_CONTENT_BYTES = 1_000_000_000
_MOST = 10**12
"""A limit that no number in a session reaches, so that every database can count on from any number."""
_MOST_ELEMENTS = 100_000
_TEXTS = ("title", "status", "created_at", "chain")
_QUARANTINED = {"source": 16, "place": 255, "at": 32, "reason": 255}
"""Maps a column to its largest number of characters."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    session_id: str
    title: str
    settings: SessionSettings
    records: int
    imported_ids: tuple[str, ...]
    """The imported sessions, ancestors first."""
    sub_agents: int = 0
    """How many of them are sessions of sub-agents."""
    waiting: tuple[WaitingMessage, ...] = ()
    """The messages that are sent when the session continues."""
    commands: tuple[WaitingMessage, ...] = ()
    """The messages that are not imported, because they look like commands: only a person may type a
    command.
    """


class _CheckedSession(NamedTuple):
    settings: SessionSettings
    next_trace: int


@dataclass(frozen=True, slots=True)
class CheckedImport:
    """A valid export that is not written yet."""

    export: ExportFile
    sessions: dict[str, _CheckedSession]
    new: tuple[str, ...]
    """The sessions that are not in the store yet, ancestors first."""

    @property
    def file_settings(self) -> SessionSettings:
        """Return the settings of the exported session, as in the file."""
        return self.sessions[self.export.session_id].settings

    @property
    def result(self) -> ImportResult:
        """Return the result that writing the import will have."""
        last, found = self.export.sessions[self.export.session_id], self.export.session_id
        waiting = [one for name in self.new for one in self.export.sessions[name].waiting.values()]
        messages = tuple(one for one in waiting if not is_command_like(one))
        commands = tuple(one for one in waiting if is_command_like(one))
        sub_agents = sum(self.find_parent(name) is not None for name in self.new)
        return ImportResult(
            found,
            last.head["title"],
            self.file_settings,
            len(last.rows),
            self.new,
            sub_agents,
            messages,
            commands,
        )

    def find_parent(self, name: str) -> str | None:
        """Return the session of the file whose sub-agent this one is. A session that is not in the file does
        not get a sub-agent from it.
        """
        by = self.sessions[name].settings.spawned_by
        return by.session_id if by is not None and by.session_id in self.sessions else None


def is_command_like(message: WaitingMessage) -> bool:
    """Return whether a message looks like a chat command, which another person would have written."""
    return message.message is None and message.text.lstrip().startswith(("/", "!"))


def check_import(
    database: Database, file: BinaryIO, watch: Callable[[int, int], object] = lambda number, total: None
) -> CheckedImport:
    """Read an export and check all of it. Raises `UsageError` if it is not valid.

    `watch` is called before each record is checked, with its number and the number of all records.
    """
    export = ExportFile(file)
    references = _References(tuple(export.sessions))
    total = sum(len(part.rows) for part in export.sessions.values())
    numbers = count(1)
    checked = {
        name: _check_session(database, export, name, part, references, lambda: watch(next(numbers), total))
        for name, part in export.sessions.items()
    }
    references.require_messages()
    new = (name for name, part in export.sessions.items() if not _is_here(database, export, name, part))
    return CheckedImport(export, checked, tuple(new))


def write_import(database: Database, tenant: str, checked: CheckedImport, by: str = "") -> ImportResult:
    """Write the session with its missing ancestors and sub-agents. The modes, folders and approvals of the
    other machine are dropped.
    """
    confirmed = checked.file_settings.allow
    for name in checked.new:
        found = checked.sessions[name]
        head = checked.export.sessions[name].head
        ours: dict[str, Any] = {"mode": "interactive", "add_dirs": (), "imported_seq": head["last_seq"]}
        # The person saw the rules of the exported session alone.
        ours["allow"] = tuple(rule for rule in found.settings.allow if rule in confirmed)
        if checked.find_parent(name) is None:
            ours["spawned_by"] = None
        settings = found.settings.model_copy(update=ours)
        recorded = record_settings(settings, tenant, (head["parent_id"], head["parent_seq"]))
        taken = SessionImported(by=by, settings_sha256=settings.digest, settings=recorded)
        body = taken.model_dump_json(exclude={"kind"})
        note = Entry("traces", (found.next_trace, head["last_seq"], taken.kind, now(), body))
        _write(database, tenant, checked.export, name, settings, [note])
    return replace(checked.result, settings=checked.file_settings.model_copy(update={"add_dirs": ()}))


def import_recording(database: Database, tenant: str, file: BinaryIO) -> str:
    """Import a session exactly as it was recorded, only for reading. Return its id."""
    checked = check_import(database, file)
    for name in checked.new:
        _write(database, tenant, checked.export, name, checked.sessions[name].settings, [])
    return checked.export.session_id


def _check_session(
    database: Database,
    export: ExportFile,
    name: str,
    part: SessionPart,
    references: _References,
    watch: Callable[[], object],
) -> _CheckedSession:
    """Check the hash chain of a session from its first row to its head. Call `watch` before each row."""
    number, head = part.place.number, part.head
    settings = _check_head(export, name, part)
    damaged = {(record.get("source"), record.get("place")) for record in part.quarantine}
    digest, traces, settings_sha256 = make_first_digest(name), 0, ""
    for record in range(len(part.rows)):
        watch()
        place = part.rows[record]
        table, values, own = parse_chained_row(place.number, export.read(place))
        if digest_of(digest, table, values) == own:
            references.note(place.number, name, table, values)
        elif (table, format_row_key(table, values)) not in damaged:
            raise BadLine(place.number, "is damaged: its digest does not match")
        if any(isinstance(value, int) and not -1 <= value < _MOST for value in values):
            raise BadLine(place.number, "has a number that is not valid")
        if table == "traces":
            traces = max(traces, values[0] + 1)
            settings_sha256 = _find_settings_digest(values[-1]) or settings_sha256
        digest = own
    if digest != head["chain"]:
        raise BadLine(number, "does not match the last record of its session")
    _check_seals(database, export, name, part)
    if settings_sha256 and settings_sha256 != settings.digest:
        raise BadLine(number, "has other settings than its last run")
    for sha256 in part.contents:
        _check_content(export, part, sha256)
    return _CheckedSession(settings, traces)


def _check_seals(database: Database, export: ExportFile, name: str, part: SessionPart) -> None:
    """Raise `BadLine` if records were changed after this machine's key sealed them."""
    seals = parse_seals(part.head.get("seals", []))
    if seals is None or any(seal.records > len(part.rows) for seal in seals):
        raise BadLine(part.place.number, "has seals that are not valid")
    ends = {seal.records - 1: part.rows[seal.records - 1] for seal in seals if seal.records}
    digests = {n: parse_chained_row(place.number, export.read(place))[2] for n, place in ends.items()}
    end = Chain(len(part.rows), part.head["chain"])
    if any(broken.problem == CHANGED for broken in find_broken_seals(database, name, end, seals, digests)):
        raise BadLine(part.place.number, "differs from the records that this machine's key sealed")


def _find_settings_digest(trace: str) -> str:
    """Return the digest of the settings in a trace record; empty if it has none."""
    found = parse_json_object(trace) if '"settings_sha256"' in trace else None
    return str((found or {}).get("settings_sha256", ""))


def _check_head(export: ExportFile, name: str, part: SessionPart) -> SessionSettings:
    """Return the settings. Raises `BadLine` if anything in the head is not valid."""
    number, head = part.place.number, part.head
    has_texts = all(isinstance(head.get(text), str) for text in _TEXTS)
    if not has_texts or name != name.strip() or name.startswith("-") or not _is_time(head["created_at"]):
        raise BadLine(number, "is not a valid session record")
    if head["status"] not in STATUSES:
        raise BadLine(number, "has a status that this version does not know")
    records = head.get("records")
    if not _is_count(records) or sorted(part.rows) != list(range(min(records, len(part.rows) + 1))):
        raise BadLine(number, f"declares {records!r:.40} records of its session, but some are missing")
    _check_place(export, name, part)
    columns = [(found.get(name), size) for found in part.quarantine for name, size in _QUARANTINED.items()]
    if not all(_fits(value, size) for value, size in columns):
        raise BadLine(number, "has quarantine records that are not valid")
    try:
        return SessionSettings.model_validate(head.get("settings"))
    except ValidationError:
        raise BadLine(number, "has settings that this version cannot read") from None


def _check_place(export: ExportFile, name: str, part: SessionPart) -> None:
    """Raise `BadLine` if the parent does not precede this session in the file, or if its steps are
    not valid.
    """
    head, names = part.head, list(export.sessions)
    parent, seq, last = head.get("parent_id"), head.get("parent_seq"), head.get("last_seq")
    first = -1
    if parent is not None or seq is not None:
        if parent not in names[: names.index(name)]:
            raise BadLine(part.place.number, "was forked from a session that does not precede it in the file")
        if not _is_count(seq) or seq > export.sessions[parent].head["last_seq"]:
            raise BadLine(part.place.number, "was forked from a step that its parent does not have")
        first = seq
    # Quarantined rows are not in the chain any more, and may have had their own step numbers.
    if not (_is_count(last) or last == -1) or not first <= last <= first + len(part.rows) + len(
        part.quarantine
    ):
        raise BadLine(part.place.number, "has a last step that is not valid")


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _is_time(text: str) -> bool:
    try:
        return len(text) <= 32 and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def _fits(value: Any, size: int) -> bool:
    return isinstance(value, str) and len(value) <= size and "\0" not in value


_LogName = tuple[str, int]
"""The id of a session, and the number of one of its logs."""


@dataclass(slots=True)
class _References:
    """The messages to which the steps of a file refer. They must not be messages of another session."""

    names: tuple[str, ...]
    _ends: dict[tuple[str, int], tuple[int, int]] = field(
        default_factory=dict[tuple[str, int], tuple[int, int]]
    )
    """The end of the longest span of each log, and the line that contains it."""
    _messages: dict[_LogName, int] = field(default_factory=dict[_LogName, int])

    def note(self, number: int, name: str, table: str, values: Sequence[Any]) -> None:
        """Check a row. Raises `BadLine` for a reference that is not valid."""
        if table == "messages":
            log = name, values[0]
            self._messages[log] = max(self._messages.get(log, 0), values[1] + 1)
        if table != "steps":
            return
        for inner in _walk_objects(parse_json_object(values[-1]) or {}):
            if not _is_patch(inner):
                raise BadLine(number, "changes too many elements")
            history = inner.get("chat_history")
            if not isinstance(history, list | None):
                raise BadLine(number, "has message references that are not valid")
            for span in cast("list[Any] | None", history) or ():
                self._note_span(number, span)

    def _note_span(self, number: int, span: Any) -> None:
        whole = cast(list[Any], span) if isinstance(span, list) else []
        owner, log, start, end = whole if len(whole) == 4 else ("", -1, 0, 0)
        counts = all(_is_count(value) for value in (log, start, end))
        if not isinstance(owner, str) or owner not in self.names or not counts or start > end:
            raise BadLine(number, "has message references that are not valid")
        if end > self._ends.get((owner, log), (0, 0))[0]:
            self._ends[owner, log] = end, number

    def require_messages(self) -> None:
        """Raise `BadLine` if a span ends after the last message of its log."""
        for log, (end, number) in self._ends.items():
            if end > self._messages.get(log, 0):
                raise BadLine(number, "refers to messages that are missing")


def _walk_objects(fields: ExportedRecord) -> Iterator[ExportedRecord]:
    """Yield every object in the fields of a step, except those inside histories."""
    waiting: list[Any] = [fields]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield cast(ExportedRecord, value)
            waiting += (
                inner for name, inner in cast(ExportedRecord, value).items() if name != "chat_history"
            )
        elif isinstance(value, list):
            waiting += cast(list[Any], value)


def _is_patch(value: ExportedRecord) -> bool:
    """Return False if `value` is the patch of a list and has invalid indexes."""
    if PATCH not in value:
        return True
    elements, length = value[PATCH], value.get("length")
    if not isinstance(elements, dict) or not _is_count(length) or length > _MOST_ELEMENTS:
        return False
    names = cast(ExportedRecord, elements)
    return all(name.isdecimal() and len(name) < 9 and int(name) < length for name in names)


def _check_content(export: ExportFile, part: SessionPart, sha256: str) -> None:
    """Unpack a content up to the size that its chunks declare, and compare its digest."""
    unpacker, total, size = zlib.decompressobj(), hashlib.sha256(), 0
    number = part.contents[sha256][0].number
    try:
        for place in part.contents[sha256]:
            number = place.number
            chunk, whole, packed = parse_content_chunk(number, export.read(place))
            left = min(whole, _MAX_CONTENT_BYTES) - size
            # With a limit of 0, the unpacker would have no limit.
            if left < 0 or not _is_count(chunk):
                raise BadLine(number, "has a file content with a size that is not valid")
            piece = unpacker.decompress(packed, left + 1)
            size += len(piece)
            total.update(piece)
    except zlib.error:
        raise BadLine(number, "has a file content that cannot be unpacked") from None
    if total.hexdigest() != sha256:
        raise BadLine(number, "has a file content that does not match its digest")


def _is_here(database: Database, export: ExportFile, name: str, part: SessionPart) -> bool:
    """Return whether the session is in the store already. Raises `UsageError` if it cannot be imported."""
    if not database.query("SELECT 1 FROM sessions WHERE id = ?", (name,)):
        return False
    if name == export.session_id:
        raise UsageError(f"A session {name} exists already.", f"Continue it: sandbur -r {name}")
    last = len(part.rows) - 1
    for table in CHAINED:
        rows = database.query(f"SELECT digest FROM {table} WHERE session_id = ? AND record = ?", (name, last))
        if rows and rows[0][0] == part.head["chain"]:
            return True
    raise UsageError(
        f"The session {name}, which belongs to this one, is in the store, but with other records.",
        "Import into another store with --store.",
    )


def _write(
    database: Database,
    tenant: str,
    export: ExportFile,
    name: str,
    settings: SessionSettings,
    more: Sequence[Entry],
) -> None:
    """Write the rows in batches, and then `more`. The last commit creates the session."""
    part = export.sessions[name]
    batch, size = delete_rows(name), 0
    for statement in _list_statements(export, name, part):
        batch.append(statement)
        size += sum(len(value) for value in statement[1] if isinstance(value, str | bytes))
        if size > _BATCH_BYTES:
            database.commit(batch)
            batch, size = [], 0
    head = part.head
    end, added = Chain(len(part.rows), head["chain"]).link(name, more)
    batch += added
    parent = head["parent_id"], head["parent_seq"]
    batch += insert_session(name, tenant, settings, parent, head["created_at"])
    status = "interrupted" if head["status"] == "running" else head["status"]
    title = head["title"].replace("\0", "")
    batch.append(insert_head(name, title, status, head["last_seq"], end, tenant, settings))
    for one in part.waiting.values():
        if not is_command_like(one):
            batch += insert_imported(name, one)
    batch += insert_seals(database, name, parse_seals(head.get("seals", [])) or [], len(part.rows), end)
    database.commit(batch)
    write_marks(database, name, end.records)


def _list_statements(export: ExportFile, name: str, part: SessionPart) -> Iterator[Statement]:
    for record, place in sorted(part.rows.items()):
        table, values, digest = parse_chained_row(place.number, export.read(place))
        yield insert_row(table, (name, *values, record, digest))
        if table == "messages":
            yield from insert_uses(name, list_attachments(values[-1]))
    for found in part.quarantine:
        yield insert_row("quarantine", (name, *(found[column] for column in _QUARANTINED)))
    for sha256, places in part.contents.items():
        for place in places:
            chunk, size, packed = parse_content_chunk(place.number, export.read(place))
            yield insert_chunk(name, sha256, chunk, size, packed)
