"""Creates, finds, lists, renames and deletes the rows of sessions."""

import asyncio
import re
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from ...conversation.messages import encodable
from ...databases.chain import Chain, insert_row, make_first_digest
from ...databases.damaged_values import DamagedNumber
from ...databases.database import (
    Database,
    GuardedUpdate,
    Statement,
    find_listener,
    insert,
    insert_tags,
    update,
)
from ...databases.schema import CHANGED_AT, SESSION_TABLES, TITLE_START_CHARS, make_label_keys
from ...errors import GuardFailed, SessionHasFork, SessionNotFound, StoreError, UsageError
from ...lazy_dataclass import dataclass
from ...process.clock import format_time, now
from ...process.identity import is_process_gone, is_process_here
from ...session import SessionSettings, clean_title, make_title
from ..files.contents import UNUSED_CONTENTS
from ..seals import insert_seals, write_marks
from .claims import make_wake_at
from .deaths import PARKED, Deaths, drop_deaths, load_deaths
from .family import list_descendants
from .lanes import make_lane, make_place
from .lease import Claim, make_claim_error, make_head_update, make_held_error, make_moved_error
from .listing import (
    SessionSummary,
    is_foreign_at,
    is_fresh,
    list_children,
    load_lineage,
    load_summary,
    read_beat_s,
    read_imported_seq,
    seems_held,
)
from .message_sources import make_deletion
from .settings_proof import NO_PARENT, make_settings_entry


class Head(NamedTuple):
    """The last step of a session, its status, and its runner."""

    owner: str
    epoch: int
    lease_until: str
    last_seq: int
    records: int
    chain: str
    status: str
    title: str
    updated_at: str
    read_at: datetime
    """When this was read, by the clock of the database."""

    @property
    def life(self) -> Literal["running", "died", "resting"]:
        """Return whether the process of the session lives. A process that died left the status `running`, and
        one that died too often was parked.
        """
        if self.status == PARKED:
            return "died"
        if self.status != "running":
            return "resting"
        return "running" if self.seems_held else "died"

    @property
    def seems_held(self) -> bool:
        return seems_held(self.owner, self.lease_until, self.read_at)


_HEAD = (
    "SELECT h.owner, h.epoch, COALESCE(w.lease_until, h.lease_until), h.last_seq, h.records, h.chain,"
    f" h.status, h.title, {CHANGED_AT} FROM heads h LEFT JOIN workers w ON w.id = h.owner"
    " WHERE h.session_id = ?"
)


class Fork(NamedTuple):
    session_id: str
    at_seq: int
    """The last step that the fork shares with its parent."""


def parse_settings(session_id: str, settings: str) -> SessionSettings:
    """Return the stored settings of a session. Raises `StoreError` if they are damaged."""
    try:
        return SessionSettings.model_validate_json(settings)
    except ValidationError:
        raise StoreError(
            f"The settings of session {session_id} are damaged, so it cannot be opened.",
            f"See which records are left: sandbur sessions verify {session_id}",
        ) from None


