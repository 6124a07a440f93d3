"""Stores the states of Burr applications. A step is one transaction with the changes of the step."""

import json
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ..databases.database import Database, GuardedUpdate, LateTables, Statement, open_database
from ..errors import StoreError
from .json_diff import diff
from .rows import (
    COLUMNS,
    TABLES,
    VERSION,
    AppKey,
    DamagedState,
    LoadedState,
    Row,
    apply_row,
    build_state,
    make_missing_error,
    make_transaction,
)

_MAX_BYTES = 32 * 1024 * 1024


class StateCache:
    """The newest known states, up to a number of bytes. The most recently used ones are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: OrderedDict[AppKey, LoadedState] = OrderedDict()
        self._bytes = 0

    def take(self, key: AppKey) -> LoadedState | None:
        with self._lock:
            known = self._states.pop(key, None)
            self._bytes -= known.size_bytes if known else 0
            return known

    def put(self, key: AppKey, known: LoadedState) -> None:
        self.take(key)
        with self._lock:
            self._states[key] = known
            self._bytes += known.size_bytes
            while self._bytes > _MAX_BYTES and len(self._states) > 1:
                self._bytes -= self._states.popitem(last=False)[1].size_bytes


class RisingClock:
    """A clock whose times always rise, so that the last write has the latest time even if the system clock
    stops.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = datetime.min.replace(tzinfo=UTC)

    def now(self) -> str:
        with self._lock:
            self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
            return self._last.isoformat(timespec="microseconds")


_NO_DIFFERENCE = '["{",{},[],null]'


class NotInitialized(StoreError, RuntimeError):
    """The tables are missing. It is a `RuntimeError`, too, as with Burr's own persisters."""


class Step(NamedTuple):
    """The data that Burr passes after a step. `fields` is the state as Burr serialized it."""

    key: AppKey
    sequence_id: int
    position: str
    status: str
    fields: dict[str, Any]


class Write(NamedTuple):
    """A step that is ready to be written."""

    step: Step
    known: LoadedState | None
    row: Row
    statements: Sequence[Statement]
    guard: GuardedUpdate


