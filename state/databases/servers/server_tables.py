"""Creates, checks and updates the tables of a store on a server."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import StoreError
from ..database import Statement, insert_tags, require_readable, update
from ..sampling import add_samples, find_level
from ..schema import (
    COLUMNS,
    INDEXES,
    SCHEMA_VERSION,
    TABLES,
    create_if_missing,
    make_index_clauses,
    make_index_creations,
    read_folder_key,
    read_label_keys,
)
from .requirements import Connection, Server
from .server_errors import ServerError

_UP_TO_DATE = update("meta", {"value": str(SCHEMA_VERSION)}, {"name": "schema"})
_OTHER = "Name another database with --store, or another schema with the role's search_path."


def prepare_tables(server: Server, connection: Connection) -> None:
    """Create missing tables; refuse tables of other programs and of newer versions with `StoreError`."""
    present = _load_columns(server, connection)
    version = _read_version(connection) if present.get("meta") == set(COLUMNS["meta"]) else None
    if version is None:
        _require_free(server, present)
        connection.commit(_make_creation(server), None)
        version = _read_version(connection)
    if version is None:
        raise _make_foreign_error(server, ["meta"])
    require_readable(server.name, version)
    if version < SCHEMA_VERSION:
        _upgrade(server, connection, version)


def _upgrade(server: Server, connection: Connection, version: int) -> None:
    """Migrate the tables; steps that another process has done already are skipped."""
    connection.commit(make_tables(server, TABLES), None)  # versions 3 to 5, and 9, only added tables
    connection.commit([*server.creation_lock, *_create_text_index(server)], None)
    if server.has_partial_indexes:
        columns = (
            f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} {COLUMNS[table][column]}"
            for table, names in _ADDED.items()
            for column in names
        )
        creations = [(text, ()) for text in (*columns, *make_index_creations(server.title_start))]
        connection.commit([*server.creation_lock, *creations], None)
    else:
        for table in _ADDED:
            _add_columns(server, connection, table)
    if version < _WITH_LABELS:
        _fill_folders(connection)
        _fill_labels(connection)
    if _WITH_DOCUMENTS <= version < _WITH_SAMPLES:
        _sample_documents(connection)
    connection.commit([_UP_TO_DATE], None)


_ADDED = {
    "heads": ("tenant", "folder", "app", "app_user", "lane", "asked", "attempts", "committed_at"),
    "sessions": ("parent_session", "parent_sequence", "parent_call"),
    "facts": ("corrects",),
}
"""Table -> the columns that came after its first version: in versions 6, 8, 10 and 11."""
_FILLED_AT_ONCE = 500
_WITH_LABELS, _WITH_DOCUMENTS, _WITH_SAMPLES = 8, 9, 10
_SAMPLED_AT_ONCE = 16
"""The documents that are in memory at once; the terms of one can have a megabyte."""


def _add_columns(server: Server, connection: Connection, table: str) -> None:
    """Add the missing columns of a table and their indexes in one statement: all or nothing."""
    if not (missing := _list_missing(server, connection, table)):
        return
    parts = [f"{column} {COLUMNS[table][column]}" for column in missing]
    parts += (
        index.declare(server.title_start)
        for index in INDEXES
        if index.table == table and not {*missing}.isdisjoint(index.columns.split(", "))
    )
    added = ", ".join(f"ADD {part}" for part in parts)
    try:
        connection.commit([(f"ALTER TABLE {table} {added}", ())], None)
    except ServerError:
        if _list_missing(server, connection, table):  # no other process did it meanwhile
            raise


def _list_missing(server: Server, connection: Connection, table: str) -> list[str]:
    present = _load_columns(server, connection)[table]
    return [column for column in _ADDED[table] if column not in present]


def _fill_folders(connection: Connection) -> None:
    """Write tenant and folder into the rows of `heads` without them."""
    after = ""
    while rows := connection.query(
        "SELECT s.id, s.tenant, s.settings FROM heads h JOIN sessions s ON s.id = h.session_id"
        f" WHERE h.folder = '' AND h.session_id > ? ORDER BY h.session_id LIMIT {_FILLED_AT_ONCE}",
        (after,),
    ):
        places = [
            ({"tenant": row[1], "folder": read_folder_key(row[2])}, {"session_id": row[0]}) for row in rows
        ]
        connection.commit([update("heads", *place) for place in places], None)
        after = rows[-1][0]


def _fill_labels(connection: Connection) -> None:
    """Write the labels in the settings of sessions into `heads` and `session_tags`."""
    after = ""
    while rows := connection.query(
        "SELECT id, settings FROM sessions WHERE id > ?"
        " AND (settings LIKE ? OR settings LIKE ? OR settings LIKE ?)"
        f" ORDER BY id LIMIT {_FILLED_AT_ONCE}",
        (after, '%"app":%', '%"user":%', '%"tags":%'),
    ):
        found = ((session_id, read_label_keys(settings)) for session_id, settings in rows)
        statements = [
            statement
            for session_id, labels in found
            if labels is not None
            for statement in (
                update("heads", {"app": labels.app, "app_user": labels.user}, {"session_id": session_id}),
                *insert_tags(session_id, labels.tags),
            )
        ]
        connection.commit(statements, None)
        after = rows[-1][0]


def _sample_documents(connection: Connection) -> None:
    """Repeat the terms of documents for the samples that they are in."""
    after = ""
    while rows := connection.query(
        f"SELECT id FROM documents WHERE id > ? ORDER BY id LIMIT {_FILLED_AT_ONCE}", (after,)
    ):
        after = rows[-1][0]
        sampled = [id for (id,) in rows if find_level(id)]
        for at in range(0, len(sampled), _SAMPLED_AT_ONCE):
            some = sampled[at : at + _SAMPLED_AT_ONCE]
            marks = ", ".join("?" * len(some))
            found = connection.query(f"SELECT id, terms FROM documents WHERE id IN ({marks})", some)
            # An older version in another process may replace a document meanwhile.
            statements = [
                update("documents", {"terms": changed}, {"id": id, "terms": terms})
                for id, terms in found
                if (changed := add_samples(id, terms)) != terms
            ]
            if statements:
                connection.commit(statements, None)


def find_table_problems(server: Server, connection: Connection) -> list[str]:
    """Return a sentence for each table with missing columns."""
    present = _load_columns(server, connection)
    return [
        f"The table {table} is {'damaged' if table in present else 'missing'}."
        for table, columns in COLUMNS.items()
        if not columns.keys() <= present.get(table, set())
    ]


def _load_columns(server: Server, connection: Connection) -> dict[str, set[str]]:
    """Return the columns of the tables whose names Sandbur uses."""
    found: dict[str, set[str]] = {}
    for table, column in connection.query(server.columns, ()):
        if table in COLUMNS:
            found.setdefault(table, set()).add(column)
    return found


def _read_version(connection: Connection) -> int | None:
    rows = connection.query("SELECT value FROM meta WHERE name = 'schema'", ())
    return int(rows[0][0]) if rows and str(rows[0][0]).isdigit() else None


def _require_free(server: Server, present: dict[str, set[str]]) -> None:
    """Raise `StoreError` for tables of another program. Tables with Sandbur's columns may be half created."""
    if others := sorted(table for table, columns in present.items() if columns != set(COLUMNS[table])):
        raise _make_foreign_error(server, others)


