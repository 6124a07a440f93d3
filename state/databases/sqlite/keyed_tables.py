"""The tables of an SQLite file: rows of records refer to their session by a small integer key.

Only this module knows the keys: each table is a view with the id of the session, and triggers change the rows
behind it. So every statement about `steps`, `messages` and the other tables is the same as on a server.
"""

from collections.abc import Iterable

from ..database import DocumentSearch, TextIndex
from ..schema import CHAINED, COLUMNS, KEYS, TABLES

KEYS_TABLE = "session_keys"
CREATE_KEYS = (
    # A key is never reused, so a row that was not deleted never becomes a row of another session.
    f"CREATE TABLE {KEYS_TABLE} (key INTEGER PRIMARY KEY AUTOINCREMENT, id VARCHAR(64) NOT NULL UNIQUE)"
)
HIDDEN_KEY = "an index is damaged and hides the session"
_TYPES = {"long_text": "TEXT", "blob": "BLOB", "indexes": ""}


_ADD = "INSERT INTO session_search (rowid, words) VALUES (NEW.number, NEW.words)"
_REMOVE = "INSERT INTO session_search (session_search, rowid, words) VALUES ('delete', OLD.number, OLD.words)"

TEXT_INDEX = TextIndex(
    condition="session_id IN (SELECT session_id FROM session_texts WHERE number IN"
    " (SELECT rowid FROM session_search WHERE session_search MATCH ?))",
    term='"{}"',
    creations=(
        # Without positions: no phrases are searched for. The words are stored once, in `session_texts`.
        "CREATE VIRTUAL TABLE IF NOT EXISTS session_search USING fts5(words, content='session_texts',"
        " content_rowid='number', detail=none, columnsize=0)",
        f"CREATE TRIGGER IF NOT EXISTS session_texts_added AFTER INSERT ON session_texts BEGIN {_ADD}; END",
        "CREATE TRIGGER IF NOT EXISTS session_texts_deleted AFTER DELETE ON session_texts"
        f" BEGIN {_REMOVE}; END",
        "CREATE TRIGGER IF NOT EXISTS session_texts_changed AFTER UPDATE ON session_texts"
        f" BEGIN {_REMOVE}; {_ADD}; END",
    ),
)
"""An FTS5 table over `session_texts`, which triggers keep up to date."""

_ADD_TERMS = "INSERT INTO documents_search (rowid, terms) VALUES (NEW.number, NEW.terms)"
_REMOVE_TERMS = (
    "INSERT INTO documents_search (documents_search, rowid, terms) VALUES ('delete', OLD.number, OLD.terms)"
)

DOCUMENT_SEARCH = DocumentSearch(
    key="number",
    # An unsorted search is lazy: it ends at the limit, however common the term is.
    find="SELECT rowid FROM documents_search WHERE documents_search MATCH ?",
    term='"{}"',
    prefix='"{}"*',
    one_of=" OR ",
    group="({})",
    all_of=" AND ",
    creations=(
        "CREATE VIRTUAL TABLE IF NOT EXISTS documents_search USING fts5(terms, content='documents',"
        " content_rowid='number', detail=none, columnsize=0, tokenize='ascii')",
        f"CREATE TRIGGER IF NOT EXISTS documents_added AFTER INSERT ON documents BEGIN {_ADD_TERMS}; END",
        "CREATE TRIGGER IF NOT EXISTS documents_deleted AFTER DELETE ON documents"
        f" BEGIN {_REMOVE_TERMS}; END",
        # A confirmed fact keeps its terms, and so its entries.
        "CREATE TRIGGER IF NOT EXISTS documents_changed AFTER UPDATE ON documents WHEN OLD.terms <> NEW.terms"
        f" BEGIN {_REMOVE_TERMS}; {_ADD_TERMS}; END",
        # Documents that a program without the index has written meanwhile.
        "INSERT INTO documents_search (documents_search) VALUES ('rebuild')",
    ),
)
"""An FTS5 table over `documents`, which triggers keep up to date."""

FULL_TEXT_TABLES = ("session_search", "documents_search")
"""The FTS5 tables, which keep the words of a deleted row until their segments are merged."""
_NUMBERED = {"session_texts": "session_id", "documents": "id"}
"""Tables whose full-text index refers to rows by a number, which VACUUM does not change; their keys."""


def name_rows(table: str) -> str:
    """Return the name of the table that the view `table` reads."""
    return f"{table}_by_key"


