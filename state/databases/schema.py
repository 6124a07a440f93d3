"""The tables of the store and their version. `{long_text}` and `{blob}` are replaced by types of the
database.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

SCHEMA_VERSION = 7
READABLE_EXPORTS = (2, 3, 4, 5, 6, 7)
"""The schemas of exports that can be imported. Later schemas added tables, and columns that are not
exported.
"""

_INTEGER, _TEXT, _BYTES = "BIGINT NOT NULL", "{long_text} NOT NULL", "{blob} NOT NULL"
_MOVE, _TIME, _DIGEST, _ID, _NAME = (f"VARCHAR({size}) NOT NULL" for size in (16, 32, 40, 64, 255))

_CHAINED = {
    # One row per graph step: the changed fields, or all fields in a snapshot.
    "steps": {"seq": _INTEGER, "position": _ID, "is_snapshot": "SMALLINT NOT NULL", "at": _TIME,
              "fields": _TEXT},
    "messages": {"log": _INTEGER, "idx": _INTEGER, "body": _TEXT},
    # The journal: one row for each move of a call. Rows never change.
    "calls": {"n": _INTEGER, "call_id": _NAME, "move": _MOVE, "at": _TIME, "body": _TEXT},
    # The complete outputs of calls whose results contain only a part. Chunk -1 contains the files of session
    # memory.
    "outputs": {"call_id": _NAME, "chunk": _INTEGER, "body": _BYTES},
    # The file changes of calls. `seq` is the newest step at that time.
    "files": {"n": _INTEGER, "seq": _INTEGER, "call_id": _NAME, "path": _TEXT, "body": _TEXT},
    # Who ran the session, its model calls, and how runs ended. `seq` is the newest step at that time.
    "traces": {"n": _INTEGER, "seq": _INTEGER, "event": _MOVE, "at": _TIME, "body": _TEXT},
}  # fmt: skip
CHAINED = {table: tuple(columns) for table, columns in _CHAINED.items()}
"""Maps each chained table to the columns that its digest covers, in order."""
KEYS = {table: columns[: 2 if table in ("messages", "outputs") else 1] for table, columns in CHAINED.items()}
"""Maps each chained table to its primary key within a session, which is its first columns."""

_OTHERS = {
    "meta": {"name": _ID, "value": _NAME},
    # These values are written once per session. `settings` changes only when flags or rules change.
    "sessions": {"id": _ID, "tenant": _ID, "parent_id": "VARCHAR(64)", "parent_seq": "BIGINT",
                 "created_at": _TIME, "settings": _TEXT},
    # This row is rewritten with every commit of a session, so it is small. `records` and `chain` are the
    # number of chained rows and the digest of the newest one. `owner`, `epoch` and `lease_until` describe the
    # process that writes. `tenant` and `folder` repeat values of `sessions` for the indexes; see
    # `make_folder_key`.
    "heads": {"session_id": _ID, "title": _TEXT, "status": _TIME, "updated_at": _TIME, "wake_at": _TIME,
              "last_seq": _INTEGER, "records": _INTEGER, "chain": _DIGEST, "owner": _NAME, "epoch": _INTEGER,
              "lease_until": _TIME, "tenant": "VARCHAR(64) DEFAULT '' NOT NULL",
              "folder": "VARCHAR(255) DEFAULT '' NOT NULL"},
    # File contents before a change, and files in messages: by SHA-256, compressed, in chunks. `session_id` is
    # the session that wrote the row: every session reads all rows, and each writes its own, so that two
    # sessions never conflict about one content. A row without content, with chunk -1, means that messages of
    # the session refer to it.
    "blobs": {"digest": _ID, "session_id": _ID, "chunk": _INTEGER, "size": _INTEGER, "body": _BYTES},
    # Notes of people on steps. The writer of the session does not write them, so they are not part of its
    # chain.
    "annotations": {"session_id": _ID, "id": _INTEGER, "seq": _INTEGER, "created_at": _TIME,
                    "updated_at": _TIME, "body": _TEXT},
    # Messages that people sent during a run. The writer of the session does not write them, so they are not
    # part of its chain. The state of the session records which of them are in its histories. `token`
    # distinguishes two writers that use the same number.
    "inbox": {"session_id": _ID, "n": _INTEGER, "kind": _MOVE, "at": _TIME, "token": _ID, "body": _TEXT},
    # Each seal covers a part of the chain, and so all records before it. `maker` names the key, `since` is
    # the first record of the part, and `records` is the number of records at its end.
    "seals": {"session_id": _ID, "n": _INTEGER, "maker": _MOVE, "since": _INTEGER, "records": _INTEGER,
              "mac": _DIGEST},
    # Rows that were found damaged and are not used any more. `place` is their key.
    "quarantine": {"session_id": _ID, "source": _MOVE, "place": _NAME, "at": _TIME, "reason": _NAME},
}  # fmt: skip
_KEYS = {
    "meta": ("name",),
    "sessions": ("id",),
    "heads": ("session_id",),
    "blobs": ("digest", "session_id", "chunk"),
    "annotations": ("session_id", "id"),
    "inbox": ("session_id", "n"),
    "seals": ("session_id", "n"),
    "quarantine": ("session_id", "source", "place"),
}

COLUMNS: dict[str, Mapping[str, str]] = {
    **_OTHERS,
    **{
        table: {"session_id": _ID, **columns, "record": _INTEGER, "digest": _DIGEST}
        for table, columns in _CHAINED.items()
    },
}
"""Maps each table to its columns and their types."""
INTEGERS = {name for columns in _CHAINED.values() for name, kind in columns.items() if "INT" in kind}
SESSION_TABLES = (*CHAINED, "annotations", "inbox", "seals", "quarantine", "heads")
"""The tables with a `session_id`, in the order in which the rows of a session are deleted."""


def _make_creation(table: str) -> str:
    lines = [f"{name} {kind}" for name, kind in COLUMNS[table].items()]
    keys = _KEYS.get(table) or ("session_id", *KEYS[table])
    indexes = "{indexes}" if table == "heads" else ""
    return f"CREATE TABLE {table} (\n    {', '.join(lines)},\n    PRIMARY KEY ({', '.join(keys)}){indexes})"


TABLES = tuple(map(_make_creation, COLUMNS))


def create_if_missing(table: str) -> str:
    """Return the statement that creates a table, with IF NOT EXISTS."""
    return table.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1)


class Index(NamedTuple):
    """An index of `heads`. If it has a condition, commits during a run do not change its entries."""

    name: str
    columns: str
    """The columns. `{title_start}` is replaced by the title, or by the part of it that fits into an index."""
    condition: str = ""


INDEXES = (
    Index("heads_at_rest", "tenant, updated_at, session_id, folder, status", "status <> 'running'"),
    Index("heads_running", "tenant, status", "status = 'running'"),
    Index("heads_titled", "tenant, {title_start}"),
)
TITLE_START_CHARS = 64


def make_index_creations(title_start: str) -> list[str]:
    """Return the statements that create missing indexes, for databases with partial indexes."""
    return [
        f"CREATE INDEX IF NOT EXISTS {name} ON heads ({columns.format(title_start=title_start)})"
        f"{' WHERE ' if condition else ''}{condition}"
        for name, columns, condition in INDEXES
    ]


def make_index_clauses(title_start: str) -> list[str]:
    """Return the indexes as parts of CREATE TABLE, for databases without partial indexes."""
    return [f"INDEX {name} ({columns.format(title_start=title_start)})" for name, columns, _ in INDEXES]


_MOST_FOLDER_CHARS, _FOLDER_START_CHARS = 255, 190


def make_folder_key(cwd: str) -> str:
    """Return the value of `folder` for a working folder: its path, in which the end of a long path is
    hashed.
    """
    text = cwd.encode("utf-8", "backslashreplace").decode().replace("\0", "")
    if len(text) <= _MOST_FOLDER_CHARS:
        return text
    return f"{text[:_FOLDER_START_CHARS]}#{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def make_folder_start(root: str) -> str:
    """Return the common start of the `folder` values of all folders below `root`."""
    return make_folder_key(f"{root}/")[:_FOLDER_START_CHARS]


def read_folder_key(settings: str) -> str:
    """Return the value of `folder` for stored settings; empty if they cannot be read."""
    try:
        return make_folder_key(str(json.loads(settings)["cwd"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
