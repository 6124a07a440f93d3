"""Compares the settings in a session's row with those that its hash chain records.

The row has no digest of its own. What a run began with is in the chain, and so is what a session was created
with; a row with other values was changed from outside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from ...databases.chain import Chain, Entry, digest_of, list_quarantined_places, make_first_digest
from ...databases.database import Database
from ...databases.schema import CHAINED, make_label_keys
from ...errors import SettingsChanged
from ...process.clock import now
from ...session import SessionSettings
from ...trace import Conditions, RecordedSettings, RunBegan, SessionImported, SettingsStored
from .lanes import make_place

Parent = tuple[str | None, int | None]
"""The session and the step that a fork continues."""
NO_PARENT: Parent = (None, None)
_RECORDS: TypeAdapter[RunBegan | SessionImported | SettingsStored] = TypeAdapter(
    RunBegan | SessionImported | SettingsStored
)
SETTINGS = "settings"
_EVENTS = ("run_began", "imported", SETTINGS)
_PAGE = 50
_MOST_TRIES = 3
_MOST_FOREIGN = 10_000
_DIGEST_CHARS = 8
_OTHERS = "other settings"
OWNERS = ("tenant", "parent", "user", "app", "agent", "spawned_by", "labels")
"""The settings that say whose session it is. Nobody can decide about them when the session is opened."""


class SettingsProof(NamedTuple):
    """What the hash chain says about the settings in the row of a session."""

    differences: tuple[str, ...] = ()
    """The names of the settings that differ from the newest recorded ones."""
    is_known: bool = True
    """Whether the chain records them. Sessions of older versions that never ran have no record."""
    record: int = -1
    """The number of the newest record of settings in the chain."""


class _Row(NamedTuple):
    tenant: str
    parent: Parent
    text: str
    spawner: tuple[Any, ...]
    place: dict[str, str]
    tags: frozenset[str]


def record_settings(settings: SessionSettings, tenant: str, parent: Parent = NO_PARENT) -> RecordedSettings:
    """Return what the chain records of the settings of a session."""
    fields = {name: _digest(value) for name, value in _dump(settings).items()}
    return RecordedSettings(tenant=tenant, parent_id=parent[0], parent_seq=parent[1], fields=fields)


def make_settings_entry(n: int, seq: int, settings: SessionSettings, tenant: str, parent: Parent) -> Entry:
    """Return the trace record `n` of settings that no run records, after step `seq`."""
    recorded = record_settings(settings, tenant, parent)
    record = SettingsStored(settings_sha256=settings.digest, settings=recorded)
    body = record.model_dump_json(exclude_defaults=True, exclude={"kind"})
    return Entry("traces", (n, seq, record.kind, now(), body))


def has_only_settings(database: Database, session_id: str, end: Chain) -> bool:
    """Return whether the chain consists of the sound record of the settings with which it was created."""
    if end.records != 1:
        return False
    sql = "SELECT n, seq, event, at, body FROM traces WHERE session_id = ? AND record = 0 AND event = ?"
    rows = database.query(sql, (session_id, SETTINGS))
    return [digest_of(make_first_digest(session_id), "traces", row) for row in rows] == [end.digest]


def load_parent(database: Database, session_id: str) -> Parent:
    rows = database.query("SELECT parent_id, parent_seq FROM sessions WHERE id = ?", (session_id,))
    return (rows[0][0], None if rows[0][1] is None else int(rows[0][1])) if rows else NO_PARENT


def digest_row(tenant: str, parent: Parent, text: str) -> str:
    """Return a digest of the row of a session, whose settings have the JSON `text`."""
    parts = json.dumps([tenant, *parent, text])
    return hashlib.sha256(parts.encode()).hexdigest()


def load_row_digest(database: Database, session_id: str) -> str:
    """Return the digest of the stored row; empty if there is none."""
    sql = "SELECT tenant, parent_id, parent_seq, settings FROM sessions WHERE id = ?"
    rows = database.query(sql, (session_id,))
    if not rows:
        return ""
    tenant, parent_id, parent_seq, text = rows[0]
    return digest_row(tenant, (parent_id, None if parent_seq is None else int(parent_seq)), text)


def compare_settings(database: Database, session_id: str) -> SettingsProof:
    """Compare the row of a session with the newest sound record of settings in its chain."""
    proof = _compare(database, session_id)
    for _ in range(_MOST_TRIES):
        # A run that begins at this moment changes both at once.
        if not proof.differences or (again := _compare(database, session_id)) == proof:
            break
        proof = again
    return proof


def list_moved_sessions(database: Database, tenant: str) -> Iterator[str]:
    """Yield the sessions that no list of this tenant has and whose tenant was changed from outside, by id.

    A store with many sessions of other tenants is looked through in part.
    """
    sql = (
        "SELECT s.id FROM sessions s JOIN heads h ON h.session_id = s.id"
        f" WHERE s.tenant <> ? OR h.tenant <> s.tenant ORDER BY s.id LIMIT {_MOST_FOREIGN}"
    )
    for (session_id,) in database.query(sql, (tenant,)):
        if "tenant" in compare_settings(database, session_id).differences:
            yield session_id


def has_one_value(database: Database, session_id: str) -> bool:
    """Return whether every sound record of settings of a session has the settings of its row.

    If records of the session are damaged, the row could be that of an earlier run otherwise.
    """
    row = _load_row(database, session_id)
    settings = None if row is None else _parse(row.text)
    recorded = {one.settings_sha256 for _, one in _list_records(database, session_id)}
    return settings is not None and recorded == {settings.digest}


def has_missing_after(database: Database, session_id: str, record: int, end: Chain) -> bool:
    """Return whether a record after number `record` is missing from the chain."""
    counts = (
        database.query(
            f"SELECT COUNT(*) FROM {table} WHERE session_id = ? AND record > ? AND record < ?",
            (session_id, record, end.records),
        )
        for table in CHAINED
    )
    return sum(int(rows[0][0]) for rows in counts) < end.records - record - 1


def is_acceptable(differences: Sequence[str]) -> bool:
    """Return whether a person who decides about every call can go on with these settings.

    That is not so if they say whose session it is, or cannot be read.
    """
    return not set(differences) & {*OWNERS, "settings"}


def make_changed_error(session_id: str, differences: Sequence[str]) -> SettingsChanged:
    """Return the error for a session whose settings are not those that its chain records."""
    named = ", ".join(differences)
    error = SettingsChanged(
        f"The settings of session {session_id} were changed outside of Sandbur: {named}. They are not those"
        " that its records contain, so it is not opened.",
        f"Open it at a terminal, where it goes on in interactive mode, without its rules: sandbur -r"
        f" {session_id}"
        if is_acceptable(differences)
        else "Restore the store from a backup, or begin a new session.",
    )
    error.fields = tuple(differences)
    return error


def _compare(database: Database, session_id: str) -> SettingsProof:
    row = _load_row(database, session_id)
    if row is None:
        return SettingsProof()
    settings = _parse(row.text)
    record, newest = next(_list_records(database, session_id), (-1, None))
    if settings is None:
        return SettingsProof(("settings",), newest is not None, record)
    recorded = None if newest is None else newest.settings
    found = dict.fromkeys(_compare_places(row, settings, is_strict=recorded is not None))
    if newest is None:
        return SettingsProof(tuple(found), False)
    if recorded is not None:
        found |= dict.fromkeys(_compare_owners(row, recorded))
    if newest.settings_sha256:
        if newest.settings_sha256 != settings.digest:
            differing = (
                _compare_conditions(settings, newest)
                if recorded is None
                else _compare_fields(settings, recorded)
            )
            found |= dict.fromkeys(tuple(differing) or (_OTHERS,))
        return SettingsProof(tuple(found), True, record)
    conditions = newest.conditions if isinstance(newest, RunBegan) else None
    found |= dict.fromkeys(_compare_conditions(settings, newest))
    return SettingsProof(tuple(found), conditions is not None, record)


def _compare_places(row: _Row, settings: SessionSettings, is_strict: bool) -> Iterator[str]:
    """Yield the names of columns that do not repeat the settings. Older versions left some of them empty."""
    place = make_place(row.tenant, settings)
    names = {"tenant": "tenant", "folder": "cwd", "app": "app", "app_user": "user", "lane": "labels"}
    for column, expected in place.items():
        if row.place[column] != expected and (is_strict or row.place[column]):
            yield names[column]
    by = settings.spawned_by
    if row.spawner != ((by.session_id, by.sequence, by.call_id) if by else (None, None, None)):
        yield "spawned_by"
    if is_strict and not set(make_label_keys("", "", settings.tags).tags) <= row.tags:
        yield "tags"


def _compare_owners(row: _Row, recorded: RecordedSettings) -> Iterator[str]:
    if row.tenant != recorded.tenant:
        yield "tenant"
    if row.parent != (recorded.parent_id, recorded.parent_seq):
        yield "parent"


def _compare_fields(settings: SessionSettings, recorded: RecordedSettings) -> Iterator[str]:
    present = {name: _digest(value) for name, value in _dump(settings).items()}
    for name in sorted(present.keys() | recorded.fields.keys()):
        if present.get(name) != recorded.fields.get(name):
            yield name


def _compare_conditions(
    settings: SessionSettings, newest: RunBegan | SessionImported | SettingsStored
) -> tuple[str, ...]:
    """Return the rules and folders that differ from those of the last run of an older version."""
    conditions = newest.conditions if isinstance(newest, RunBegan) else None
    names = ("allow", "deny", "ask", "cwd", "add_dirs")
    if not isinstance(conditions, Conditions):
        return ()
    return tuple(name for name in names if getattr(conditions, name) != getattr(settings, name))


def _load_row(database: Database, session_id: str) -> _Row | None:
    rows = database.query(
        "SELECT s.tenant, s.parent_id, s.parent_seq, s.settings, s.parent_session, s.parent_sequence,"
        " s.parent_call, h.tenant, h.folder, h.app, h.app_user, h.lane"
        " FROM sessions s JOIN heads h ON h.session_id = s.id WHERE s.id = ?",
        (session_id,),
    )
    if not rows:
        return None
    tenant, parent_id, parent_seq, text, spawner, sequence, call, *place = rows[0]
    tags = database.query("SELECT tag FROM session_tags WHERE session_id = ?", (session_id,))
    names = ("tenant", "folder", "app", "app_user", "lane")
    return _Row(
        tenant,
        (parent_id, None if parent_seq is None else int(parent_seq)),
        text,
        (spawner, None if sequence is None else int(sequence), call),
        dict(zip(names, place, strict=True)),
        frozenset(tag for (tag,) in tags),
    )


def _list_records(
    database: Database, session_id: str
) -> Iterator[tuple[int, RunBegan | SessionImported | SettingsStored]]:
    """Yield the sound records of settings with their numbers in the chain, newest first."""
    damaged: set[str] | None = None
    before = 2**62
    while True:
        rows = database.query(
            "SELECT n, record, event, body FROM traces WHERE session_id = ? AND record >= 0 AND n < ?"
            f" AND event IN ({', '.join('?' * len(_EVENTS))}) ORDER BY n DESC LIMIT {_PAGE}",
            (session_id, before, *_EVENTS),
        )
        damaged = list_quarantined_places(database, session_id, "traces") if damaged is None else damaged
        for n, record, event, body in rows:
            try:
                parsed = _RECORDS.validate_json(f'{{"kind":"{event}",{body[1:]}')
            except ValidationError:
                continue
            if str(n) not in damaged:
                yield int(record), parsed
        if len(rows) < _PAGE:
            return
        before = rows[-1][0]


def _parse(text: str) -> SessionSettings | None:
    try:
        return SessionSettings.model_validate_json(text)
    except ValidationError:
        return None


def _dump(settings: SessionSettings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_defaults=True)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGEST_CHARS]
