"""Writes one session. Knows the records on disk, and so the records that the next step must add."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

from pydantic import BaseModel

from ..application import ApplicationState, InboxTaken
from ..conversation.content import Attachment
from ..databases.chain import Chain, Entry, make_first_digest
from ..databases.damaged_values import encode_value
from ..databases.database import Database, GuardedUpdate, Statement
from ..errors import GuardFailed, SessionHeld, StoreError, make_damage_error
from ..process.cancellation import run_to_end
from ..process.clock import now
from ..process.crashpoints import reach
from .deltas import WrittenFields, decode_fields
from .files.contents import insert_uses
from .message_log import SessionLogs, list_calls_after
from .recording import load_state
from .seals import AT_REST, Seal, SealedEnd, load_head_with_seals, note_verified, write_marks
from .sessions.claims import make_wake_at
from .sessions.lease import Claim, make_head_update, make_held_error, make_lease_end, make_moved_error
from .sessions.settings_proof import digest_row, has_only_settings, load_parent, load_row_digest

_MIN_SNAPSHOT_GAP_BYTES = 8192
_LONGEST_HELD_S = 1.0
"""The most seconds that a step may wait for the commit with which it should be written."""


class Queued(NamedTuple):
    """A row that waits for the next commit."""

    alone: Entry
    with_step: Entry
    """The row that is written in place of `alone` if the commit is a step."""


class _Batch(NamedTuple):
    """One transaction, and the number of elements that it contains from each queue."""

    statements: list[Statement]
    held: int
    queued: int
    loose: int
    on_commit: int


class SessionWriter:
    """Writes each step as the changed fields, or as a snapshot when the changes become larger than a
    snapshot.

    Every transaction is guarded by the epoch of this process's claim and by the end of the hash chain: it
    happens once, directly after the rows that this process knows, or not at all.
    """

    def __init__(self, database: Database, session_id: str, model: type[BaseModel]) -> None:
        self.session_id = session_id
        self.logs = SessionLogs(database, session_id)
        self.last_seq = -1
        """The newest step that this process has read, written, or holds for the next commit."""
        self.is_foreign = False
        """Whether the loaded step ran in another store, so that no person in this store has approved
        anything.
        """
        self.lost_calls: tuple[str, ...] = ()
        """The calls that were started after the last valid step, as texts for the model."""
        self.claim: Claim | None = None
        """The claim that the next commit takes; None if there is none."""
        self.epoch: int | None = None
        """The epoch of this process's claim; None while it only reads."""
        self.is_whole: bool
        """Whether all records up to the end of the chain are known to be valid."""
        self.parent = load_parent(database, session_id)
        """The session and the step that a fork continues."""
        self._row_digest = ""
        """The digest of the session's row as this process has written it; empty if it has not."""
        self.chain, seals = load_head_with_seals(database, session_id) or (
            Chain(0, make_first_digest(session_id)),
            [],
        )
        self.is_whole = self.chain.records == 0 or has_only_settings(database, session_id, self.chain)
        self._seal_end = SealedEnd(database, session_id, self.chain, seals)
        self._database = database
        self._model = model
        self._fields = WrittenFields(model, self.logs)
        self._loaded_steps = b""
        """A digest of the newest snapshot and the steps after it."""
        self._expected = ""
        """The expected digest of the rows that are loaded next; empty if it is unknown, or was compared."""
        self._delta_bytes = 0
        self._snapshot_bytes = 0
        self._held: list[Entry] = []
        """The rows of a step that is committed together with the rows that follow it."""
        self._overdue: asyncio.TimerHandle | None = None
        self._late: asyncio.Future[None] | None = None
        self._queue: list[Queued] = []
        self._loose: list[Statement] = []
        self._queued_files: set[str] = set()
        """The digests of contents that are queued or written already."""
        self._on_commit: list[Callable[[], None]] = []
        self._lock = asyncio.Lock()
        self.has_ended_run = False
        """Whether a run of the session has ended in this process."""

    @property
    def is_new(self) -> bool:
        """Return whether the session has no step yet."""
        return self._fields.is_empty

    def copy_checks(self, earlier: SessionWriter) -> None:
        """Copy the knowledge of `earlier` about the condition of this session's records."""
        self.is_whole = earlier.is_whole and earlier.chain == self.chain
        self.logs.is_unchecked = earlier.logs.is_unchecked

    def trust(self, expected: str, is_whole: bool = True) -> None:
        """Set the digest that the rows loaded next must have. If it is empty, all records were checked, and
        `is_whole` is the result.
        """
        self.is_whole, self._expected, self.logs.is_unchecked = is_whole, expected, bool(expected)

    def require_expected(self, values: Mapping[str, Any]) -> None:
        """Raise `DamagedRecords` if the loaded rows do not have the expected digest."""
        expected, self._expected = self._expected, ""
        row = load_row_digest(self._database, self.session_id) if expected else ""
        if expected and self._digest_loaded(values, row) != expected:
            raise make_damage_error(self.session_id)

    def _digest_loaded(self, values: Mapping[str, Any], row_digest: str) -> str:
        """Return a digest of the rows from which these fields are loaded, and of the session's own row."""
        state = ApplicationState.model_construct(**values)
        histories = (state.chat_history, state.active_history)
        parts = [row_digest.encode(), self._loaded_steps]
        parts += (self.logs.digest_history(history) for history in histories)
        return blake2b(b"".join(parts), digest_size=20).hexdigest()

    def load(self, seq: int | None = None) -> tuple[int, str, str, dict[str, Any]] | None:
        """Return (seq, position, time, fields) after step `seq` (default: the newest)."""
        found = load_state(self._database, self.session_id, seq)
        if found is None:
            # If every step is damaged, the next one is a snapshot after their numbers.
            self.last_seq = self._newest_seq()
            return None
        values = decode_fields(self._model, dict(found.fields), self.logs)
        last = found.rows[-1]
        self._loaded_steps = b""
        for row in found.rows:
            self._loaded_steps = _extend_digest(self._loaded_steps, row.seq, row.action, row.delta)
        self.last_seq = last.seq
        self.is_foreign = found.is_foreign
        if found.is_cut or not self.logs.are_whole:
            self.logs.seal()
        if found.is_cut:
            self.logs.require_checked()
            # Newer rows are damaged and keep their numbers. The next step is a snapshot after them.
            self.last_seq = self._newest_seq()
            self.lost_calls = list_calls_after(self._database, found.session_id, last.seq)
        elif found.session_id == self.session_id:
            self._fields.take(values)
            self._snapshot_bytes = len(found.rows[0].delta)
            self._delta_bytes = sum(len(row.delta) for row in found.rows[1:])
        return last.seq, last.action, last.at, values

    def _newest_seq(self) -> int:
        """Return the last step in the head, or in a row after it."""
        mine = (self.session_id,)
        rows = self._database.query(
            "SELECT last_seq FROM heads WHERE session_id = ? UNION ALL"
            " SELECT COALESCE(MAX(seq), -1) FROM steps WHERE session_id = ?",
            mine * 2,
        )
        return max(int(row[0]) for row in rows)

    async def save(self, seq: int, position: str, values: Mapping[str, Any], waits: bool = False) -> None:
        """Commit the step: new messages, changed fields, queued journal rows, and the session's head.

        With `waits`, the step is held for the next commit.
        """
        is_snapshot = self._fields.is_empty or self._delta_bytes > max(
            self._snapshot_bytes, _MIN_SNAPSHOT_GAP_BYTES
        )
        changes = self._fields.take(values)
        body = _join_fields(self._fields.whole() if is_snapshot else changes)
        step = Entry("steps", (seq, position, int(is_snapshot), now(), body))
        try:
            async with self._lock:
                self.queue_files(self.logs.list_unsaved_files())
                rows = [*(queued.with_step for queued in self._queue), *self.logs.list_unsaved_rows(), step]
                if waits and self.epoch is not None:
                    self._hold(rows, seq)
                else:
                    await self._commit(rows, seq)
        finally:
            # A cancelled save may have been committed, too.
            if self.last_seq == seq:
                self.logs.mark_saved()
                self._loaded_steps = _extend_digest(
                    b"" if is_snapshot else self._loaded_steps, seq, position, body
                )
                self._delta_bytes = 0 if is_snapshot else self._delta_bytes + len(body)
                self._snapshot_bytes = len(body) if is_snapshot else self._snapshot_bytes
            else:
                # The step is not on disk, so the next step must be a snapshot.
                self._fields = WrittenFields(self._model, self.logs)

    def _hold(self, rows: Sequence[Entry], seq: int) -> None:
        """Hold the rows of a step back until the next commit. If that commit fails, the commit after it
        writes them.
        """
        self._held += rows
        self._queue.clear()
        self.last_seq = seq
        self._overdue = asyncio.get_running_loop().call_later(_LONGEST_HELD_S, self._write_overdue)

    def _write_overdue(self) -> None:
        """Commit a held step alone, because the commit that it waits for takes too long."""

        async def write() -> None:
            if self.epoch is not None and self.claim is None:
                with suppress(StoreError):  # the next writer gets the error
                    await self.flush()

        self._late = asyncio.ensure_future(write())

    def has_unsaved(self, values: Mapping[str, Any]) -> bool:
        """Return whether these fields are newer than the fields on disk."""
        return self._fields.differ_from(values)

    async def commit(self, entries: Sequence[Entry] = ()) -> None:
        """Commit the queue and `entries` in one transaction."""
        async with self._lock:
            await self._commit([*(queued.alone for queued in self._queue), *entries], self.last_seq)

    async def release(self, status: str, wake_at: str, keeps_owner: bool = False) -> None:
        """Commit the queue and end the lease in one transaction.

        With `keeps_owner`, the session stays claimed by the worker that runs it, until that hands it back.
        """
        async with self._lock:
            entries = [queued.alone for queued in self._queue]
            taken = self._fields.values.get("inbox_taken")
            answered = taken.queue if isinstance(taken, InboxTaken) else 0
            ending: dict[str, Any] = {"status": status, "lease_until": "", "updated_at": now()}
            ending["wake_at"] = make_wake_at(status, wake_at, answered, self._database.now())
            if not keeps_owner:
                ending["owner"] = ""
            await self._commit(entries, self.last_seq, ending)
        self.has_ended_run = True
        if self.is_whole and status == AT_REST and not self._expected:
            loaded = self._digest_loaded(self._fields.values, self._row_digest)
            note_verified(self._database, self.session_id, self.chain, loaded)

    async def flush(self) -> None:
        """Commit the held and the queued rows, if there are any."""
        async with self._lock:
            if self._held or self._queue or self._loose:
                await self._commit_waiting()

    async def flush_held(self) -> None:
        """Commit a held step together with the queue. Without a held step, do nothing."""
        async with self._lock:
            if self._held:
                await self._commit_waiting()

    async def _commit_waiting(self) -> None:
        await self._commit([queued.alone for queued in self._queue], self.last_seq)

    def queue(self, entry: Entry, with_step: Entry | None = None) -> None:
        """Queue a row for the next commit. If that commit is a step, `with_step` replaces the row."""
        self._queue.append(Queued(entry, with_step or entry))

    def queue_loose(self, statements: Sequence[Statement]) -> None:
        """Queue statements for the next commit. They are not part of the chain."""
        self._loose += statements

    def queue_files(self, files: Iterable[Attachment]) -> None:
        """Queue attachments of messages for the next commit, with the record that they are used."""
        stored = (file for file in files if file.is_stored)
        new = {file.sha256: file for file in stored if file.sha256 not in self._queued_files}
        if not new:
            return

        self._queued_files |= new.keys()
        self.queue_loose(list(insert_uses(self.session_id, new.values())))

    def after_commit(self, work: Callable[[], None]) -> None:
        """Call `work` after the next commit has succeeded."""
        self._on_commit.append(work)

    def adopt(self, values: Mapping[str, Any]) -> None:
        """Remember loaded values as the values on disk."""
        if not self.is_new:
            self._fields.take(values)

    async def beat(self) -> None:
        """Renew the lease. Raises `SessionHeld` if another process has taken it."""
        mine = {"epoch": self.epoch}
        try:
            guard = make_head_update(
                self.session_id, mine, {"lease_until": make_lease_end(self._database.now())}, mine
            )
            await self._database.acommit([], guard)
        except GuardFailed:
            raise self._make_lost_error() from None

    async def _commit(
        self, entries: Sequence[Entry], seq: int, head: Mapping[str, Any] | None = None
    ) -> None:
        chain, statements = self.chain.link(self.session_id, [*self._held, *entries])
        sealing, seals = self._seal_end.advance(chain)
        guard = self._make_guard(chain, seq, head or {"lease_until": make_lease_end(self._database.now())})
        reach("store_before_commit")
        try:
            await run_to_end(
                self._commit_batch(self._make_batch([*statements, *sealing]), guard, chain, seals, seq)
            )
        except GuardFailed:
            raise self._make_lost_error() from None
        reach("store_after_commit")

    def _make_batch(self, statements: Sequence[Statement]) -> _Batch:
        """Return the parts of this commit. Rows that are queued while it runs belong to the next commit."""
        claiming = self.claim.statements if self.claim is not None else []
        all_of_it = [*claiming, *self._loose, *statements]
        waiting = map(len, (self._held, self._queue, self._loose, self._on_commit))
        return _Batch(all_of_it, *waiting)

    async def _commit_batch(
        self, batch: _Batch, guard: GuardedUpdate, chain: Chain, seals: list[Seal], seq: int
    ) -> None:
        """Commit, and then record the commit. Nothing may happen between the two."""
        await self._database.acommit(batch.statements, guard)
        self.chain, self.last_seq = chain, seq
        self._seal_end.confirm(chain, seals)
        if self.claim is not None:
            self._row_digest = digest_row(self.claim.place["tenant"], self.parent, self.claim.settings)
            self.epoch, self.claim = self.claim.epoch, None
        write_marks(self._database, self.session_id, chain.records)
        if self._overdue is not None and batch.held:
            self._overdue.cancel()
        del self._held[: batch.held]
        del self._queue[: batch.queued]
        del self._loose[: batch.loose]
        for work in self._on_commit[: batch.on_commit]:
            work()
        del self._on_commit[: batch.on_commit]

    def _make_guard(self, chain: Chain, seq: int, head: Mapping[str, Any]) -> GuardedUpdate:
        """Return the guarded update of the session's head, with the new end of the chain and the columns
        `head`.
        """
        columns = {
            "records": chain.records,
            "chain": chain.digest,
            "last_seq": seq,
            "committed_at": now(),
            **head,
        }
        if self.claim is not None:
            return self.claim.make_guard(columns, self.chain)
        if self.epoch is None:
            raise StoreError(f"Session {self.session_id} is not claimed, so it cannot be written.")
        old, new = (
            {"epoch": self.epoch, "records": end.records, "chain": end.digest} for end in (self.chain, chain)
        )
        return make_head_update(self.session_id, old, columns, new)

    def _make_lost_error(self) -> StoreError:
        """Return the error that names the process that took the session over, or claimed it first."""
        rows = self._database.query("SELECT owner, epoch FROM heads WHERE session_id = ?", (self.session_id,))
        if self.claim is not None:
            self.claim = None
            return (
                make_held_error(self.session_id, rows[0][0])
                if rows and rows[0][0]
                else make_moved_error(self.session_id)
            )
        if not rows:
            return SessionHeld(f"Session {self.session_id} was deleted while it ran. Nothing more was done.")
        if rows[0][1] == self.epoch:
            return StoreError(
                f"The records of session {self.session_id} were changed by another program while it ran.",
                f"Nothing more was done. Look at it: sandbur sessions show {self.session_id}",
            )
        return make_held_error(self.session_id, rows[0][0], was_taken=True)


def _extend_digest(digest: bytes, seq: int, position: str, body: str) -> bytes:
    """Return the digest extended by one step."""
    return blake2b(
        b"%b%d %b %b" % (digest, seq, encode_value(position), encode_value(body)),
        digest_size=20,
    ).digest()


def _join_fields(encoded: Mapping[str, str]) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in encoded.items()) + "}"
