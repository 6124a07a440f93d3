"""Updates a SQLite store of an older version, inside the transaction of the caller."""

import json
import sqlite3
import time
from collections.abc import Callable, Collection
from functools import partial

from ...process.crashpoints import reach
from ..chain import EVERY_ROW, digest_of, make_first_digest
from ..damaged_values import decode_text
from ..sampling import add_samples, find_level
from ..schema import CHAINED, COLUMNS, INDEXES, SCHEMA_VERSION, read_folder_key, read_label_keys
from .keyed_tables import (
    CREATE_KEYS,
    KEYS_TABLE,
    create_deletion,
    create_plain,
    create_rows,
    create_view,
    list_columns,
    name_rows,
)
from .unindexed import is_damage

_ROWS_AT_ONCE = 1000
_FIRST_NOTICE_S, _NEXT_NOTICE_S = 1.0, 10.0


class DamagedTable(Exception):
    """A table cannot be converted. After SQLite found damaged content, it makes no more changes in the
    transaction.
    """

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.table = table


def migrate(
    connection: sqlite3.Connection, damaged: Collection[str], name: str, tell: Callable[[str], None]
) -> None:
    """Apply one version after the other. Steps that another process has done meanwhile are skipped.

    The tables in `damaged` keep their form. Raises `DamagedTable` if another table is damaged. `tell` gets
    sentences about the store `name`: the progress, and the tables that were not converted.
    """
    version = int(connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()[0])
    for number in range(version, _WITH_KEYS - 1):
        _STEPS[number](connection)
    if version < _WITH_KEYS:
        _add_session_keys(connection, damaged, name, tell)
    if version < _WITH_LABELS:
        _add_labels(connection, damaged)
    if version < _WITH_FACTS:
        _create(connection, *_OF_FACTS)
    if version < _WITH_FLEETS:
        _create(connection, *_OF_SERVERS)
        _add_fleets(connection)
        _add_proposals(connection, has_facts=version >= _WITH_FACTS)
        if version >= _WITH_FACTS and "documents" not in damaged:
            _run("documents", partial(_sample_documents, connection, _Progress(name, tell)))
        _create_indexes(connection, damaged)
    if version < SCHEMA_VERSION:
        _add_columns(connection, "heads", "committed_at")
    reach("migration_mid")
    connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(SCHEMA_VERSION),))