class SessionIndex:
    """All sessions of one tenant in a store."""

    def __init__(self, database: Database, tenant: str = "") -> None:
        self._database = database
        self._tenant = tenant

    def create(
        self,
        session_id: str,
        settings: SessionSettings,
        title: str = "",
        parent: tuple[str, int] | None = None,
    ) -> None:
        if self.exists(session_id):
            raise UsageError(
                f"A session {session_id} exists already.", f"Continue it: sandbur -r {session_id}"
            )
        last_seq = -1 if parent is None else parent[1]
        # No run has recorded the settings yet.
        entry = make_settings_entry(0, last_seq, settings, self._tenant, parent or NO_PARENT)
        end, rows = Chain(0, make_first_digest(session_id)).link(session_id, [entry])
        head = insert_head(session_id, title, "new", last_seq, end, self._tenant, settings)
        rows += [*insert_seals(self._database, session_id, (), 0, end)]
        self._database.commit([*insert_session(session_id, self._tenant, settings, parent), head, *rows])
        write_marks(self._database, session_id, end.records)

    def rename(self, session_id: str, title: str) -> str:
        """Change the title of a session, which may be running. Return the stored title."""
        if not (title := clean_title(title)):
            raise UsageError("A title needs at least one letter.", "Name the session.")
        self.head(session_id)
        self._database.commit([update("heads", {"title": title}, {"session_id": session_id})])
        return title

    def exists(self, session_id: str) -> bool:
        return bool(self._database.query("SELECT 1 FROM sessions WHERE id = ?", (session_id,)))

    def ancestors(self, session_id: str) -> list[str]:
        """Return the ancestors of this session, oldest first."""
        return [owner for owner, _ in self.lineage(session_id)[:-1]]

    def lineage(self, session_id: str) -> list[tuple[str, int | None]]:
        """Return the ancestors and the session, as `load_lineage` does."""
        return load_lineage(self._database, session_id)

    def settings(self, session_id: str) -> SessionSettings:
        rows = self._database.query(
            "SELECT settings FROM sessions WHERE id = ? AND tenant = ?", (session_id, self._tenant)
        )
        if not rows:
            raise self._make_missing_error(session_id)
        return parse_settings(session_id, rows[0][0])

    async def claim(
        self, session_id: str, runner: str, known: tuple[int, str], settings: SessionSettings, title: str
    ) -> Claim:
        """Return a claim on the session for its next commit. A new session is created with the claim.

        `runner` names the caller, `known` is the end of the session's chain that the caller knows. Raises
        `SessionHeld` if another process runs the session, `SessionMoved` if another process continued it.
        """
        title = title.replace("\0", "")
        place, text = make_place(self._tenant, settings), _dump_settings(settings)
        if not known[0] and not await self._database.offload(lambda: self.exists(session_id)):
            made = insert_session(session_id, self._tenant, settings)
            return Claim(session_id, runner, None, made, title, place, text)
        head = await self._database.offload(lambda: self.head(session_id))
        if isinstance(head.epoch, DamagedNumber):
            raise make_claim_error(session_id)
        if head.owner != runner and await self._is_held(session_id, head):
            raise make_held_error(session_id, head.owner)
        if (head.records, head.chain) != known:
            raise make_moved_error(session_id, head.last_seq)
        changes: list[Statement] = [
            update("sessions", {"settings": text}, {"id": session_id}),
            update("heads", {"title": title}, {"session_id": session_id, "title": ""}),
            # A process of an older version may have begun the session after the change of the tables.
            *insert_tags(session_id, make_label_keys("", "", settings.tags).tags),
            *([drop_deaths(session_id)] if head.status == PARKED else []),
        ]
        return Claim(session_id, runner, head.epoch, changes, place=place, settings=text)

    async def release(self, session_id: str, epoch: int, status: str, wake_at: str = "") -> None:
        """End the run with a status. `wake_at` is the time when it continues by itself; empty if it
        does not.
        """
        mine, no_owner = {"epoch": epoch}, {"owner": ""}
        columns: dict[str, Any] = {"status": status, "lease_until": "", "updated_at": now(), **no_owner}
        # It is not known here which messages were answered. A worker finds out.
        columns["wake_at"] = make_wake_at(status, wake_at, 0, self._database.now())
        await self._database.acommit([], make_head_update(session_id, mine, columns, {**mine, **no_owner}))

    async def make_due(self, session_id: str) -> None:
        """Let a worker go on with a session that no process runs, as soon as one looks for waiting sessions.

        A parked session may try again. Raises `SessionHeld` if a process may run it.
        """
        head = self.head(session_id)
        if self.is_held(session_id):
            raise make_held_error(session_id, head.owner)
        lane = make_lane(self._tenant, self.settings(session_id))
        waiting = {"owner": "", "lane": lane, "wake_at": now()}
        same = {"session_id": session_id, "owner": head.owner, "epoch": head.epoch}
        changes = [update("heads", waiting, same)]
        if head.status == PARKED:
            changes = [drop_deaths(session_id), update("heads", {**waiting, "status": "running"}, same)]
        await self._database.acommit(changes)

    def load_deaths(self, session_id: str) -> Deaths:
        """Return the deaths of the processes of a session since its last progress."""
        return load_deaths(self._database, [session_id]).get(session_id, Deaths(session_id))

    async def _is_held(self, session_id: str, head: Head) -> bool:
        """Return whether the owner is alive. If neither clock nor system can tell, observe the owner for a
        moment.
        """
        if not head.owner or is_process_gone(head.owner):
            return False
        if is_fresh(head.lease_until, head.read_at):
            return True
        if self._database.has_clock:
            return False
        find_listener(self._database.on_notice)(
            f"The process that ran session {session_id} does not renew its lease; watching it for a moment."
        )
        latest = time.monotonic() + read_beat_s() * 1.5
        while time.monotonic() < latest:
            await asyncio.sleep(min(0.25, read_beat_s() / 4))
            if self.head(session_id).lease_until != head.lease_until:
                return True
            if is_process_gone(head.owner):
                return False
        return False

    def is_held(self, session_id: str) -> bool:
        """Return whether a process may run the session, even if that process is stopped or has a
        wrong clock.
        """
        head = self.head(session_id)
        if not head.owner or is_process_gone(head.owner):
            return False
        return is_process_here(head.owner) or is_fresh(head.lease_until, head.read_at)

    def require_free(self, session_id: str) -> None:
        """Raise `SessionHeld` while a living process runs the session."""
        head = self.head(session_id)
        if head.seems_held:
            raise make_held_error(session_id, head.owner)

    def find_conflict(self, session_id: str, runner: str, known: tuple[int, str]) -> StoreError | None:
        """Return the error that `claim` would most likely raise now, or None. It needs one short query."""
        head = self.head(session_id)
        if isinstance(head.epoch, DamagedNumber):
            return make_claim_error(session_id)
        if head.owner != runner and head.seems_held:
            return make_held_error(session_id, head.owner)
        return make_moved_error(session_id, head.last_seq) if (head.records, head.chain) != known else None

    def is_active(self, session_id: str) -> bool:
        """Return whether a process runs the session, or a worker is to run it now."""
        due = "SELECT 1 FROM heads WHERE session_id = ? AND wake_at <> '' AND wake_at <= ?"
        moment = format_time(self._database.now())
        return self.is_held(session_id) or bool(self._database.query(due, (session_id, moment)))

    def head(self, session_id: str) -> Head:
        rows = self._database.query(_HEAD, (session_id,))
        if not rows:
            raise self._make_missing_error(session_id)
        return Head(*rows[0], read_at=self._database.now())

    def forks(self, session_id: str) -> tuple[Fork, ...]:
        """Return the direct forks of this session, oldest first."""
        rows = self._database.query(
            "SELECT id, parent_seq FROM sessions WHERE parent_id = ? AND tenant = ? ORDER BY created_at",
            (session_id, self._tenant),
        )
        return tuple(Fork(found, int(seq)) for found, seq in rows)

    def children_of(
        self, session_id: str, limit: int = 50, cursor: tuple[str, str] | None = None
    ) -> list[SessionSummary]:
        """Return the sessions that calls of this session spawned, oldest first; forks are not among them.

        `cursor` is `created_at` and `id` of the last session of the page before.
        """
        return list_children(self._database, self._tenant, session_id, limit, cursor)

    def summary(self, session_id: str) -> SessionSummary:
        found = load_summary(self._database, self._tenant, session_id)
        if found is None:
            raise self._make_missing_error(session_id)
        return found

    def find(self, text: str) -> str:
        """Return the id of the session that `text` names: by the id, a unique start of the id, or the
        title.
        """
        for name, ways in ((text, ("id", "start", "title")), (make_title(text), ("title",))):
            for way in ways if name and encodable(name).replace("\0", "") == name else ():
                matches = self._find_ids(way, name.lower() if way == "start" else name)
                if len(matches) == 1:
                    return matches[0]
                if matches:
                    some = ", ".join(match[:13] for match in matches[:5])
                    raise UsageError(
                        f"{text!r} names {len(matches)} sessions: {some}.", "Use more characters of the id."
                    )
        raise self._make_missing_error(text)

    def _find_ids(self, way: str, name: str) -> list[str]:
        """Return the ids of the sessions that match a name, newest first. `way` is `id`, `start` or
        `title`.
        """
        where, values = {
            "id": ("h.session_id = ?", (name,)),
            # The inner query reads only an index.
            "start": (
                "h.session_id IN (SELECT session_id FROM heads WHERE session_id LIKE ? ESCAPE '!')",
                (re.sub("([!%_])", r"!\1", name) + "%",),
            ),
            # The index contains only the first characters.
            "title": (
                f"h.tenant = ? AND h.title = ? AND substr(h.title, 1, {TITLE_START_CHARS}) = ?",
                (self._tenant, name, name[:TITLE_START_CHARS]),
            ),
        }[way]
        rows = self._database.query(
            "SELECT h.session_id, s.parent_session FROM heads h JOIN sessions s ON s.id = h.session_id"
            f" WHERE s.tenant = ? AND {where} ORDER BY {CHANGED_AT} DESC",
            (self._tenant, *values),
        )
        if way != "start":
            return [row[0] for row in rows]
        # The operator LIKE of SQLite ignores the case. The id of a session may begin that of one it started.
        found = {row[0]: row[1] for row in rows if row[0].startswith(name)}
        return [one for one, starter in found.items() if starter not in found]

    def _make_missing_error(self, text: str) -> StoreError:
        """Return the error for a session that does not exist, or whose records are lost."""
        foreign = "SELECT 1 FROM sessions WHERE id = ? AND tenant <> ?"
        if self._database.read_mark(text) >= 0 and not self._database.query(foreign, (text, self._tenant)):
            sql = "SELECT 1 FROM sessions s JOIN heads h ON h.session_id = s.id WHERE s.id = ?"
            if self._database.read_again(lambda: self._database.query(sql, (text,)), bool):
                return StoreError(
                    f"An index of the store {self._database.name} is damaged: it hides session {text}.",
                    "The session still exists. Rebuild the index: sandbur doctor --reindex",
                )
            return StoreError(
                f"The store {self._database.name} has lost session {text}: its records are damaged or gone.",
                "Restore the store from a backup.",
            )
        printable = re.sub(r"[^\x20-\x7e]", "?", text)[:60]
        if self._database.is_volatile:
            return SessionNotFound(
                f"There is no session {printable!r}: the store {self._database.name} is in the memory of one"
                " process and ends with it.",
                "To resume sessions later, keep them in a file: --store sqlite:///PATH",
            )
        return SessionNotFound(f"There is no session {printable!r}.", "See them with: sandbur sessions list")

    def delete(self, session_id: str) -> list[str]:
        """Delete a session and its sub-agents; return their ids, the session last.

        A process that dies meanwhile leaves the session and some of its sub-agents.
        """
        family = [session_id, *list_descendants(self._database, session_id)][::-1]
        heads = {one: self._require_deletable(one) for one in family}
        for one, head in heads.items():
            also = UNUSED_CONTENTS if one == session_id else ()
            try:
                delete_session(self._database, one, head.epoch, head.owner, also)
            except GuardFailed:
                raise make_held_error(one, self.head(one).owner) from None
        return family

    def _require_deletable(self, session_id: str) -> Head:
        """Return the head of a session. Raises `SessionHeld` if it runs, `SessionHasFork`."""
        head = self.head(session_id)
        if head.seems_held:
            raise make_held_error(session_id, head.owner)
        forks = self._database.query("SELECT id FROM sessions WHERE parent_id = ?", (session_id,))
        if forks:
            raise SessionHasFork(
                f"Session {session_id} has the fork {forks[0][0]}.", "Delete the fork first."
            )
        return head