class BurrStates:
    """Saves and loads the states of any number of applications. Threads may share it.

    The known state of an application is removed from the cache while a step is written. Another writer, or
    the next call after an interruption, then reads the rows.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._known = StateCache()
        self._clock = RisingClock()
        self.tables = LateTables(database, "burr_states", VERSION, TABLES, "Burr states")

    def save(self, step: Step) -> None:
        """Commit one step. The same step may be saved again. Raises `StoreError` if another step has
        its id.
        """
        write = self._prepare(step)
        try:
            self.database.commit(write.statements, write.guard)
        except StoreError as error:
            self._accept_repeat(step, error)
        else:
            self._remember(write)

    async def asave(self, step: Step) -> None:
        """Do the same as `save` without blocking the event loop."""
        write = await self.database.offload(lambda: self._prepare(step))
        try:
            await self.database.acommit(write.statements, write.guard)
        except StoreError as error:
            failure = error
            await self.database.offload(lambda: self._accept_repeat(step, failure))
        else:
            self._remember(write)

    def load(self, key: AppKey, sequence_id: int | None = None) -> LoadedState | None:
        """Return the state after a step (default: the one with the highest id), or None if there is no such
        step.
        """
        self._require_tables()
        last = self._load_newest_row(key) if sequence_id is None else self._load_row(key, sequence_id)
        if last is None:
            return None
        rows = [last]
        if not last.is_snapshot:
            since = "app_hash = ? AND sequence_id >= ? AND sequence_id < ? ORDER BY sequence_id"
            rows = [*self._rows(since, key.app_hash, last.snapshot_id, last.sequence_id), last]
        return build_state(rows, key, self.database.name)

    def load_newest(self, partition: str) -> tuple[AppKey, LoadedState] | None:
        """Return the application that was saved last in a partition, with its state, or None if there is
        none.
        """
        rows = self._apps(partition, "LIMIT 1")
        if not rows:
            return None
        key = AppKey(partition, rows[0][0])
        known = self.load(key, int(rows[0][1]))
        if known is None:
            raise make_missing_error(int(rows[0][1]), key, self.database.name)
        return key, known

    def list_app_ids(self, partition: str) -> list[str]:
        """Return the applications of a partition, the most recently saved first."""
        return [row[0] for row in self._apps(partition)]

    def _prepare(self, step: Step) -> Write:
        """Prepare the statements that write a step."""
        self._require_tables()
        key = step.key
        known = self._known.take(key) or self._load_or_none(key)
        if known and (known.last.sequence_id >= step.sequence_id or known.wants_snapshot):
            known = None
        row = Row(
            sequence_id=step.sequence_id,
            previous_id=known.last.sequence_id if known else step.sequence_id,
            snapshot_id=known.last.snapshot_id if known else step.sequence_id,
            position=step.position,
            status=step.status,
            created_at=self._clock.now(),
            body=_encode(step, known),
        )
        row = row._replace(digest=row.digest_after(known.last.digest if known else "", key))
        return Write(step, known, row, *make_transaction(key, row))

    def _remember(self, write: Write) -> None:
        self._known.put(write.step.key, apply_row(write.known, write.row))

    def _accept_repeat(self, step: Step, error: StoreError) -> None:
        """Return if the same step is stored already. Raise a `StoreError` if another step has its id, else
        raise `error`.
        """
        there = self.load(step.key, step.sequence_id)
        if there is None:
            raise error
        is_same = (there.last.position, there.last.status) == (step.position, step.status)
        if not is_same or diff(there.fields, step.fields) is not None:
            raise StoreError(
                f"Application {step.key.app_id!r} has another step {step.sequence_id} already in"
                f" {self.database.name}; nothing was written.",
                "Another process runs it, or it was resumed from an older step: fork it to a new app_id.",
            ) from error

    def _load_or_none(self, key: AppKey) -> LoadedState | None:
        """Load the newest state, or return None if it is missing or damaged. The next step then becomes a
        snapshot.
        """
        try:
            return self.load(key)
        except DamagedState:
            return None

    def _load_newest_row(self, key: AppKey) -> Row | None:
        # This value is read first, so that a step that is saved meanwhile does not count as missing.
        promise = "SELECT sequence_id FROM burr_apps WHERE partition_hash = ? AND app_hash = ?"
        promised = self.database.query(promise, (key.partition_hash, key.app_hash))
        rows = self._rows("app_hash = ? ORDER BY sequence_id DESC LIMIT 1", key.app_hash)
        if promised and (not rows or rows[0].sequence_id < promised[0][0]):
            raise make_missing_error(int(promised[0][0]), key, self.database.name)
        return rows[0] if rows else None

    def _load_row(self, key: AppKey, sequence_id: int) -> Row | None:
        rows = self._rows("app_hash = ? AND sequence_id = ?", key.app_hash, sequence_id)
        if not rows:
            after = "app_hash = ? AND previous_id = ? LIMIT 1"
            if self._rows(after, key.app_hash, sequence_id):
                raise make_missing_error(sequence_id, key, self.database.name)
            return None
        return rows[0]

    def _rows(self, where: str, *parameters: Any) -> list[Row]:
        sql = f"SELECT {COLUMNS} FROM burr_states WHERE {where}"
        return [Row(*row) for row in self.database.query(sql, parameters)]

    def _apps(self, partition: str, limit: str = "") -> list[tuple[Any, ...]]:
        self._require_tables()
        sql = "SELECT app_id, sequence_id FROM burr_apps WHERE partition_hash = ? ORDER BY saved_at DESC"
        return self.database.query(f"{sql} {limit}", (AppKey(partition, "").partition_hash,))

    def _require_tables(self) -> None:
        if not self.tables.are_there():
            raise NotInitialized(
                f"Uninitialized persister: {self.database.name} has no tables for Burr states.",
                "Call initialize() on the persister first.",
            )


def _encode(step: Step, known: LoadedState | None) -> str:
    try:
        if known is None:
            return _json(step.fields)
        change = diff(known.fields, step.fields)
        return _json(change) if change else _NO_DIFFERENCE
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"Step {step.sequence_id} of application {step.key.app_id!r} cannot be saved: {error}.",
            "Register a serializer for that type with Burr, or keep the value out of the state.",
        ) from error


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


_inherited: list[object] = []
"""Connections that a forked child inherited. They stay open, because closing them would disturb the parent's
files.
"""


class SharedStates:
    """Shares one `BurrStates` between persisters. One of them closes it, or the last one when it is freed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._states: BurrStates | None = None
        self._process = os.getpid()
        self._is_closed = False

    @property
    def are_open(self) -> bool:
        return self._states is not None and self._process == os.getpid()

    def get(self) -> BurrStates:
        states = self._states
        if states is not None and self._process == os.getpid():
            return states
        with self._lock:
            if self._is_closed:
                raise StoreError("The persister is closed.", "Make a new one with from_url().")
            if self._states is None or self._process != os.getpid():
                _inherited.append(self._states)
                self._states = self._open()
                self._process = os.getpid()
            return self._states

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            states, self._states = self._states, None
            if states is not None and self._process == os.getpid():
                states.database.close()

    def _open(self) -> BurrStates:
        database = open_database(self._url)
        weakref.finalize(self, _close, database.close, os.getpid())
        return BurrStates(database)


def _close(close: Callable[[], None], process: int) -> None:
    if process == os.getpid():
        close()