def _make_foreign_error(server: Server, tables: list[str]) -> StoreError:
    return StoreError(
        f"The database {server.name} has tables of another program: {', '.join(tables)}.", _OTHER
    )


def _make_creation(server: Server) -> list[Statement]:
    version = "INSERT INTO meta (name, value) VALUES ('schema', ?) ON CONFLICT (name) DO NOTHING"
    indexes = make_index_creations(server.title_start) if server.has_partial_indexes else ()
    created = [*make_tables(server, TABLES), *((creation, ()) for creation in indexes)]
    created += _create_text_index(server)
    return [*created, (version, (str(SCHEMA_VERSION),))]


def make_tables(server: Server, tables: Sequence[str]) -> list[Statement]:
    types = {"long_text": server.long_text, "blob": server.blob}
    texts = (
        create_if_missing(table).format(**types, indexes=_declare_indexes(server, table)) for table in tables
    )
    return [*server.creation_lock, *((f"{text}{server.table_suffix}", ()) for text in texts)]


def _create_text_index(server: Server) -> list[Statement]:
    searches = (server.text_index, server.document_search)
    return [(creation, ()) for search in searches if search for creation in search.creations]


def _declare_indexes(server: Server, creation: str) -> str:
    """Return the indexes as parts of CREATE TABLE, for servers on which they are not separate statements."""
    table = creation.split(maxsplit=3)[2]
    clauses = [] if server.has_partial_indexes else make_index_clauses(server.title_start, table)
    searches = {"session_texts": server.text_index, "documents": server.document_search}
    if (search := searches.get(table)) and search.clause:
        clauses.append(search.clause)
    return "".join(f", {clause}" for clause in clauses)
