"""A memory of a program's own: facts in a SQLite file, found by a word that they contain."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from sandbur import MemoryChange, RecalledFact
from sandbur.actions.ports.capabilities import Verified


class SqliteMemory:
    """Implements `MemoryStore`. `on_added` is called between an insertion on disk and the end of `add`."""

    def __init__(self, path: Path, on_added: Callable[[], None] = lambda: None) -> None:
        self._path, self._on_added = path, on_added
        self.query("CREATE TABLE IF NOT EXISTS facts (id INTEGER PRIMARY KEY, text TEXT)")

    def query(self, sql: str, *values: object) -> list[tuple[int, str]]:
        connection = sqlite3.connect(self._path)
        try:
            with connection:
                return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    async def search(self, query: str, limit: int) -> Sequence[RecalledFact]:
        found = self.query("SELECT id, text FROM facts WHERE text LIKE ? LIMIT ?", f"%{query}%", limit)
        return [RecalledFact(f"f{id}", text, "2026-11-26", "notes.db") for id, text in found]

    async def add(self, text: str) -> str:
        ((id, _),) = self.query("INSERT INTO facts (text) VALUES (?) RETURNING id, text", text)
        self._on_added()
        return f"f{id}"

    async def update(self, id: str, text: str) -> None:
        if not self.query("UPDATE facts SET text = ? WHERE id = ? RETURNING id, text", text, id[1:]):
            raise LookupError(f"there is no fact {id}")

    async def delete(self, id: str) -> None:
        if not self.query("DELETE FROM facts WHERE id = ? RETURNING id, text", id[1:]):
            raise LookupError(f"there is no fact {id}")

    def read(self) -> list[str]:
        """Return the texts of all facts, the oldest one first."""
        return [text for _, text in self.query("SELECT id, text FROM facts ORDER BY id")]


class CheckedSqliteMemory(SqliteMemory):
    """Implements `VerifiableMemoryStore`: an added text can be found again."""

    async def verify(self, change: MemoryChange) -> Verified:
        if change.command != "add":
            return "unknown"
        return "done" if change.text in self.read() else "not_done"
