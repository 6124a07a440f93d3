"""The tables of Burr states, and the conversion of rows to states."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ..databases.damaged_values import encode_value
from ..databases.database import GuardedUpdate, Statement
from ..errors import StoreError
from ..lazy_dataclass import dataclass
from .json_diff import apply

VERSION = 1

TABLES = (
    # There is one row per application. `saved_at` and `sequence_id` are those of the state row that was
    # written last.
    """CREATE TABLE burr_apps (
        partition_hash VARCHAR(32) NOT NULL,
        app_hash VARCHAR(32) NOT NULL,
        partition_key {long_text} NOT NULL,
        app_id {long_text} NOT NULL,
        saved_at VARCHAR(32) NOT NULL,
        sequence_id BIGINT NOT NULL,
        PRIMARY KEY (partition_hash, app_hash))""",
    # Rows never change. `body` is the difference to the state of `previous_id`. In a snapshot, whose
    # `snapshot_id` is its own id, it is the complete state. The keys are hashes, because databases limit the
    # length of ids and may treat two ids as one ("a" and "a " on MySQL).
    """CREATE TABLE burr_states (
        app_hash VARCHAR(32) NOT NULL,
        sequence_id BIGINT NOT NULL,
        previous_id BIGINT NOT NULL,
        snapshot_id BIGINT NOT NULL,
        position {long_text} NOT NULL,
        status {long_text} NOT NULL,
        created_at VARCHAR(32) NOT NULL,
        body {long_text} NOT NULL,
        digest VARCHAR(32) NOT NULL,
        PRIMARY KEY (app_hash, sequence_id))""",
)

COLUMNS = "sequence_id, previous_id, snapshot_id, position, status, created_at, body, digest"
_ROW_OVERHEAD_BYTES = 256
"""The bytes that are added for each row, so that many tiny steps also lead to a snapshot."""
_MIN_SNAPSHOT_GAP_BYTES = 4096
_FORK = "(initialize_from: fork_from_app_id, fork_from_sequence_id)"


class DamagedState(StoreError):
    """Rows of a state are missing or damaged."""


@dataclass(frozen=True)
class AppKey:
    """The key of an application to which a state belongs."""

    partition: str
    app_id: str

    @cached_property
    def partition_hash(self) -> str:
        return digest_of(json.dumps(self.partition))

    @cached_property
    def app_hash(self) -> str:
        return digest_of(json.dumps([self.partition, self.app_id]))


class Row(NamedTuple):
    """One row of `burr_states`, which is one step."""

    sequence_id: int
    previous_id: int
    snapshot_id: int
    position: str
    status: str
    created_at: str
    body: str
    digest: str = ""

    @property
    def is_snapshot(self) -> bool:
        return self.snapshot_id == self.sequence_id

    @property
    def size_bytes(self) -> int:
        return len(self.body) + _ROW_OVERHEAD_BYTES

    def digest_after(self, digest: str, key: AppKey) -> str:
        """Return the digest of this row if it follows a row with `digest` (empty before a snapshot)."""
        return digest_of(json.dumps([digest, key.app_hash, *self[:6]]) + self.body)


@dataclass(frozen=True, slots=True)
class LoadedState:
    """A state as it was loaded from the rows, and the size of these rows."""

    last: Row
    """The last row, without its body."""
    fields: dict[str, Any]
    snapshot_bytes: int
    delta_bytes: int = 0

    @property
    def wants_snapshot(self) -> bool:
        return self.delta_bytes > max(self.snapshot_bytes, _MIN_SNAPSHOT_GAP_BYTES)

    @property
    def size_bytes(self) -> int:
        return self.snapshot_bytes + self.delta_bytes


def digest_of(text: str) -> str:
    return hashlib.blake2b(encode_value(text), digest_size=16).hexdigest()


def apply_row(known: LoadedState | None, row: Row) -> LoadedState:
    """Return the state after `row`. The fields of `known` are changed in place."""
    content = json.loads(row.body)
    last = row._replace(body="")
    if known is None:
        return LoadedState(last, content, row.size_bytes)
    fields = apply(known.fields, content)
    return LoadedState(last, fields, known.snapshot_bytes, known.delta_bytes + row.size_bytes)


def build_state(rows: Sequence[Row], key: AppKey, store: str) -> LoadedState:
    """Return the state after the last of `rows`, which begin with its snapshot. Raises `DamagedState`."""
    known: LoadedState | None = None
    for row in _order_chain(rows, key, store):
        digest = known.last.digest if known else ""
        try:
            if row.digest != row.digest_after(digest, key):
                raise ValueError("not what was written")
            known = apply_row(known, row)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise _make_damage_error(row, known.last if known else None, key, store) from error
    assert known is not None
    return known


def make_transaction(key: AppKey, row: Row) -> tuple[Sequence[Statement], GuardedUpdate]:
    """Return the statements that write a row once. The insert itself is the guard, because its key is
    unique.
    """
    marks = ", ".join("?" * (1 + len(row)))
    insert = f"INSERT INTO burr_states (app_hash, {COLUMNS}) VALUES ({marks})"
    landed = "SELECT 1 FROM burr_states WHERE app_hash = ? AND sequence_id = ? AND digest = ?"
    guard = GuardedUpdate(
        (insert, (key.app_hash, *row)), (landed, (key.app_hash, row.sequence_id, row.digest))
    )
    app = (
        "INSERT INTO burr_apps (partition_hash, app_hash, partition_key, app_id, saved_at, sequence_id)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (partition_hash, app_hash)"
        " DO UPDATE SET saved_at = excluded.saved_at, sequence_id = excluded.sequence_id"
    )
    ids = (key.partition_hash, key.app_hash, key.partition, key.app_id)
    return [(app, (*ids, row.created_at, row.sequence_id))], guard


def _order_chain(rows: Sequence[Row], key: AppKey, store: str) -> Iterator[Row]:
    """Yield the snapshot and the rows that are based on it. Other rows may belong to another snapshot."""
    by_id = {row.sequence_id: row for row in rows}
    chain = [rows[-1]]
    while not (row := chain[-1]).is_snapshot:
        before = by_id.get(row.previous_id)
        if before is None or before.sequence_id >= row.sequence_id:
            raise _make_damage_error(row, None, key, store)
        chain.append(before)
    return reversed(chain)


def make_missing_error(sequence_id: int, key: AppKey, store: str) -> DamagedState:
    return DamagedState(
        f"Step {sequence_id} of application {key.app_id!r} is missing in {store}.",
        f"Fork from an older step. {_FORK}",
    )


def _make_damage_error(row: Row, good: Row | None, key: AppKey, store: str) -> DamagedState:
    hint = f"Fork from step {good.sequence_id}, the last valid one." if good else "Fork from an older step."
    return DamagedState(
        f"Step {row.sequence_id} of application {key.app_id!r} is damaged in {store}, or rows before it are.",
        f"{hint} {_FORK}",
    )