def create_everything() -> list[str]:
    """Return the statements that create all tables of a store in an empty file."""
    creations = [CREATE_KEYS]
    for table in COLUMNS:
        creations += [create_rows(table), *create_view(table)] if table in CHAINED else [create_plain(table)]
    return [*creations, create_deletion(CHAINED)]


def create_plain(table: str) -> str:
    """Return the statement that creates a table in which every row has the session's id."""
    text = TABLES[list(COLUMNS).index(table)].format(**_TYPES)
    if (key := _NUMBERED.get(table)) is None:
        return text
    text = text.replace(f" {key} ", f" number INTEGER PRIMARY KEY, {key} ", 1)
    return text.replace(f"PRIMARY KEY ({key})", f"UNIQUE ({key})", 1)


def create_rows(table: str) -> str:
    """Return the statement that creates the table that a view reads."""
    text = create_plain(table).replace(f"CREATE TABLE {table} ", f"CREATE TABLE {name_rows(table)} ", 1)
    text = text.replace(f"session_id {COLUMNS[table]['session_id']}", "session_key INTEGER NOT NULL", 1)
    return text.replace("PRIMARY KEY (session_id", "PRIMARY KEY (session_key", 1)


def create_view(table: str) -> list[str]:
    """Return the statements that create a view and its triggers."""
    columns, rows = list_columns(table), name_rows(table)
    names, values = ", ".join(columns), ", ".join(f"NEW.{column}" for column in columns)
    changes = ", ".join(f"{column} = NEW.{column}" for column in columns)
    key = f"(SELECT key FROM {KEYS_TABLE} WHERE id = {{}}.session_id)"
    new_key = f"COALESCE({key.format('NEW')}, RAISE(ABORT, '{HIDDEN_KEY}'))"
    insert = f"INSERT INTO {rows} (session_key, {names}) VALUES ({new_key}, {values})"
    this = " AND ".join(f"{column} = OLD.{column}" for column in KEYS[table])
    this = f"session_key = {key.format('OLD')} AND {this}"
    return [
        f"CREATE VIEW {table} AS {select_rows(table)}",
        # Only the first record of a session creates a key: if a damaged index hides the key, no second key
        # may be created.
        f"CREATE TRIGGER {table}_first INSTEAD OF INSERT ON {table} WHEN NEW.record IS 0 BEGIN"
        f" INSERT OR IGNORE INTO {KEYS_TABLE} (id) VALUES (NEW.session_id); {insert}; END",
        f"CREATE TRIGGER {table}_insert INSTEAD OF INSERT ON {table} WHEN NEW.record IS NOT 0 BEGIN"
        f" {insert}; END",
        f"CREATE TRIGGER {table}_update INSTEAD OF UPDATE ON {table} BEGIN"
        f" UPDATE {rows} SET session_key = {new_key}, {changes} WHERE {this}; END",
        f"CREATE TRIGGER {table}_delete INSTEAD OF DELETE ON {table} BEGIN"
        f" DELETE FROM {rows} WHERE {this}; END",
    ]


def create_deletion(tables: Iterable[str]) -> str:
    """Return the statement for the trigger that deletes a session's rows and key with the session.

    Deleting the rows of a view one by one would read all of them first.
    """
    key = f"(SELECT key FROM {KEYS_TABLE} WHERE id = OLD.id)"
    rows = "".join(f" DELETE FROM {name_rows(table)} WHERE session_key = {key};" for table in tables)
    return (
        f"CREATE TRIGGER sessions_delete AFTER DELETE ON sessions BEGIN{rows}"
        f" DELETE FROM {KEYS_TABLE} WHERE id = OLD.id; END"
    )


def list_columns(table: str) -> list[str]:
    """Return the columns of a table except the session."""
    return [column for column in COLUMNS[table] if column != "session_id"]


def select_rows(table: str) -> str:
    """Return the query of a view."""
    columns = ", ".join(f"r.{column}" for column in list_columns(table))
    return (
        f"SELECT k.id AS session_id, {columns}"
        f" FROM {name_rows(table)} r JOIN {KEYS_TABLE} k ON k.key = r.session_key"
    )


def scan_rows(table: str) -> str:
    """Return the query of a view without indexes."""
    columns = ", ".join(f"r.{column}" for column in list_columns(table))
    return (
        f"SELECT k.id AS session_id, {columns} FROM main.{name_rows(table)} r NOT INDEXED"
        # Each row finds its session by the row number, which needs no index.
        f" CROSS JOIN main.{KEYS_TABLE} k NOT INDEXED WHERE k.key = r.session_key"
    )