def delete_session(
    database: Database, session_id: str, epoch: int, owner: str, also: Sequence[Statement] = ()
) -> None:
    """Delete every row of a session except contents of files, which other sessions may use.

    The statements `also` are in the same commit. Raises `GuardFailed` if the session has run since `epoch`.
    """
    claim = update("heads", {"epoch": epoch + 1}, {"session_id": session_id, "epoch": epoch, "owner": owner})
    landed = (
        "SELECT 1 FROM meta WHERE name = 'schema' AND NOT EXISTS (SELECT 1 FROM heads WHERE session_id = ?)"
    )
    session = ("DELETE FROM sessions WHERE id = ?", (session_id,))
    guard = GuardedUpdate(claim, (landed, (session_id,)))
    # The session comes first: an SQLite file deletes most rows together with it.
    messages = make_deletion(database, session_id)
    database.commit([session, *delete_rows(session_id), *messages, *also], guard)
    write_marks(database, session_id, -1)


def delete_rows(session_id: str) -> list[Statement]:
    return [(f"DELETE FROM {table} WHERE session_id = ?", (session_id,)) for table in SESSION_TABLES]


def insert_session(
    session_id: str,
    tenant: str,
    settings: SessionSettings,
    parent: tuple[str | None, int | None] | None = None,
    created_at: str = "",
) -> list[Statement]:
    """Return the statements that insert a session and its tags; `parent` is what a fork continues."""
    values = (session_id, tenant, *(parent or (None, None)), created_at or now(), _dump_settings(settings))
    spawner, tags = settings.spawned_by, make_label_keys("", "", settings.tags).tags
    spawned = (spawner.session_id, spawner.sequence, spawner.call_id) if spawner else (None, None, None)
    return [insert_row("sessions", (*values, *spawned)), *insert_tags(session_id, tags)]


