"""Exports a session as JSON records, one per line. An import restores all of them."""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, BinaryIO, NamedTuple, cast, get_args

from ..conversation.messages import encodable
from ..databases.chain import WHOLE_ROWS, list_rows
from ..databases.database import Database
from ..databases.schema import CHAINED, CHANGED_AT, INTEGERS, READABLE_EXPORTS, SCHEMA_VERSION
from ..errors import SessionNotFound, UsageError
from ..lazy_dataclass import dataclass
from ..session import InboxKind, WaitingMessage
from ..store.files.contents import BEFORE_AT, USED_CONTENTS
from ..store.integrity import AFTER_THE_END
from ..store.seals import export_seals, load_head_with_seals
from ..store.sessions.family import list_descendants
from ..store.sessions.inbox import MOST_CHARS, Inbox, dump_blocks, parse_blocks
from ..store.sessions.listing import load_lineage
from ..store.sessions.session_rows import parse_settings

FORMAT = 1
TABLES = {
    "step": "steps",
    "message": "messages",
    "call": "calls",
    "output": "outputs",
    "file": "files",
    "trace": "traces",
}
"""Maps the kind of a record to its table."""

ExportedRecord = dict[str, Any]


def export_session(
    database: Database, session_id: str, with_sub_agents: bool = True
) -> Iterator[ExportedRecord]:
    """Yield the records of an export: the version, the sessions of the sub-agents, every session of the
    lineage, and the stored contents.
    """
    # The import writes in this order, so that the session itself is there last.
    family = list_descendants(database, session_id)[::-1] if with_sub_agents else []
    owners = (owner for one in (*family, session_id) for owner, _ in load_lineage(database, one))
    lineage = list(dict.fromkeys(owners))
    yield {"kind": "export", "format": FORMAT, "schema": SCHEMA_VERSION, "session_id": session_id}
    for owner in lineage:
        # Messages that a run takes after this query are in its history. The import ignores them.
        waiting = Inbox(database, owner).load(Inbox(database, owner).load_taken())
        head = _load_head(database, owner)
        yield head
        for one in waiting:
            yield _export_message(owner, one)
        for kind, table in TABLES.items():
            # Rows that a running session adds after its head was read are left out.
            rows = list_rows(database, table, owner, WHOLE_ROWS[table], "record < ?", (head["records"],))
            for row in rows:
                yield {"kind": kind, "session_id": owner, **_make_record(table, row)}
        yield from _list_quarantine(database, owner)
    for owner in lineage:
        yield from _list_contents(database, owner)


def list_texts(record: ExportedRecord) -> Iterator[str]:
    """Yield the texts in a record of an export, without the JSON around them."""
    for name in ("title", "fields", "body", "text"):
        value = record.get(name)
        if found := value if isinstance(value, str) else "\n".join(_list_strings(value)):
            yield found


def _list_strings(value: Any) -> list[str]:
    """Return every text in a JSON value."""
    found, waiting = list[str](), [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict):
            waiting += cast(ExportedRecord, one).values()
        elif isinstance(one, list):
            waiting += cast(list[Any], one)
    return found


def to_stored_text(value: Any) -> str:
    """Return the text of a JSON column from the value that `parse_if_reversible` returned."""
    return value if isinstance(value, str) else _compact(value)


def parse_if_reversible(text: str) -> Any:
    """Return the JSON value of a text if it can be converted back to the same text. Otherwise return the
    text.
    """
    try:
        value: Any = json.loads(text)
        return value if not isinstance(value, str) and _compact(value) == text else text
    except (ValueError, RecursionError):
        return text


_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def _load_head(database: Database, session_id: str) -> ExportedRecord:
    columns = ("title", "status", "created_at", "updated_at", "parent_id", "parent_seq", "last_seq",
               "records", "chain", "settings")  # fmt: skip
    values = (CHANGED_AT if column == "updated_at" else column for column in columns)
    select = f"SELECT {', '.join(values)} FROM sessions s JOIN heads h ON h.session_id = s.id WHERE s.id = ?"
    while True:
        rows = database.query(select, (session_id,))
        if not rows:
            raise SessionNotFound(
                f"There is no session {session_id!r}.", "See them with: sandbur sessions list"
            )
        head = dict(zip(columns, rows[0], strict=True))
        end, seals = load_head_with_seals(database, session_id) or (None, [])
        # While a session runs, its head and its seals must be read at the same moment.
        if end == (head["records"], head["chain"]):
            break
    settings = parse_settings(session_id, head.pop("settings"))
    record = {"kind": "session", "id": session_id, **head, "settings": settings.model_dump(mode="json")}
    return {**record, "seals": export_seals(seals)} if seals else record


