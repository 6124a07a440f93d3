"""Tests of the transactions that every database of the store has to pass, for a class that inherits them."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import GuardFailed, StoreError
from .database import Database, GuardedUpdate, insert, open_database

_TEXTS = (
    "",
    'it\'s "quoted" `so` %s ? \\ \n\t 100%',
    "'); DROP TABLE messages; --",
    "\N{GRINNING FACE} 登录",
)
_MESSAGE = "INSERT INTO messages (session_id, log, idx, body, record, digest) VALUES (?, 0, ?, ?, ?, '')"
_OUTPUT = "INSERT INTO outputs (session_id, call_id, chunk, body, record, digest) VALUES (?, ?, 0, ?, 0, '')"
_WRITERS, _ROUNDS = 4, 5
_HEAD = insert(
    "heads",
    {
        "session_id": "s", "title": "", "status": "new", "updated_at": "", "wake_at": "", "last_seq": -1,
        "records": 0, "chain": "", "owner": "", "epoch": 0, "lease_until": "",
    },
)  # fmt: skip


class DatabaseAcceptance(ABC):
    """Tests of the transactions of a database that `make_url` names."""

    @abstractmethod
    def make_url(self, folder: Path) -> str:
        """Return the URL of an empty database; `folder` is empty and belongs to the test."""

    def test_values_come_back_as_they_were_written(self, tmp_path: Path) -> None:
        with self._database(tmp_path) as database:
            every = bytes(range(256)) * 400
            for number, text in enumerate(_TEXTS):
                database.commit([(_MESSAGE, ("s", number, text, number))])
            database.commit([_put("key", every)])
            rows = database.query("SELECT body FROM messages WHERE session_id = ? ORDER BY idx", ("s",))
            assert [row[0] for row in rows] == list(_TEXTS)
            assert bytes(database.query("SELECT body FROM outputs")[0][0]) == every

    def test_a_transaction_happens_wholly_or_not_at_all(self, tmp_path: Path) -> None:
        with self._database(tmp_path) as database:
            database.commit([_put("one", b"1")])
            self._expect(StoreError, lambda: database.commit([_put("two", b"2"), _put("one", b"again")]))
            assert _keys(database) == ["one"]

    def test_a_guard_that_changes_no_row_refuses_its_transaction(self, tmp_path: Path) -> None:
        with self._database(tmp_path) as database:
            database.commit([_HEAD])
            database.commit([_put("one", b"1")], _make_guard(0))
            self._expect(GuardFailed, lambda: database.commit([_put("two", b"2")], _make_guard(0)))
            database.commit([_put("three", b"3")], _make_guard(1))
            assert _keys(database) == ["one", "three"]

    def test_of_many_threads_one_wins_each_round(self, tmp_path: Path) -> None:
        with self._database(tmp_path) as database:
            database.commit([_HEAD])
            won: list[str] = []

            def write(writer: int) -> None:
                for round_number in range(_ROUNDS):
                    try:
                        key = f"{round_number}.{writer}"
                        database.commit([_put(key, b"x")], _make_guard(round_number))
                        won.append(key)
                    except GuardFailed:
                        continue

            threads = [threading.Thread(target=write, args=(writer,)) for writer in range(_WRITERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(won) == _keys(database)
            assert len({key.partition(".")[0] for key in won}) == len(won)

    @contextmanager
    def _database(self, folder: Path) -> Generator[Database]:
        database = open_database(self.make_url(folder))
        try:
            yield database
        finally:
            database.close()

    def _expect(self, error: type[Exception], work: Callable[[], object]) -> None:
        try:
            work()
        except error:
            return
        raise AssertionError(f"{error.__name__} was not raised.")


def _put(key: str, body: bytes) -> tuple[str, Sequence[Any]]:
    return _OUTPUT, ("s", key, body)


def _make_guard(records: int) -> GuardedUpdate:
    update = "UPDATE heads SET records = ? WHERE session_id = 's' AND records = ?"
    landed = "SELECT 1 FROM heads WHERE session_id = 's' AND records = ?"
    return GuardedUpdate((update, (records + 1, records)), (landed, (records + 1,)))


def _keys(database: Database) -> list[str]:
    return [row[0] for row in database.query("SELECT call_id FROM outputs ORDER BY call_id")]