def insert_head(
    session_id: str,
    title: str,
    status: str,
    last_seq: int,
    end: Chain,
    tenant: str,
    settings: SessionSettings,
) -> Statement:
    """Return the statement that inserts the head of a session that no process runs."""
    columns = {"session_id": session_id, "title": title, "status": status, "updated_at": now(), "wake_at": ""}
    columns |= {"last_seq": last_seq, "records": end.records, "chain": end.digest}
    columns |= {"owner": "", "epoch": 0, "lease_until": "", **make_place(tenant, settings)}
    return insert("heads", columns)


def _dump_settings(settings: SessionSettings) -> str:
    return settings.model_dump_json(ensure_ascii=True)


@dataclass(frozen=True, slots=True)
class WaitingRun:
    session_id: str
    title: str
    reason: str
    """Why the run should continue, as a clause."""
    held_by: str = ""
    """A sentence about the process that runs the session already; empty if there is none."""


def list_unfinished_tenants(database: Database) -> list[str]:
    """Return the tenants with sessions whose runs have not ended, or should go on at some time."""
    rows = database.query("SELECT DISTINCT tenant FROM heads WHERE status = 'running' OR wake_at <> ''")
    return sorted(tenant for (tenant,) in rows)


def list_due_runs(database: Database, tenant: str, now: datetime | None = None) -> list[WaitingRun]:
    """Return the runs that should continue, the one that waits longest first; `now` is by default the clock
    of the database.

    A sub-agent whose parent is among them is left out: the run of the parent goes on with it.
    """
    rows = database.query(
        "SELECT s.id, h.title, h.status, h.wake_at, h.owner, COALESCE(w.lease_until, h.lease_until),"
        " h.last_seq, s.settings, s.parent_session FROM sessions s"
        " JOIN heads h ON h.session_id = s.id LEFT JOIN workers w ON w.id = h.owner"
        # A session without steps has no message to answer.
        " WHERE s.tenant = ? AND h.last_seq >= 0"
        # The extension that began a session without a call goes on with it.
        " AND (s.parent_session IS NULL OR s.parent_call <> '')"
        f" AND (h.status = 'running' OR (h.wake_at <> '' AND h.wake_at <= ?)) ORDER BY {CHANGED_AT}, s.id",
        (tenant, format_time(now := now or database.now())),
    )
    due = {row[0] for row in rows}
    return [
        WaitingRun(
            session_id,
            title,
            "its process died" if status == "running" else f"its time came at {wake_at}",
            make_held_error(session_id, owner).message if seems_held(owner, lease_until, now) else "",
        )
        for session_id, title, status, wake_at, owner, lease_until, last_seq, settings, parent in rows
        if parent not in due and not is_foreign_at(read_imported_seq(settings), int(last_seq))
    ]