def _make_record(table: str, row: Sequence[Any]) -> ExportedRecord:
    record = dict(zip((*CHAINED[table], "record", "digest"), row, strict=True))
    if table == "outputs":
        body = bytes(record.pop("body"))
        with suppress(UnicodeDecodeError):
            # An import refuses a text with NUL.
            if b"\0" not in body:
                return {**record, "text": body.decode("utf-8")}
        return {**record, "base64": base64.b64encode(body).decode()}
    for name in ("fields", "body"):
        if name in record:
            record[name] = parse_if_reversible(record[name])
    return record


def _list_quarantine(database: Database, session_id: str) -> Iterator[ExportedRecord]:
    columns = ("source", "place", "at", "reason")
    rows = database.query(
        f"SELECT {', '.join(columns)} FROM quarantine WHERE session_id = ? AND reason <> ?",
        (session_id, AFTER_THE_END),
    )
    for row in rows:
        yield {"kind": "quarantine", "session_id": session_id, **dict(zip(columns, row, strict=True))}


def _export_message(session_id: str, message: WaitingMessage) -> ExportedRecord:
    record = {"kind": "inbox", "session_id": session_id, "n": message.number, "how": message.kind}
    blocks = {} if message.message is None else {"blocks": dump_blocks(message.message)}
    return {**record, "text": message.text, **blocks}


def _list_contents(database: Database, session_id: str) -> Iterator[ExportedRecord]:
    """Yield the chunks of all contents that the session's file changes and messages refer to."""
    wanted = database.query(
        f"SELECT SUBSTR(body, {BEFORE_AT}, 64) FROM files WHERE session_id = ? UNION {USED_CONTENTS}",
        (session_id, session_id),
    )
    for (digest,) in wanted:
        chunks = database.query(
            "SELECT chunk, size, body FROM blobs WHERE digest = ? AND chunk >= 0 AND session_id ="
            " (SELECT MIN(session_id) FROM blobs WHERE digest = ? AND chunk >= 0) ORDER BY chunk",
            (digest, digest),
        )
        key = {"kind": "blob", "session_id": session_id, "digest": digest}
        for chunk, size, body in chunks:
            yield {**key, "chunk": chunk, "size": size, "base64": base64.b64encode(bytes(body)).decode()}


_MAX_LINE_BYTES = 200_000_000
_MOST_WAITING, _MOST_NUMBER = 1000, 10**9
_NO_EXPORT = "This is not an export of Sandbur."


class LinePosition(NamedTuple):
    """The number of a line, and its offset in bytes."""

    number: int
    offset: int


class BadLine(UsageError):
    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"Line {number} {problem}.", "Nothing was imported.")


@dataclass(slots=True)
class SessionPart:
    """The records of one session in the file."""

    place: LinePosition
    head: ExportedRecord
    rows: dict[int, LinePosition] = field(default_factory=dict[int, LinePosition])
    """The lines of chained rows, by their number in the chain."""
    quarantine: list[ExportedRecord] = field(default_factory=list[ExportedRecord])
    waiting: dict[int, WaitingMessage] = field(default_factory=dict[int, WaitingMessage])
    """The inbox messages that are not in a history, by their number."""
    contents: dict[str, list[LinePosition]] = field(default_factory=dict[str, list[LinePosition]])
    """Maps a SHA-256 to the lines with the chunks of the content."""


class ExportFile:
    """An export on disk. Only the positions of its lines are in memory."""

    def __init__(self, file: BinaryIO) -> None:
        """Find every line. Raises `UsageError` for a file that is not an export of a known version."""
        self._file = file
        self.sessions: dict[str, SessionPart] = {}
        """The sessions by id, the oldest ancestor first."""
        lines = self._lines()
        nothing: tuple[LinePosition, ExportedRecord] = (LinePosition(1, 0), {})
        place, first = next(lines, nothing)
        self.session_id = _check_version(first)
        for place, record in lines:
            self._note(place, record)
        if not self.session_id or [*self.sessions][-1:] != [self.session_id]:
            raise BadLine(place.number, "is the last line, but the exported session is missing")

    def read(self, place: LinePosition) -> ExportedRecord:
        self._file.seek(place.offset)
        return _parse(place.number, self._file.readline(_MAX_LINE_BYTES))

    def _lines(self) -> Iterator[tuple[LinePosition, ExportedRecord]]:
        number, offset = 0, 0
        self._file.seek(0)
        while text := self._file.readline(_MAX_LINE_BYTES):
            number += 1
            if text.strip():
                yield LinePosition(number, offset), _parse(number, text)
            offset += len(text)

    def _note(self, place: LinePosition, record: ExportedRecord) -> None:
        kind = record.get("kind")
        if kind == "session":
            self._note_session(place, record)
            return
        part = self.sessions.get(str(record.get("session_id")))
        if part is None:
            raise BadLine(place.number, "belongs to no session in the lines before it")
        if kind in TABLES:
            number = _require_field(place.number, record, "record", int)
            if number in part.rows:
                raise BadLine(place.number, f"repeats line {part.rows[number].number}")
            part.rows[number] = place
        elif kind == "quarantine":
            part.quarantine.append(record)
        elif kind == "inbox":
            message = _parse_message(place.number, record)
            if message.number in part.waiting or len(part.waiting) == _MOST_WAITING:
                raise BadLine(place.number, "is one message too many")
            part.waiting[message.number] = message
        elif kind == "blob":
            part.contents.setdefault(_require_field(place.number, record, "digest", str), []).append(place)
        else:
            raise BadLine(place.number, "has a kind that this version does not know")

    def _note_session(self, place: LinePosition, record: ExportedRecord) -> None:
        name = _require_field(place.number, record, "id", str)
        if name in self.sessions or not 0 < len(name) <= 64 or not name.isprintable():
            raise BadLine(place.number, "has a session id that is not valid")
        self.sessions[name] = SessionPart(place, record)


