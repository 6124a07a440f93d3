"""Brings a SQLite store of an older version up to date, inside the caller's transaction."""

import sqlite3

from ...process.crashpoints import reach
from ..chain import digest_of, make_first_digest
from ..schema import CHAINED, SCHEMA_VERSION, TABLES, make_index_creations, read_folder_key


def migrate(connection: sqlite3.Connection) -> None:
    """Apply one version step after the other; steps that another process has done meanwhile are skipped."""
    version = int(connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()[0])
    for number in range(version, SCHEMA_VERSION):
        _STEPS[number](connection)
    reach("migration_mid")
    connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (str(SCHEMA_VERSION),))


def _chain_the_rows(connection: sqlite3.Connection) -> None:
    """1 to 2: hash chains, wake-up times, file history, quarantine."""
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
    """2 to 3: traces of runs, and annotations."""
    _create(connection, "traces", "annotations")


def _add_seals(connection: sqlite3.Connection) -> None:
    """3 to 4: seals over the chains, with a key that is outside of the store."""
    _create(connection, "seals")


def _add_inbox(connection: sqlite3.Connection) -> None:
    """4 to 5: messages that people send during a run."""
    _create(connection, "inbox")


def _index_the_folders(connection: sqlite3.Connection) -> None:
    """5 to 6: columns and indexes to find sessions by tenant and folder."""
    for column in ("tenant VARCHAR(64)", "folder VARCHAR(255)"):
        connection.execute(f"ALTER TABLE heads ADD COLUMN {column} DEFAULT '' NOT NULL")
    connection.create_function("folder_of", 1, read_folder_key, deterministic=True)
    connection.execute(
        "UPDATE heads SET (tenant, folder) ="
        " (SELECT tenant, folder_of(settings) FROM sessions WHERE id = heads.session_id)"
        " WHERE session_id IN (SELECT id FROM sessions)"
    )
    for creation in make_index_creations("title"):
        connection.execute(creation)


def _create(connection: sqlite3.Connection, *names: str) -> None:
    for table in TABLES:
        if table.split()[2] in names:
            connection.execute(table.format(long_text="TEXT", blob="BLOB", indexes=""))


_STEPS = {1: _chain_the_rows, 2: _add_traces, 3: _add_seals, 4: _add_inbox, 5: _index_the_folders}
