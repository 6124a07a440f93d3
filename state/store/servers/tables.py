"""The store's tables on a server: made by the first process that comes, checked by every other."""

import re

from state.errors import StoreError
from state.store.database import Statement
from state.store.schema import SCHEMA_VERSION, TABLES
from state.store.servers.server import Connection, Server

_UP_TO_DATE: Statement = ("UPDATE meta SET value = ? WHERE name = 'schema'", (str(SCHEMA_VERSION),))
_OTHER = "Name another database with --store, or another schema with the role's search_path."


def prepare(server: Server, connection: Connection) -> None:
    """Create the tables unless they are there; refuse those of other programs and of newer versions."""
    present = _present(server, connection)
    version = _version(connection) if present.get("meta") == _COLUMNS["meta"] else None
    if version is None:
        _require_free(server, present)
        connection.commit(_creation(server), None)
        version = _version(connection)
    if version is None:
        raise _foreign(server, ["meta"])
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"The store {server.name} was written by a newer Sandbur (schema {version},"
            f" this one knows {SCHEMA_VERSION}).",
            "Upgrade Sandbur, or name another store with --store.",
        )
    if version < SCHEMA_VERSION:
        # Version 3 added tables, and changed none.
        connection.commit([*_creation(server), _UP_TO_DATE], None)


def table_problems(server: Server, connection: Connection) -> list[str]:
    """Return a sentence for each table that is not as it was made."""
    present = _present(server, connection)
    return [
        f"The table {table} is {'damaged' if table in present else 'missing'}."
        for table, columns in _COLUMNS.items()
        if not columns <= present.get(table, set())
    ]


def _columns(table: str) -> tuple[str, set[str]]:
    name, body = re.findall(r"CREATE TABLE (\w+) \((.*)\)", table, flags=re.DOTALL)[0]
    words = re.findall(r"(?:^|,)\s*(\w+) (?!KEY)", body)
    return name, set(words)


_COLUMNS = dict(map(_columns, TABLES))


def _present(server: Server, connection: Connection) -> dict[str, set[str]]:
    """Return the columns of the tables that have a name of ours."""
    found: dict[str, set[str]] = {}
    for table, column in connection.query(server.columns, ()):
        if table in _COLUMNS:
            found.setdefault(table, set()).add(column)
    return found


def _version(connection: Connection) -> int | None:
    rows = connection.query("SELECT value FROM meta WHERE name = 'schema'", ())
    return int(rows[0][0]) if rows and str(rows[0][0]).isdigit() else None


def _require_free(server: Server, present: dict[str, set[str]]) -> None:
    """Tables that look like ours are ours: of a creation that is still going on, or that never ended."""
    if others := sorted(table for table, columns in present.items() if columns != _COLUMNS[table]):
        raise _foreign(server, others)


def _foreign(server: Server, tables: list[str]) -> StoreError:
    return StoreError(
        f"The database {server.name} has tables of another program: {', '.join(tables)}.", _OTHER
    )


def _creation(server: Server) -> list[Statement]:
    tables = [
        table.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1).format(
            long_text=server.long_text, blob=server.blob
        )
        + server.table_suffix
        for table in TABLES
    ]
    version = "INSERT INTO meta (name, value) VALUES ('schema', ?) ON CONFLICT (name) DO NOTHING"
    return [*server.creation_lock, *((table, ()) for table in tables), (version, (str(SCHEMA_VERSION),))]
