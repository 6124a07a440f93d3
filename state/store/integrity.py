"""Checks the hash chain of a session, and sets aside what does not hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from state.store.chain import digest_of, first_digest
from state.store.clock import now
from state.store.database import Database, Statement
from state.store.schema import CHAINED, KEYS

_PAGE_ROWS = 500
_MOST_NAMED = 5
_NOUNS = {"steps": "step", "messages": "message", "calls": "call record", "outputs": "output",
          "files": "file change", "traces": "trace record"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Damage:
    """One row that is not what was written."""

    table: str
    place: str
    """Its primary key within the session, joined by `/`."""
    reason: str

    def __str__(self) -> str:
        return f"{_NOUNS[self.table]} {self.place} {self.reason}"


@dataclass(frozen=True, slots=True)
class Health:
    """What is wrong with the records of a session."""

    damages: tuple[Damage, ...] = ()
    """Not set aside yet."""
    set_aside: tuple[Damage, ...] = ()
    """Found earlier; they are not used any more."""
    missing: int = 0
    """Records that are gone, in the middle or at the end."""

    @property
    def is_good(self) -> bool:
        return not (self.damages or self.missing)

    @property
    def may_lack_starts(self) -> bool:
        """True if a call may have been started without a record that says so."""
        return bool(self.missing) or any(d.table == "calls" for d in (*self.damages, *self.set_aside))

    def sentences(self) -> list[str]:
        """Return what a person should know."""
        said = [
            f"The {damage}. It is set aside, and the session goes on without it."
            for damage in self.damages[:_MOST_NAMED]
        ]
        if len(self.damages) > _MOST_NAMED:
            said.append(f"So are {len(self.damages) - _MOST_NAMED} more records of this session.")
        if self.missing:
            noun = "record is" if self.missing == 1 else "records are"
            said.append(
                f"{self.missing} {noun} missing from this session: the store lost a part of what was written,"
                " or is an older copy. What those records said may have happened all the same."
            )
        return said


def examine(database: Database, session_id: str) -> Health:
    """Compare every row with its digest, every digest with the one before, and the end with the head."""
    head = database.query("SELECT records, chain FROM heads WHERE session_id = ?", (session_id,))
    if not head:
        return Health()
    records, end = int(head[0][0]), str(head[0][1])
    known = _set_aside(database, session_id)
    digests = {
        int(record): str(digest)
        for table in CHAINED
        for record, digest in database.query(
            f"SELECT record, digest FROM {table} WHERE session_id = ?", (session_id,)
        )
    }
    damages = [
        damage
        for table in CHAINED
        for damage in _damages(database, session_id, table, digests)
        if (damage.table, damage.place) not in known
    ]
    lost_in_front = sum(1 for record in range(records) if record not in digests)
    lost_behind = max(database.marked(session_id) - records, 0)
    if records and not damages and records - 1 in digests and digests[records - 1] != end:
        lost_behind = max(lost_behind, 1)
    return Health(tuple(damages), tuple(known.values()), lost_in_front + lost_behind)


def quarantine(session_id: str, health: Health) -> list[Statement]:
    """Return the statements that set the damaged rows aside; they stay where they are, as they are."""
    return [
        (
            "INSERT INTO quarantine (session_id, source, place, at, reason) VALUES (?, ?, ?, ?, ?)",
            (session_id, damage.table, damage.place, now(), damage.reason),
        )
        for damage in health.damages
    ]


def places_set_aside(database: Database, session_id: str, table: str) -> set[str]:
    """Return the keys of the rows of a table that must not be used."""
    return {place for source, place in _set_aside(database, session_id) if source == table}


def _set_aside(database: Database, session_id: str) -> dict[tuple[str, str], Damage]:
    rows = database.query("SELECT source, place, reason FROM quarantine WHERE session_id = ?", (session_id,))
    return {(source, place): Damage(source, place, reason) for source, place, reason in rows}


def _damages(database: Database, session_id: str, table: str, digests: dict[int, str]) -> Iterator[Damage]:
    columns = CHAINED[table]
    keys = [columns.index(key) for key in KEYS[table]]
    for row in _rows(database, session_id, table):
        *values, record, digest = row
        previous = digests.get(int(record) - 1) if int(record) else first_digest(session_id)
        # Without its predecessor a row cannot be checked; that one is reported as missing.
        if previous is not None and digest_of(previous, table, values) != digest:
            yield Damage(table, "/".join(str(values[key]) for key in keys), "is not what was written")


def _rows(database: Database, session_id: str, table: str) -> Iterator[Sequence[Any]]:
    """Read a table page by page, in the order of its key."""
    keys = ", ".join(KEYS[table])
    marks = ", ".join("?" * len(KEYS[table]))
    columns = ", ".join((*CHAINED[table], "record", "digest"))
    places = [CHAINED[table].index(key) for key in KEYS[table]]
    after: tuple[Any, ...] = ()
    while True:
        where = f" AND ({keys}) > ({marks})" if after else ""
        rows = database.query(
            f"SELECT {columns} FROM {table} WHERE session_id = ?{where} ORDER BY {keys} LIMIT {_PAGE_ROWS}",
            (session_id, *after),
        )
        yield from rows
        if len(rows) < _PAGE_ROWS:
            return
        after = tuple(rows[-1][place] for place in places)
