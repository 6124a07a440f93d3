"""The store: opens a database, and creates the objects that read and write its sessions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..application import ApplicationState
from ..conversation.transcript import Transcript, TranscriptRange
from ..databases.database import Database, Durability, Statement, insert, open_database
from ..errors import StoreError, UsageError
from ..session import SessionSettings, SessionSummary, SessionView, SpawnedBy
from .delta_persister import DeltaPersister, load_histories
from .files.file_history import FileHistory, LineageFiles
from .files.session_files import SessionFiles
from .files.shared_files import SharedFiles
from .integrity import Health, examine, name_damage, quarantine
from .journal import CallJournal, TraceLog, load_output
from .seals import KeySealer, find_end_at_rest, note_verified, read_verified
from .sessions.claims import WorkerClaims
from .sessions.family import FamilyFilter, count_roots
from .sessions.inbox import Inbox
from .sessions.lease import Heartbeat
from .sessions.listing import SessionFilter, count_sessions, list_newest, list_summaries, read_lease_s
from .sessions.search import count_unindexed, find_text, index_sessions, update_index
from .sessions.session_rows import SessionIndex
from .sessions.settings_proof import (
    compare_settings,
    has_missing_after,
    has_one_value,
    is_acceptable,
    make_changed_error,
)
from .writer import SessionWriter


class OpenedSettings(NamedTuple):
    """The settings with which a session is opened."""

    settings: SessionSettings
    doubt: str = ""
    """A sentence about why they are without the stored permissions; empty if they are as they were stored."""


_MOST_AT_CLOSE = 20
"""The most sessions whose words are indexed when a store is closed."""
StoredRange = tuple[str, int, int, int]
"""A range of stored messages: session, log, first index, end."""


class Store:
    """One database with every session, its steps, messages, calls and outputs."""

    def __init__(self, database: Database, url: str, tenant: str = "") -> None:
        self.database = database
        self.url = url
        """The URL as it was passed. It may contain a password."""
        self.tenant = tenant
        self._writers: dict[str, SessionWriter] = {}
        self._without_starts: set[str] = set()
        """Sessions with journals that may lack records of started calls."""
        self._unproven: set[str] = set()
        """Sessions whose damaged records do not prove their settings."""
        self.index = SessionIndex(database, tenant)
        self.heartbeat = Heartbeat()
        """Renews the leases of the runs in this process."""
        self.claims: WorkerClaims | None = None
        """The claims of the worker in this process, whose lease covers every session that it runs; None: each
        run has a lease of its own."""

    @classmethod
    def open(
        cls,
        url: str,
        tenant: str = "",
        on_notice: Callable[[str], None] | None = None,
        durability: Durability = "full",
        home: Path | None = None,
    ) -> Store:
        """Open `sqlite:///PATH`, `postgresql://...`, `mysql://...` or `memory:`; a missing file is created.

        `home` is the folder of the key that seals the records; without it, and in memory, nothing is sealed.
        """
        read_lease_s()  # Raises an error for an invalid setting before anything runs.
        database = open_database(url, on_notice, durability)
        if home is not None and not database.is_volatile:
            database.sealer = KeySealer(home, database.name)
        return cls(database, url, tenant)

    @property
    def name(self) -> str:
        """The name of the store for messages."""
        return self.database.name

    def close(self) -> None:
        if not self.database.has_clock:  # a server that does not answer would be waited for
            self._index_words()
        self.database.close()

    def _index_words(self) -> None:
        """Index the words of sessions that have run here, so that the first search finds little to do."""
        ran = [writer.session_id for writer in self._writers.values() if writer.has_ended_run]
        # Without it, the next search indexes them.
        with suppress(StoreError):
            if ran and not self.database.is_volatile:
                index_sessions(self.database, ran[-_MOST_AT_CLOSE:])

    def share(self, tenant: str, claims: WorkerClaims) -> Store:
        """Return a store for a tenant in the same database, whose sessions a worker runs."""
        shared = Store(self.database, self.url, tenant)
        shared.claims = claims
        return shared

    def persister(self, calls_start_next: Set[str] = frozenset()) -> DeltaPersister:
        """Return the object that saves and loads states for Burr; see `DeltaPersister`."""
        return DeltaPersister(self.database, self.writer, calls_start_next)

    def journal(self, session_id: str) -> CallJournal:
        return CallJournal(
            self.database,
            self.writer(session_id),
            self.index.ancestors(session_id),
            may_lack_starts=session_id in self._without_starts,
        )

    async def open_journal(self, session_id: str) -> CallJournal:
        return await self.database.offload(lambda: self.journal(session_id))

    async def open_trace(self, session_id: str) -> TraceLog:
        return await self.database.offload(lambda: TraceLog(self.database, self.writer(session_id)))

    def inbox(self, session_id: str) -> Inbox:
        return Inbox(self.database, session_id)

    def writer(self, session_id: str) -> SessionWriter:
        if session_id not in self._writers:
            self._writers[session_id] = SessionWriter(self.database, session_id, ApplicationState)
        return self._writers[session_id]

    def forget(self, session_id: str) -> None:
        """Forget the loaded records of a session, so that they are read again."""
        self._writers.pop(session_id, None)

    @contextmanager
    def reload(self, session_id: str) -> Generator[None]:
        """Read a session again inside this context. If that fails, the records that were loaded before are
        kept.
        """
        known = self._writers.pop(session_id, None)
        try:
            yield
            if known is not None:
                self.writer(session_id).copy_checks(known)
        except BaseException:
            self._writers.pop(session_id, None)
            if known is not None:
                self._writers[session_id] = known
            raise

    def open_files(self, session_id: str) -> FileHistory:
        return FileHistory(self.database, session_id)

    def open_file_changes(self, session_id: str) -> LineageFiles:
        """Return the file changes of a session and its ancestors."""
        return LineageFiles(self.database, self.index.lineage(session_id))

    def open_session_files(self, session_id: str) -> SessionFiles:
        """Return the files of a session's `SessionMemory` back end, including those from before a fork."""
        return SessionFiles(self.database, self.writer(session_id), self.index.lineage(session_id))

    def open_shared_files(self) -> SharedFiles:
        """Return the files that all sessions of the tenant share."""
        return SharedFiles(self.database, self.tenant)

    def fork(
        self, session_id: str, new_id: str, at: int | None = None, spawned_by: SpawnedBy | None = None
    ) -> None:
        """Create a session that continues `session_id` after its step `at`. No row is copied.

        `spawned_by` is set for the fork of a sub-agent that belongs to a fork of its parent.
        """
        parent = self.index.summary(session_id)
        newest = parent.steps - 1
        at = newest if at is None else at
        if not 0 <= at <= newest:
            raise UsageError(f"Session {session_id} has no step {at}.", f"It has the steps 0 to {newest}.")
        fresh = {"imported_seq": None, "spawned_by": spawned_by}
        settings = self.open_settings(session_id).settings.model_copy(update=fresh)
        self.index.create(new_id, settings, parent.title, (session_id, at))

    def open_settings(self, session_id: str, accepts_changed: bool = False) -> OpenedSettings:
        """Return the settings of a session that is to be opened or continued.

        Raises `SettingsChanged` if they are not those in the records of the session. With `accepts_changed`,
        because a person decides about every call, they are returned without permissions, unless it is not
        even certain whose session it is.
        """
        settings = self.index.settings(session_id)
        proof = compare_settings(self.database, session_id)
        if proof.differences:
            error = make_changed_error(session_id, proof.differences)
            if not accepts_changed or not is_acceptable(proof.differences):
                raise error
            what = error.message.partition(". ")[0]
            doubt = f"{what}. It goes on without its rules, in interactive mode."
            return OpenedSettings(settings.without_permissions(), doubt)
        if (proof.is_known and session_id not in self._unproven) or not settings.has_permissions:
            return OpenedSettings(settings)
        return OpenedSettings(
            settings.without_permissions(),
            f"The records of session {session_id} do not prove its rules. It goes on without them, in"
            " interactive mode.",
        )

    def sessions(self, cwd: str | None = None, most: int | None = None) -> list[SessionSummary]:
        """Return the sessions, newest first. With `cwd`, return only those of that working folder."""
        return list_summaries(self.database, self.tenant, cwd, most)

    def newest_sessions(self, selected: SessionFilter | None = None) -> Iterator[SessionSummary]:
        """Yield the sessions, newest first; they are read only when they are needed."""
        return list_newest(self.database, self.tenant, selected)

    def roots(self, selected: SessionFilter | None = None) -> Iterator[SessionSummary]:
        """Yield the sessions that are no sub-agents of another one, newest first."""
        return self.newest_sessions(FamilyFilter(also=selected))

    def find_text(self, text: str) -> Statement:
        """Return a condition for `LabelFilter`: sessions with all words of a text in their messages.

        Each search indexes the messages that came since the last one, of at most a thousand sessions.
        """
        return find_text(self.database, self.tenant, text)

    def index_words(self, watch: Callable[[int], object]) -> None:
        """Index all sessions for `find_text`. `watch` is called with the number of sessions so far."""
        total = left = count_unindexed(self.database, self.tenant)
        while left:
            left = update_index(self.database, self.tenant)
            watch(total - left)

    def count_sessions(self) -> int:
        return count_sessions(self.database, self.tenant)

    def count_roots(self) -> int:
        """Return how many sessions are no sub-agents of another one."""
        return count_roots(self.database, self.tenant)

    def find(self, text: str) -> str:
        return self.index.find(text)

    def rename(self, session_id: str, title: str) -> str:
        """Change the title of a session durably. Return the stored title, which is on one line and
        shortened.
        """
        self.index.summary(session_id)
        return self.index.rename(session_id, title)

    def delete(self, session_id: str) -> list[str]:
        """Delete a session and its sub-agents; return the ids of all that are deleted, the session last."""
        deleted = self.index.delete(session_id)
        for one in deleted:
            self._writers.pop(one, None)
        return deleted

    def show(self, session_id: str, seq: int | None = None) -> SessionView:
        """Read a session's state without a lease. Every history is loaded."""
        summary = self.index.summary(session_id)
        with name_damage(self.database, session_id):
            return self._show(summary, seq)

    def _show(self, summary: SessionSummary, seq: int | None) -> SessionView:
        session_id = summary.id
        reader = SessionWriter(self.database, session_id, ApplicationState)
        found = reader.load(seq)
        values = {} if found is None else found[3]
        if values:
            load_histories(reader.logs, values)
        state = ApplicationState.model_construct(**values) if values else ApplicationState()
        for step in state.vibe_plan:
            reader.logs.load(step.chat_history)
        position = None if found is None else found[1]
        return SessionView(summary, self.index.settings(session_id), state, position)

    def earlier_history(self, session_id: str, seq: int) -> Transcript:
        """Return the global history after step `seq`, so that this process can continue it."""
        spans: list[StoredRange] = []
        for log, start, end in self.show(session_id, seq).state.chat_history.spans:
            assert log.session_id is not None
            assert log.number is not None
            spans.append((log.session_id, log.number, start, end))
        return self.load_history(session_id, spans)

    def load_history(self, session_id: str, spans: Sequence[StoredRange]) -> Transcript:
        """Return a history of stored messages, so that this process can continue it in a session."""
        logs = self.writer(session_id).logs
        ranges: list[TranscriptRange] = []
        for owner, number, start, end in spans:
            mine = logs.log(owner, number)
            # This process does not know the end of a log that it loads only now, so nothing may be appended
            # to the log.
            mine.sealed = mine.sealed or len(mine.messages) < end
            ranges.append(TranscriptRange(mine, start, end))
        history = Transcript(ranges)
        logs.load(history)
        return history

    def load_output(self, session_id: str, call_id: str) -> bytes | None:
        """Return the complete output of a call with a shortened result, or None if it is not stored."""
        return load_output(self.database, session_id, call_id)

    def quarantine_damage(self, session_id: str, trusting: bool = True) -> list[str]:
        """Quarantine damaged records of a session before it continues. Return sentences for the person.

        With `trusting`, records that were valid after the last run are not checked again, except those that
        are loaded: loading them raises `DamagedRecords` if they have changed.
        """
        owners = (*self.index.ancestors(session_id), session_id)
        loaded = [read_verified(self.database, owner) for owner in owners] if trusting else [None]
        if None not in loaded and loaded[-1]:
            self.writer(session_id).trust(loaded[-1])
            self._unproven.discard(session_id)
            return []
        sentences, is_whole = self._check_lineage(session_id, owners)
        if sentences:
            self.forget(session_id)
        self.writer(session_id).trust("", is_whole)
        return sentences

    def _check_lineage(self, session_id: str, owners: Sequence[str]) -> tuple[list[str], bool]:
        """Check a session and its ancestors. Return sentences for the person, and whether all records are
        valid.
        """
        sentences: list[str] = []
        is_whole = True
        for owner in owners:
            health = examine(self.database, owner)
            is_whole = is_whole and health.is_whole
            # The digest of the rows that are read when the session is opened is recorded at the end of its
            # next run.
            if (
                owner != session_id
                and health.is_whole
                and health.end == find_end_at_rest(self.database, owner)
            ):
                note_verified(self.database, owner, health.end)
            if health.damages:
                # Another process may quarantine the same rows at this moment.
                with suppress(StoreError):
                    self.database.commit(quarantine(owner, health))
            if owner == session_id:
                self._note_proof(session_id, health)
            if health.may_lack_starts:
                self._without_starts.add(session_id)
            sentences += health.describe()
        return sentences, is_whole

    def _note_proof(self, session_id: str, health: Health) -> None:
        """Note whether the records of a session prove its settings although some are damaged."""
        self._unproven.discard(session_id)
        if health.is_whole or health.end is None:
            return
        record = compare_settings(self.database, session_id).record
        is_sealed = all(broken.record < record for broken in health.broken_seals)
        is_gone = health.missing and has_missing_after(self.database, session_id, record, health.end)
        if not is_sealed or ((health.damages or is_gone) and not has_one_value(self.database, session_id)):
            self._unproven.add(session_id)

    def verify(self, session_id: str) -> list[str]:
        """Return sentences about the problems in the records of a session, without changes."""
        return examine(self.database, self.index.summary(session_id).id).describe()

    def try_writing(self) -> None:
        """Insert and delete a row in one commit. Raises `StoreError` if the store is not writable."""
        name = f"probe-{secrets.token_hex(8)}"
        row = insert("meta", {"name": name, "value": ""})
        self.database.commit([row, ("DELETE FROM meta WHERE name = ?", (name,))])