def _chain_the_rows(connection: sqlite3.Connection) -> None:
    """Update from version 1 to 2: hash chains, wake-up times, file history, quarantine."""
    for table in ("steps", "messages", "calls", "outputs"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN record BIGINT NOT NULL DEFAULT 0")
        connection.execute(f"ALTER TABLE {table} ADD COLUMN digest VARCHAR(40) NOT NULL DEFAULT ''")
    for column in ("wake_at VARCHAR(32)", "records BIGINT", "chain VARCHAR(40)"):
        default = "0" if "BIGINT" in column else "''"
        connection.execute(f"ALTER TABLE heads ADD COLUMN {column} NOT NULL DEFAULT {default}")
    _create(connection, "files", "blobs", "quarantine")
    for (session_id,) in connection.execute("SELECT id FROM sessions").fetchall():
        _chain_session(connection, session_id)


def _chain_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Number and chain the rows of a session, one table after the other."""
    records, digest = 0, make_first_digest(session_id)
    for table in ("steps", "messages", "calls", "outputs"):
        columns = ", ".join(CHAINED[table])
        rows = connection.execute(
            f"SELECT rowid, {columns} FROM {table} WHERE session_id = ? ORDER BY {columns}", (session_id,)
        )
        for rowid, *values in rows.fetchall():
            digest = digest_of(digest, table, values)
            connection.execute(
                f"UPDATE {table} SET record = ?, digest = ? WHERE rowid = ?", (records, digest, rowid)
            )
            records += 1
    connection.execute(
        "UPDATE heads SET records = ?, chain = ? WHERE session_id = ?", (records, digest, session_id)
    )


def _add_traces(connection: sqlite3.Connection) -> None:
    """Update from version 2 to 3: traces of runs, and annotations."""
    _create(connection, "traces", "annotations")


def _add_seals(connection: sqlite3.Connection) -> None:
    """Update from version 3 to 4: seals over the chains, with a key that is outside of the store."""
    _create(connection, "seals")


def _add_inbox(connection: sqlite3.Connection) -> None:
    """Update from version 4 to 5: messages that people send during a run."""
    _create(connection, "inbox")


def _index_the_folders(connection: sqlite3.Connection) -> None:
    """5 to 6: columns to find sessions by tenant and folder; 7 to 8 creates the indexes."""
    for column in ("tenant VARCHAR(64)", "folder VARCHAR(255)"):
        connection.execute(f"ALTER TABLE heads ADD COLUMN {column} DEFAULT '' NOT NULL")
    connection.create_function("folder_of", 1, _read_folder, deterministic=True)
    connection.execute(
        "UPDATE heads SET (tenant, folder) ="
        # A function gets a text only if it is UTF-8.
        " (SELECT tenant, folder_of(CAST(settings AS BLOB)) FROM sessions WHERE id = heads.session_id)"
        " WHERE session_id IN (SELECT id FROM sessions)"
    )


def _read_folder(settings: bytes) -> str:
    return read_folder_key(decode_text(settings))


def _add_columns(connection: sqlite3.Connection, table: str, *columns: str) -> None:
    for column in columns:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {COLUMNS[table][column]}")


def _create(connection: sqlite3.Connection, *names: str) -> None:
    for table in names:
        connection.execute(create_plain(table))


def _add_session_keys(
    connection: sqlite3.Connection, damaged: Collection[str], name: str, tell: Callable[[str], None]
) -> None:
    """Update from version 6 to 7: chained rows refer to their session by a small key; see `keyed_tables`.

    A damaged table is not converted: the statements of the store are the same for both forms.
    """
    connection.execute(CREATE_KEYS)
    if "sessions" not in damaged:
        ids = f"INSERT OR IGNORE INTO {KEYS_TABLE} (id) SELECT id FROM sessions NOT INDEXED ORDER BY rowid"
        _run("sessions", partial(connection.execute, ids))
    conversion = _Conversion(connection, _Progress(name, tell))
    for table in CHAINED:
        if table in damaged:
            tell(f"The table {table} of the store {name} is damaged and keeps its old form: sandbur doctor")
        else:
            _run(table, partial(conversion.convert, table))
    connection.execute(create_deletion(table for table in CHAINED if table not in damaged))


def _run(table: str, work: Callable[[], object]) -> None:
    """Run `work`. Raises `DamagedTable` if the content of the table prevents its completion."""
    try:
        work()
    except sqlite3.DatabaseError as error:
        if is_damage(error) or isinstance(error, sqlite3.IntegrityError):
            raise DamagedTable(table) from error
        raise


class _Progress:
    """Tells the progress of a long update of the store `name` from time to time."""

    def __init__(self, name: str, tell: Callable[[str], None]) -> None:
        self._name = name
        self._tell = tell
        self._next_notice = time.monotonic() + _FIRST_NOTICE_S
        self._converted = 0

    def note(self, count: int, table: str) -> None:
        """Add `count` converted rows of a table."""
        self._converted += count
        if time.monotonic() > self._next_notice:
            self._next_notice = time.monotonic() + _NEXT_NOTICE_S
            self._tell(
                f"The store {self._name} is brought up to date for this version:"
                f" {self._converted} records so far, of the table {table} now."
            )


class _Conversion:
    """Moves the rows of tables to tables with keys, a thousand at a time, and reports the progress."""

    def __init__(self, connection: sqlite3.Connection, progress: _Progress) -> None:
        self._connection = connection
        self._progress = progress

    def convert(self, table: str) -> None:
        """Replace a table by a table with keys and its view. Raises `sqlite3.DatabaseError` if the table is
        damaged.
        """
        self._connection.execute(create_rows(table))
        after = EVERY_ROW
        while (copied := self._copy_rows(table, after)) is not None:
            count, after = copied
            reach("migration_rows_copied")
            self._progress.note(count, table)
        self._connection.execute(f"DROP TABLE {table}")
        for creation in create_view(table):
            self._connection.execute(creation)
        reach("migration_table_converted")

    def _copy_rows(self, table: str, after: int) -> tuple[int, int] | None:
        """Copy the next rows. Return their count and the number of the last one; None if there are none."""
        counted = self._connection.execute(
            "SELECT COUNT(*), MAX(rowid) FROM"
            f" (SELECT rowid FROM {table} NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT {_ROWS_AT_ONCE})",
            (after,),
        )
        count, last = counted.fetchone()
        if not count:
            return None
        source, part = f"FROM {table} t NOT INDEXED", "WHERE t.rowid > ? AND t.rowid <= ?"
        self._connection.execute(
            f"INSERT OR IGNORE INTO {KEYS_TABLE} (id) SELECT DISTINCT t.session_id {source} {part}",
            (after, last),
        )
        columns = list_columns(table)
        values = ", ".join(f"t.{column}" for column in columns)
        copied = self._connection.execute(
            f"INSERT INTO {name_rows(table)} (rowid, session_key, {', '.join(columns)})"
            f" SELECT t.rowid, k.key, {values} {source} CROSS JOIN {KEYS_TABLE} k ON k.id = t.session_id"
            f" {part}",
            (after, last),
        )
        if copied.rowcount != count:
            raise sqlite3.IntegrityError(f"{count - copied.rowcount} rows of {table} have no session")
        return count, last


_LABELS = {"heads": ("app", "app_user"), "sessions": ("parent_session", "parent_sequence", "parent_call")}
"""Table -> its new columns in version 8."""


def _add_labels(connection: sqlite3.Connection, damaged: Collection[str]) -> None:
    """7 to 8: columns to find sessions by their labels and by the session that spawned them."""
    for table, columns in _LABELS.items():
        _add_columns(connection, table, *columns)
    _create(connection, "session_tags", "session_texts")
    if not {"sessions", "heads"} & {*damaged}:
        _run("sessions", partial(_fill_labels, connection))


_OF_FACTS = ("documents", "vectors", "fact_heads", "facts", "fact_sources", "fact_changes")
"""The new tables of version 9: facts, and texts that are searched for."""
_OF_SERVERS = ("tokens", "audit")
"""The new tables of version 10: access to servers."""


def _add_proposals(connection: sqlite3.Connection, has_facts: bool) -> None:
    """9 to 10: which fact a proposal corrects, and how far sessions were searched for facts."""
    if has_facts:
        _add_columns(connection, "facts", "corrects")
    _create(connection, "extractions")


def _sample_documents(connection: sqlite3.Connection, progress: _Progress) -> None:
    """9 to 10: repeat the terms of documents for the samples that they are in, page by page."""
    # As a function of SQL it sees one document at a time: the terms of one can have a megabyte.
    connection.create_function("with_samples", 2, _add_samples, deterministic=True)
    after = EVERY_ROW
    while rows := connection.execute(
        "SELECT number, id FROM documents NOT INDEXED WHERE number > ?"
        f" ORDER BY number LIMIT {_ROWS_AT_ONCE}",
        (after,),
    ).fetchall():
        after = rows[-1][0]
        connection.executemany(
            "UPDATE documents SET terms = with_samples(CAST(id AS BLOB), CAST(terms AS BLOB))"
            " WHERE number = ?",
            [(number,) for number, id in rows if find_level(id)],
        )
        reach("migration_documents_sampled")
        progress.note(len(rows), "documents")


def _add_samples(id: bytes, terms: bytes) -> str:
    return add_samples(decode_text(id), decode_text(terms))


def _create_indexes(connection: sqlite3.Connection, damaged: Collection[str]) -> None:
    for index in INDEXES:
        if index.table not in damaged:
            _run(index.table, partial(connection.execute, index.create("title")))


def _fill_labels(connection: sqlite3.Connection) -> None:
    """Write the labels in the settings of sessions into the columns, page by page."""
    # As a function of SQL it sees one row at a time: settings can be large.
    connection.create_function("labels_of", 1, _dump_labels, deterministic=True)
    after = EVERY_ROW
    while rows := connection.execute(
        "SELECT rowid, id, labels_of(CAST(settings AS BLOB)) FROM sessions NOT INDEXED WHERE rowid > ?"
        f" ORDER BY rowid LIMIT {_ROWS_AT_ONCE}",
        (after,),
    ).fetchall():
        after = rows[-1][0]
        for _, session_id, labels in rows:
            app, user, tags = json.loads(labels) if labels else ("", "", ())
            if app or user:
                connection.execute(
                    "UPDATE heads SET app = ?, app_user = ? WHERE session_id = ?", (app, user, session_id)
                )
            connection.executemany(
                "INSERT OR IGNORE INTO session_tags (session_id, tag) VALUES (?, ?)",
                [(session_id, tag) for tag in tags],
            )
        reach("migration_labels_filled")


def _dump_labels(settings: bytes) -> str | None:
    labels = read_label_keys(decode_text(settings))
    return None if labels is None else json.dumps(labels)


def _add_fleets(connection: sqlite3.Connection) -> None:
    """9 to 10: what workers claim sessions by. A session gets its lane with its next run or message."""
    _add_columns(connection, "heads", "lane", "asked", "attempts")
    _create(connection, "workers", "budgets", "quotas")


_WITH_KEYS, _WITH_LABELS, _WITH_FACTS, _WITH_FLEETS = 7, 8, 9, 10
_STEPS = {1: _chain_the_rows, 2: _add_traces, 3: _add_seals, 4: _add_inbox, 5: _index_the_folders}
