"""An SQLite database, which is opened safely and written in durable transactions. Errors are translated."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import GuardFailed, StoreError
from ...process.crashpoints import reach
from ..database import (
    COMMITS,
    DocumentSearch,
    Durability,
    GuardedUpdate,
    ResultT,
    Sealer,
    Statement,
    find_listener,
    ignore_notice,
    insert,
    make_loop_listener,
    require_readable,
)
from ..file_parts import read_file_parts
from ..schema import SCHEMA_VERSION, create_if_missing, make_index_creations
from .keyed_tables import (
    DOCUMENT_SEARCH,
    FULL_TEXT_TABLES,
    HIDDEN_KEY,
    TEXT_INDEX,
    create_everything,
)
from .lock_holder import LockWait, is_lock
from .migrations import DamagedTable, migrate
from .row_reader import accept_any_text, fetch_rows
from .store_file import StoreFile, StorePlace
from .store_memory import MEMORY, find_memory
from .unindexed import (
    CANNOT_REBUILD,
    NOTICE,
    REBUILD,
    check_integrity,
    hide_indexes,
    is_damage,
    name_damaged_indexes,
    use_indexes,
)

if TYPE_CHECKING:
    from ..group_commit import GroupWriter, Job

_PAGE_BYTES = 1024
"""The page size of a new store. A commit writes whole pages, but changes only some hundred bytes in each."""
_LOG_PAGES = 2 * 1024 * 1024 // _PAGE_BYTES
"""The number of pages in the write-ahead log before a checkpoint."""
_MAKE_WRITABLE = "Make the file and its folder writable, or name another file with --store."
_RESTORE = "Restore it from a backup, or name another file with --store."
_ADVICE = {
    "readonly": _MAKE_WRITABLE,
    "unable to open": _MAKE_WRITABLE,
    "full": "Free some disk space, then resume.",
    "not a database": _RESTORE,
    HIDDEN_KEY: f"Rebuild it: {REBUILD}",
    "malformed": f"See what is damaged: sandbur doctor. {_RESTORE}",
}


_MAY_BE_LIMITS = ("disk I/O error", "unable to open", "full")
"""SQLite does not say which limit of the process it ran into."""


class SqliteDatabase:
    """A connection in WAL mode. With durability `full`, a finished commit survives a power loss."""

    def __init__(
        self,
        path: Path | StorePlace,
        on_notice: Callable[[str], None] | None = None,
        durability: Durability = "full",
    ) -> None:
        self._durability = durability
        self.on_notice = on_notice or ignore_notice
        self.sealer: Sealer | None = None
        self._reader: sqlite3.Connection | None = None
        """A connection that reads while the other one writes. It is opened at the first commit from an event
        loop.
        """
        self._reading = threading.Lock()
        self._is_unindexed = False
        """Whether an index is damaged, so that the reader scans the tables."""
        self._writer: GroupWriter | None = None
        self._making_writer = threading.Lock()
        self._file = StoreFile(path) if isinstance(path, Path) else path
        self.name = self._file.name
        self.is_volatile = self._file.is_volatile
        self._lock = self._file.lock
        """Threads share the connection: each waits for this lock."""
        with self._translate_errors():
            self._connection = self._file.connect()
        with ExitStack() as undo:
            undo.callback(self._file.close, self._connection)
            with self._lock:
                self._prepare()
            undo.pop_all()
        self.body = self._file.body
        self._file.make_private()

    has_clock = False
    skip_locked = ""
    """One process at a time updates a file."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def notify(self, channel: str) -> list[Statement]:
        return []

    def listen(self, channel: str, hint: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    text_index = TEXT_INDEX
    document_search: DocumentSearch | None = DOCUMENT_SEARCH

    def make_creation(self, tables: Sequence[str]) -> list[Statement]:
        types = {"long_text": "TEXT", "blob": "BLOB", "indexes": ""}
        return [(create_if_missing(table).format(**types), ()) for table in tables]

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._query(sql, parameters)
        except (sqlite3.Error, UnicodeDecodeError):
            # Most queries need neither a wait nor a search for the reason.
            return self._wait_for_lock(lambda: self._query_or_scan(sql, parameters))

    def commit(self, statements: Sequence[Statement], guard: GuardedUpdate | None = None) -> None:
        self._wait_for_lock(lambda: self._commit(statements, guard))

    async def acommit(self, statements: Sequence[Statement], guard: GuardedUpdate | None = None) -> None:
        # A process that only reads needs neither threads nor an event loop.
        from ..group_commit import GroupWriter, Job

        job = Job(statements, guard, make_loop_listener(find_listener(self.on_notice)))
        with self._translate_errors():
            self._open_reader()
            if not self._start_writer(GroupWriter).take(job):
                await job.yield_to_loop()
                self._commit_all([job])
                job.answer()
            await job.outcome()

    async def offload(self, work: Callable[[], ResultT]) -> ResultT:
        # A query of a local file takes less time than the start of a thread.
        return work()

    def create_text_index(self) -> None:
        self._create_index("session_texts_changed", TEXT_INDEX.creations)

    def create_document_search(self) -> None:
        self._create_index("documents_changed", DOCUMENT_SEARCH.creations)

    def _create_index(self, last: str, creations: Sequence[str]) -> None:
        """Create a full-text index, unless its `last` part is there."""
        if not self.query("SELECT 1 FROM sqlite_master WHERE name = ?", (last,)):
            self.commit([(text, ()) for text in creations])

    def find_problems(self) -> list[str]:
        return self._wait_for_lock(partial(self._use_connection, check_integrity))

    def find_damaged_indexes(self) -> list[str]:
        return self._wait_for_lock(partial(self._use_connection, name_damaged_indexes))

    def reindex(self) -> None:
        try:
            self._wait_for_lock(partial(self._run, "REINDEX"))
        except StoreError as error:
            hint = CANNOT_REBUILD if self.find_damaged_indexes() else error.hint
            raise StoreError(error.message, hint) from error
        with self._reading:
            if self._reader is not None:
                use_indexes(self._reader)
            self._is_unindexed = False

    def read_again(self, work: Callable[[], ResultT], is_better: Callable[[ResultT], bool]) -> ResultT | None:
        self._open_reader()
        with self._reading:
            if self._reader is None or self._is_unindexed:
                return None
            self._is_unindexed = True
            hide_indexes(self._reader)
        with suppress(StoreError, sqlite3.Error):
            if is_better(found := work()):
                find_listener(self.on_notice)(NOTICE.format(name=self.name))
                return found
        with self._reading:
            use_indexes(self._reader)
            self._is_unindexed = False
        return None

    def compact(self) -> None:
        marks = ", ".join("?" * len(FULL_TEXT_TABLES))
        found = self.query(f"SELECT name FROM sqlite_master WHERE name IN ({marks})", FULL_TEXT_TABLES)
        merges = [f"INSERT INTO {name} ({name}) VALUES ('optimize')" for (name,) in found]
        for sql in (*merges, "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            self._wait_for_lock(partial(self._run, sql))

    def _use_connection(self, work: Callable[[sqlite3.Connection], ResultT]) -> ResultT:
        with self._lock:
            return work(self._connection)

    def _run(self, sql: str) -> None:
        with self._lock:
            self._connection.execute(sql)

    def _start_writer(self, kind: type[GroupWriter]) -> GroupWriter:
        with self._making_writer:
            if self._writer is None:
                self._writer = kind(self._commit_all)
            return self._writer

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        with self._translate_errors():
            self._file.close(self._connection)
            if self._reader is not None:
                self._reader.close()

    def write_mark(self, session_id: str, records: int) -> None:
        self._file.write_mark(session_id, records)

    def read_mark(self, session_id: str) -> int:
        return self._file.read_mark(session_id)

    def _query_or_scan(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run a query, without indexes if one of them is damaged."""
        try:
            return self._query(sql, parameters)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            found = self.read_again(lambda: self._query(sql, parameters), lambda _: True)
            if found is None:
                raise
            return found

    def _query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        if self._reader is None:
            with self._lock:
                return fetch_rows(self._connection, sql, parameters)
        with self._reading:
            return fetch_rows(self._reader, sql, parameters)

    def _open_reader(self) -> None:
        """Open a connection that can read while a commit is written to the disk."""
        if self._reader is not None:
            return
        # If it cannot be opened, one connection reads and writes.
        with self._reading, suppress(sqlite3.Error):
            if self._reader is None:
                self._reader = self._file.connect_reader()

    def _commit(self, statements: Sequence[Statement], guard: GuardedUpdate | None) -> None:
        self._file.require_same()
        with self._lock, self._transaction():
            self._apply(statements, guard)

    def _apply(self, statements: Sequence[Statement], guard: GuardedUpdate | None) -> None:
        if guard is not None and self._connection.execute(*guard.claim).rowcount != 1:
            self._require_indexes()
            raise GuardFailed(f"The store {self.name} was changed by another process.")
        for sql, parameters in statements:
            self._connection.execute(sql, read_file_parts(parameters))
        reach("store_in_transaction")

    def _commit_all(self, jobs: Sequence[Job]) -> None:
        """Commit jobs together and settle each of them. If another process has a lock, wait for it."""
        waiting = LockWait(lambda: self._tell_each(jobs))
        while jobs := [job for job in jobs if not job.is_settled]:
            for job in jobs:
                if job.is_given_up:
                    job.cancel()
            try:
                self._commit_together([job for job in jobs if not job.is_settled])
            except sqlite3.OperationalError as error:
                time.sleep(waiting.pause_after(error))

    def _commit_together(self, jobs: Sequence[Job]) -> None:
        """Commit jobs in one transaction, except those that fail, and settle each of them."""
        if len(jobs) < 2:
            for job in jobs:
                self._commit_alone(job)
            return
        failed: dict[Job, Exception] = {}
        self._file.require_same()
        with self._lock, self._transaction():
            for job in jobs:
                if error := self._run_in_savepoint(job):
                    failed[job] = error
                if not self._connection.in_transaction:
                    break
            is_whole = self._connection.in_transaction
        if is_whole:
            for job in jobs:
                job.settle(failed.get(job))
            return
        # The failure rolled the whole transaction back, so each job is committed alone.
        for job in jobs:
            self._commit_alone(job)

    def _commit_alone(self, job: Job) -> None:
        error = job.run(self._commit)
        if isinstance(error, sqlite3.OperationalError) and is_lock(error):
            raise error
        job.settle(error)

    def _run_in_savepoint(self, job: Job) -> Exception | None:
        """Run a job inside the transaction. If it fails, roll the job back and return its error."""
        self._connection.execute("SAVEPOINT job")
        error = job.run(self._apply)
        if self._connection.in_transaction:
            if error is not None:
                self._connection.execute("ROLLBACK TO job")
            self._connection.execute("RELEASE job")
        return error

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            if self._connection.in_transaction:
                self._connection.execute("COMMIT")
        except BaseException:  # Ctrl-C, too: nothing of the transaction may stay
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        finally:
            COMMITS.advance()

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            reason = str(error)
            if any(word in reason for word in _MAY_BE_LIMITS) and (limit := self._file.find_limit()):
                what = f"The store {self.name} cannot be written: the system allows {limit[0]}."
                raise StoreError(what, f"Raise the limit: {limit[1]}") from error
            if "disk I/O error" in reason and self._file.is_disk_full():
                reason = "database or disk is full"
            raise StoreError(f"The store {self.name} failed: {reason}.", self._advise(reason)) from error
        except UnicodeDecodeError as error:
            # SQLite names a table or an index in its message, and the name is damaged.
            reason = "the descriptions of its tables are malformed"
            raise StoreError(f"The store {self.name} failed: {reason}.", self._advise(reason)) from error

    def _wait_for_lock(self, work: Callable[[], ResultT]) -> ResultT:
        waiting = LockWait(self._tell)
        with self._translate_errors():
            while True:
                try:
                    return work()
                except sqlite3.OperationalError as error:
                    time.sleep(waiting.pause_after(error))

    def _tell(self) -> None:
        find_listener(self.on_notice)(self._lock_notice())

    def _tell_each(self, jobs: Sequence[Job]) -> None:
        notice = self._lock_notice()
        for job in jobs:
            job.tell(notice)

    def _lock_notice(self) -> str:
        holder = self._file.find_lock_holder()
        who = holder or "Another process"
        advice = f" {holder.advice}" if holder is not None and holder.is_stopped else ""
        return f"{who} has the store {self.name} locked; waiting for it.{advice}"

    def _advise(self, reason: str) -> str:
        if "locked" in reason:
            holder = self._file.find_lock_holder()
            if holder is None:
                return "Another process holds it; try again when it has finished."
            return f"{holder} holds it. {holder.advice}"
        if "malformed" in reason and self._has_damaged_index():
            return f"Only an index is damaged. Rebuild it: {REBUILD}"
        known = (text for word, text in _ADVICE.items() if word in reason)
        return next(known, "Check the file and its folder with `sandbur doctor`.")

    def _has_damaged_index(self) -> bool:
        """Return whether indexes are damaged and all rows can be read."""
        with suppress(sqlite3.Error, UnicodeDecodeError):
            return bool(self._use_connection(name_damaged_indexes))
        return False

    def _require_indexes(self) -> None:
        """Raise `StoreError` if a damaged index may hide the row that was not found."""
        if self._is_unindexed:
            raise StoreError(f"An index of the store {self.name} is damaged.", f"Rebuild it: {REBUILD}")

    def _prepare(self) -> None:
        """Set the database up. A file of another program is refused before anything in it changes."""
        is_ours = self._is_ours()
        if not is_ours:
            self._require_new()
        for sql in (
            f"PRAGMA page_size = {_PAGE_BYTES}",  # has no effect on a file with content
            "PRAGMA journal_mode = WAL",
            f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}",
            f"PRAGMA synchronous = {self._durability}",
        ):
            self._wait_for_lock(partial(self._connection.execute, sql))
        if not is_ours:
            self._wait_for_lock(self._create)
        self._bring_up_to_date()

    def _require_new(self) -> None:
        names = [row[0] for row in self.query("SELECT name FROM sqlite_master")]
        is_used = any(not name.startswith(("burr_", "sqlite_")) for name in names)
        # Another process may have created the store since this check.
        if is_used and not self._is_ours():
            raise StoreError(
                f"{self.name} is a database of another program.", "Name another file with --store."
            )
        if not names:
            self._file.require_unused()

    def _bring_up_to_date(self) -> None:
        asked = partial(self.query, "SELECT value FROM meta WHERE name = 'schema'")
        rows = asked() or self.read_again(asked, bool)
        if not rows:
            raise self._make_version_error()
        version = self._read_version(rows[0][0])
        require_readable(self.name, version)
        if version < SCHEMA_VERSION:
            self._wait_for_lock(self._migrate)
            reach("migration_committed")
            # This frees the space of the old rows. If another process uses the store now, new records will
            # use the space.
            with suppress(sqlite3.Error):
                self._run("VACUUM")
                self._run("PRAGMA wal_checkpoint(TRUNCATE)")

    def _read_version(self, value: str) -> int:
        if not (value.isascii() and value.isdigit()):
            raise self._make_version_error()
        return int(value)

    def _make_version_error(self) -> StoreError:
        return StoreError(f"The store {self.name} is damaged: it does not say its version.", _RESTORE)

    def _migrate(self) -> None:
        damaged: set[str] = set()
        while True:
            try:
                # The digests of damaged texts are those of their bytes.
                with self._transaction(), accept_any_text(self._connection):
                    migrate(self._connection, damaged, self.name, find_listener(self.on_notice))
                return
            except DamagedTable as error:
                damaged.add(error.table)

    def _is_ours(self) -> bool:
        return bool(self.query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'"))

    def _create(self) -> None:
        with self._transaction():
            # If several processes start for the first time, only one creates the tables.
            if not self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
                version = insert("meta", {"name": "schema", "value": str(SCHEMA_VERSION)})
                for creation in (*create_everything(), *make_index_creations("title")):
                    self._connection.execute(creation)
                self._connection.execute(*version)


SQLITE = "sqlite:///"


def open_sqlite(url: str, on_notice: Callable[[str], None] | None, durability: Durability) -> SqliteDatabase:
    """Open `sqlite:///PATH`, `memory:` or `memory:NAME`."""
    place = find_memory(url) if url.startswith(MEMORY) else Path(url.removeprefix(SQLITE))
    return SqliteDatabase(place, on_notice, durability)
