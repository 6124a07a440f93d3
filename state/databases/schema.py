"""The tables of the store and their version. `{long_text}` and `{blob}` are replaced by types of the
database.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

SCHEMA_VERSION = 11
READABLE_EXPORTS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
"""Schemas of exports that can be imported: later ones added tables, and columns that are not exported."""

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
    # Written once per session; `settings` changes only when flags or rules change. `parent_id` and
    # `parent_seq` are the session and the step that a fork continues. `parent_session`, `parent_sequence` and
    # `parent_call` are another relation: the session, the step and the call that spawned this session.
    "sessions": {"id": _ID, "tenant": _ID, "parent_id": "VARCHAR(64)", "parent_seq": "BIGINT",
                 "created_at": _TIME, "settings": _TEXT, "parent_session": "VARCHAR(64)",
                 "parent_sequence": "BIGINT", "parent_call": "VARCHAR(255)"},
    # Rewritten with every commit of a session, so the row is small, and no index has a column that every
    # commit changes: `committed_at` is the time of the last one, and `updated_at` is not before it unless the
    # session runs, see `CHANGED_AT`. `records` and `chain`: the number of
    # chained rows and the digest of the newest; `owner`, `epoch`, `lease_until`: the process that writes.
    # `tenant`, `folder`, `app` and `app_user` repeat values of `sessions`, for the indexes; see
    # `make_index_key`. `lane` is what a worker must offer to run the session, see `lanes.py`; `asked` is the
    # number of the newest message that asks for a run, and `attempts` counts failures in a row.
    "heads": {"session_id": _ID, "title": _TEXT, "status": _TIME, "updated_at": _TIME, "wake_at": _TIME,
              "last_seq": _INTEGER, "records": _INTEGER, "chain": _DIGEST, "owner": _NAME, "epoch": _INTEGER,
              "lease_until": _TIME, "tenant": "VARCHAR(64) DEFAULT '' NOT NULL",
              "folder": "VARCHAR(255) DEFAULT '' NOT NULL", "app": "VARCHAR(255) DEFAULT '' NOT NULL",
              "app_user": "VARCHAR(255) DEFAULT '' NOT NULL", "lane": "VARCHAR(300) DEFAULT '' NOT NULL",
              "asked": "BIGINT DEFAULT 0 NOT NULL", "attempts": "BIGINT DEFAULT 0 NOT NULL",
              "committed_at": "VARCHAR(32) DEFAULT '' NOT NULL"},
    # One row for each start of a worker. Its lease is the lease of every session whose `owner` is its `id`.
    "workers": {"id": _NAME, "host": _NAME, "labels": _TEXT, "agents": _TEXT, "concurrency": _INTEGER,
                "state": _MOVE, "started_at": _TIME, "lease_until": _TIME},
    # What all workers together may use of a model: tokens and requests a minute, and what is left of them at
    # the time `at`. `version` guards every change.
    "budgets": {"name": _NAME, "requests_per_minute": _INTEGER, "tokens_per_minute": _INTEGER,
                "requests_left": _INTEGER, "tokens_left": _INTEGER, "at": _TIME, "version": _INTEGER},
    # How many sessions of a tenant run at once at most. `version` guards every claim of them.
    "quotas": {"tenant": _ID, "most_running": _INTEGER, "version": _INTEGER},
    # The tags in the settings of sessions, and those by which a conversation is found, one row each, for the
    # index.
    "session_tags": {"session_id": _ID, "tag": _NAME},
    # The distinct words of a session's messages, encoded, for the full-text index of the database. `records`
    # is the number of records of the session whose words are there.
    "session_texts": {"session_id": _ID, "records": _INTEGER, "words": _TEXT},
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
    # Texts for the full-text search. `words` are for the ranking, `terms` are encoded for the index. `id` is
    # unique in the store.
    "documents": {"id": _ID, "collection": _NAME, "words": _TEXT, "terms": _TEXT},
    # Vectors of documents, little endian. `digest` is that of the text from which the model made it.
    "vectors": {"collection": _NAME, "id": _ID, "model": _NAME, "dimensions": _INTEGER, "digest": _ID,
                "body": _BYTES},
    # The number of changes of a tenant's facts. Every change is guarded by it.
    "fact_heads": {"tenant": _ID, "version": _INTEGER},
    # Facts outlive the sessions that they come from, so `source_session` is only a text. `text_key` is a
    # digest of the normalized text. `corrects` is the fact that a proposal is to replace.
    "facts": {"id": _ID, "tenant": _ID, "collection": _NAME, "scope": _MOVE, "scope_key": _TEXT,
              "path": _NAME, "kind": _ID, "text": _TEXT, "text_key": _ID, "origin": _MOVE,
              "source_session": _NAME, "source_step": "BIGINT", "source_call": _NAME, "created_at": _TIME,
              "confirmed_at": _TIME, "state": _MOVE, "superseded_by": "VARCHAR(64)",
              "corrects": "VARCHAR(64)"},
    # The facts from which a fact was derived.
    "fact_sources": {"fact_id": _ID, "source_id": _ID},
    # What happened to each fact. All facts that one operation changed have the same `version`. `cause` is the
    # fact that the operation was asked for, and `token` distinguishes two writers of the same version.
    "fact_changes": {"tenant": _ID, "version": _INTEGER, "fact_id": _ID, "token": _ID, "what": _MOVE,
                     "at": _TIME, "actor": _NAME, "cause": _ID, "reason": _TEXT},
    # Sessions whose messages are searched for facts. `records` is the number of records of the session that
    # were read, `attempts` counts failures since the last success, and `reader` is who reads: the command, or
    # an agent of a program.
    "extractions": {"session_id": _ID, "tenant": _ID, "reader": _NAME, "records": _INTEGER,
                    "attempts": _INTEGER, "at": _TIME, "problem": _TEXT},
    # The access tokens of servers. `digest` is the SHA-256 of the token, which itself is stored nowhere.
    "tokens": {"digest": _ID, "id": _MOVE, "name": _NAME, "tenant": _ID, "scopes": _NAME, "created_at": _TIME,
               "expires_at": _TIME},
    # The requests that changed something through a server, and those that were refused.
    "audit": {"id": _ID, "tenant": _ID, "at": _TIME, "token": _NAME, "request": _NAME, "session": _ID,
              "status": _INTEGER},
}  # fmt: skip
_KEYS = {
    "meta": ("name",),
    "sessions": ("id",),
    "heads": ("session_id",),
    "workers": ("id",),
    "budgets": ("name",),
    "quotas": ("tenant",),
    "session_tags": ("session_id", "tag"),
    "session_texts": ("session_id",),
    "blobs": ("digest", "session_id", "chunk"),
    "annotations": ("session_id", "id"),
    "inbox": ("session_id", "n"),
    "seals": ("session_id", "n"),
    "quarantine": ("session_id", "source", "place"),
    "documents": ("id",),
    "vectors": ("collection", "id"),
    "fact_heads": ("tenant",),
    "facts": ("id",),
    "fact_sources": ("fact_id", "source_id"),
    "fact_changes": ("tenant", "version", "fact_id"),
    "extractions": ("session_id",),
    "tokens": ("digest",),
    "audit": ("id",),
}


def list_keys(table: str) -> tuple[str, ...]:
    """Return the columns of the primary key of a table."""
    return _KEYS.get(table) or ("session_id", *KEYS[table])


COLUMNS: dict[str, Mapping[str, str]] = {
    **_OTHERS,
    **{
        table: {"session_id": _ID, **columns, "record": _INTEGER, "digest": _DIGEST}
        for table, columns in _CHAINED.items()
    },
}
"""Maps each table to its columns and their types."""
INTEGERS = {name for columns in _CHAINED.values() for name, kind in columns.items() if "INT" in kind}
SESSION_TABLES = (
    *CHAINED, "annotations", "inbox", "seals", "quarantine", "session_tags", "session_texts", "extractions",
    "heads",
)  # fmt: skip
"""The tables with a `session_id`, in the order in which the rows of a session are deleted."""


def _make_creation(table: str) -> str:
    lines = [f"{name} {kind}" for name, kind in COLUMNS[table].items()]
    keys = ", ".join(list_keys(table))
    return f"CREATE TABLE {table} (\n    {', '.join(lines)},\n    PRIMARY KEY ({keys}){{indexes}})"


TABLES = tuple(map(_make_creation, COLUMNS))


def create_if_missing(table: str) -> str:
    """Return the statement that creates a table, with IF NOT EXISTS."""
    return table.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1)


class Index(NamedTuple):
    """An index of a table. With the condition of rest, commits during a run do not change its entries."""

    table: str
    name: str
    columns: str
    """The columns. `{title_start}` is replaced by the title, or by the part of it that fits into an index."""
    condition: str = ""

    def create(self, title_start: str) -> str:
        """Return the statement that creates the index if it is missing, with its condition."""
        where = f" WHERE {self.condition}" if self.condition else ""
        columns = self.columns.format(title_start=title_start)
        return f"CREATE INDEX IF NOT EXISTS {self.name} ON {self.table} ({columns}){where}"

    def declare(self, title_start: str) -> str:
        """Return the index as a part of CREATE TABLE, without its condition."""
        return f"INDEX {self.name} ({self.columns.format(title_start=title_start)})"


_AT_REST = "status <> 'running'"
LAST_COMMIT = "CASE WHEN committed_at > updated_at THEN committed_at ELSE updated_at END"
"""The value that `updated_at` gets when a run ends without a commit of its own."""
CHANGED_AT = (
    "CASE WHEN h.status = 'running' AND h.committed_at > h.updated_at THEN h.committed_at"
    " ELSE h.updated_at END"
)
"""When a session changed last, for queries of `heads h`. A running one keeps its old `updated_at`, which has
indexes.
"""
WAITS = "owner = '' AND wake_at > '' AND lane > ''"
"""The condition for sessions that wait for a worker, now or later."""
IS_OWNED = "owner > ''"
INDEXES = (
    # Neither index has `lease_until`, which every heartbeat changes.
    Index("heads", "heads_waiting", "lane, wake_at", WAITS),
    Index("heads", "heads_owned", "owner, lane", IS_OWNED),
    Index("heads", "heads_at_rest", "tenant, updated_at, session_id, folder, status", _AT_REST),
    Index("heads", "heads_running", "tenant, status", "status = 'running'"),
    Index("heads", "heads_titled", "tenant, {title_start}"),
    Index(
        "heads",
        "heads_of_app",
        "tenant, app, updated_at, session_id, app_user, status",
        f"{_AT_REST} AND app <> ''",
    ),
    Index(
        "heads",
        "heads_of_user",
        "tenant, app_user, updated_at, session_id, app, status",
        f"{_AT_REST} AND app_user <> ''",
    ),
    Index("sessions", "sessions_spawned", "parent_session, created_at, id", "parent_session IS NOT NULL"),
    Index("session_tags", "session_tags_by_tag", "tag, session_id"),
    Index("documents", "documents_of_collection", "collection, id"),
    Index("facts", "facts_by_text", "collection, text_key, state"),
    Index("facts", "facts_by_path", "collection, state, path"),
    Index("facts", "facts_by_session", "tenant, source_session"),
    Index("fact_sources", "fact_sources_reversed", "source_id, fact_id"),
    Index("fact_changes", "fact_changes_of_fact", "fact_id, version"),
    Index("extractions", "extractions_of_reader", "tenant, reader, session_id"),
    Index("tokens", "tokens_by_id", "id"),
    Index("audit", "audit_by_time", "tenant, at, id"),
)
TITLE_START_CHARS = 64


def make_index_creations(title_start: str) -> list[str]:
    """Return the statements that create missing indexes, for databases with partial indexes."""
    return [index.create(title_start) for index in INDEXES]


def make_index_clauses(title_start: str, table: str) -> list[str]:
    """Return the indexes of a table as parts of CREATE TABLE, for databases without partial indexes."""
    return [index.declare(title_start) for index in INDEXES if index.table == table]


_MOST_KEY_CHARS, _KEY_START_CHARS = 255, 190


def make_index_key(text: str) -> str:
    """Return a path or a label as an indexed column has it: the end of a long one is a hash."""
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "")
    if len(text) <= _MOST_KEY_CHARS:
        return text
    return f"{text[:_KEY_START_CHARS]}#{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def make_folder_start(root: str) -> str:
    """Return the common start of the `folder` values of all folders below `root`."""
    return make_index_key(f"{root}/")[:_KEY_START_CHARS]


def read_folder_key(settings: str) -> str:
    """Return the value of `folder` for stored settings; empty if they cannot be read."""
    try:
        return make_index_key(str(json.loads(settings)["cwd"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


class LabelKeys(NamedTuple):
    """The values of `app`, `app_user` and `tag` for a session."""

    app: str
    user: str
    tags: tuple[str, ...]


def make_label_keys(app: str, user: str, tags: Iterable[str]) -> LabelKeys:
    """Return the values of the indexed columns for the labels of a session."""
    return LabelKeys(
        make_index_key(app), make_index_key(user), tuple(dict.fromkeys(map(make_index_key, tags)))
    )


def read_label_keys(settings: str) -> LabelKeys | None:
    """Return the values for the labels in stored settings; None if they have none or cannot be read."""
    try:
        found = json.loads(settings)
        app, user, tags = found.get("app", ""), found.get("user", ""), found.get("tags", ())
        keys = make_label_keys(str(app), str(user), map(str, tags))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return keys if any(keys) else None