def parse_chained_row(number: int, record: ExportedRecord) -> tuple[str, tuple[Any, ...], str]:
    """Return the table, the values and the digest of a chained row, as the database has them."""
    table = TABLES[record["kind"]]
    values: list[Any] = []
    for column in CHAINED[table]:
        if column in INTEGERS:
            values.append(_require_field(number, record, column, int))
        elif table == "outputs" and column == "body":
            values.append(_parse_output(number, record))
        elif column in ("fields", "body"):
            if column not in record:
                raise BadLine(number, f"has no `{column}`")
            values.append(_require_storable(number, column, to_stored_text(record[column])))
        else:
            values.append(_require_field(number, record, column, str))
    return table, tuple(values), _require_field(number, record, "digest", str)


def _parse_message(number: int, record: ExportedRecord) -> WaitingMessage:
    kinds: dict[Any, InboxKind] = {one: one for one in get_args(InboxKind)}
    kind, place = (
        kinds.get(_require_field(number, record, "how", str)),
        _require_field(number, record, "n", int),
    )
    text = _require_field(number, record, "text", str)
    if kind is None or not 0 < place <= _MOST_NUMBER or not 0 < len(text) <= MOST_CHARS:
        raise BadLine(number, "has a message that is not valid")
    message = parse_blocks(record["blocks"]) if "blocks" in record else None
    if message is None and "blocks" in record:
        raise BadLine(number, "has a message with files that are not valid")
    return WaitingMessage(place, kind, text, message=message)


def parse_content_chunk(number: int, record: ExportedRecord) -> tuple[int, int, bytes]:
    """Return the number, the size of the complete content, and the compressed bytes of a chunk."""
    return (
        _require_field(number, record, "chunk", int),
        _require_field(number, record, "size", int),
        _decode(number, _require_field(number, record, "base64", str)),
    )


def _parse_output(number: int, record: ExportedRecord) -> bytes:
    if "base64" in record:
        return _decode(number, _require_field(number, record, "base64", str))
    return _require_field(number, record, "text", str).encode("utf-8", "surrogatepass")


def _decode(number: int, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadLine(number, "contains invalid base64") from None


def _require_field(number: int, record: ExportedRecord, name: str, kind: type[Any]) -> Any:
    value = record.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadLine(number, f"has no valid `{name}`")
    return _require_storable(number, name, value) if isinstance(value, str) else value


def _require_storable(number: int, name: str, text: str) -> str:
    """Return the text. Raises `BadLine` if databases cannot store it."""
    if "\0" in text or encodable(text) != text:
        raise BadLine(number, f"has no valid `{name}`")
    return text


def _parse(number: int, line: bytes) -> ExportedRecord:
    if not line.endswith(b"\n") and len(line) == _MAX_LINE_BYTES:
        raise BadLine(number, "is too long")
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise BadLine(number, "is not JSON: the file is damaged or was cut off") from None
    if not isinstance(value, dict):
        raise BadLine(number, "is not a JSON object")
    return cast(ExportedRecord, value)


def _check_version(first: ExportedRecord) -> str:
    if first.get("kind") != "export":
        raise UsageError(_NO_EXPORT, "Create an export: sandbur sessions export ID FILE")
    found = first.get("format"), first.get("schema")
    if found not in {(FORMAT, schema) for schema in READABLE_EXPORTS}:
        raise UsageError(
            f"This export is of another version: format {found[0]!r}, schema {found[1]!r}; this Sandbur reads"
            f" format {FORMAT}, schema {SCHEMA_VERSION}.",
            "Export it again with the version of Sandbur that will import it.",
        )
    return _require_field(1, first, "session_id", str)
