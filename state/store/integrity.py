"""Checks the hash chain of a session, and sets aside what does not hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..databases.chain import (
    WHOLE_ROWS,
    Chain,
    chain_of,
    digest_of,
    first_digest,
    place_of,
    row_of,
    rows_in_order,
    set_aside,
)
from ..databases.database import Database, Statement
from ..databases.schema import CHAINED, KEYS
from ..process.clock import now
from .seals import BrokenSeal, broken_seals, head_with_seals, vouch

_MOST_NAMED = 5
_NOUNS = {"steps": "step", "messages": "message", "calls": "call record", "outputs": "output",
          "files": "file change", "traces": "trace record"}  # fmt: skip
AFTER_THE_END = "stands behind the end of the chain"
"""Of a row that no writer put there. Once it is set aside, its number in the chain is negative."""


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
    broken_seals: tuple[BrokenSeal, ...] = ()
    end: Chain | None = None
    """Of the chain that was looked at; None: there is no such session."""

    @property
    def is_whole(self) -> bool:
        """True if every record is what was written, and none is gone."""
        return not (self.damages or self.set_aside or self.missing or self.broken_seals)

    @property
    def may_lack_starts(self) -> bool:
        """True if a call may have been started without a record that says so."""
        damages = (d for d in (*self.damages, *self.set_aside) if d.reason != AFTER_THE_END)
        return bool(self.missing) or any(d.table == "calls" for d in damages)

    def sentences(self) -> list[str]:
        """Return what a person should know."""
        said = _name_damages(self.damages, "is set aside", "So are")
        said += _name_damages(self.set_aside, "was set aside earlier", "So were")
        if self.missing:
            noun = "record is" if self.missing == 1 else "records are"
            said.append(
                f"{self.missing} {noun} missing from this session: the store lost a part of what was written,"
                " or is an older copy. What those records said may have happened all the same."
            )
        if any(broken.is_newest for broken in self.broken_seals):
            said.append(
                "The records of this session are not what this machine's key has sealed: something else"
                " changed them. Look at them with: sandbur sessions verify"
            )
        return said


def _name_damages(damages: Sequence[Damage], what_is_done: str, more: str) -> list[str]:
    """Return a sentence for each of the first damages, and one for the rest."""
    sentences = [
        f"The {damage}. It {what_is_done}, and the session goes on without it."
        for damage in damages[:_MOST_NAMED]
    ]
    if len(damages) > _MOST_NAMED:
        sentences.append(f"{more} {len(damages) - _MOST_NAMED} more records of this session.")
    return sentences


def examine(database: Database, session_id: str) -> Health:
    """Compare every row with its digest, every digest with the one before, and the end with the head.

    Nothing is taken for gone or damaged that a damaged index of the database hides.
    """
    health = _examine(database, session_id)
    if health.end is not None and not (health.damages or health.missing):
        return health

    def is_better(other: Health) -> bool:
        if health.end is None or other.end is None:
            return other.end is not None
        return len(other.damages) + other.missing < len(health.damages) + health.missing

    return database.read_again(lambda: _examine(database, session_id), is_better) or health


def _examine(database: Database, session_id: str) -> Health:
    # Asked first: what a running session adds in between is not missing.
    marked = database.marked(session_id)
    found = head_with_seals(database, session_id)
    if found is None:
        return Health()
    (records, end), seals = found
    known = _set_aside(database, session_id)
    digests: dict[int, str] = {}
    numbers: list[tuple[int, str, str]] = []
    for record, digest, table, place in numbered_rows(database, session_id):
        digests[record] = digest
        numbers.append((record, table, place))
    strangers = _strangers(database, session_id, numbers)
    damages = [
        damage
        for table in CHAINED
        for damage in _damages(database, session_id, table, digests)
        if (damage.table, damage.place) not in known and (damage.table, damage.place) not in strangers
    ]
    lost_before_end = sum(1 for record in range(records) if record not in digests)
    lost_at_end = max(marked - records, 0)
    if records and not damages and records - 1 in digests and digests[records - 1] != end:
        lost_at_end = max(lost_at_end, 1)
    broken = broken_seals(database, session_id, Chain(records, end), seals, digests)
    found_damages = (*damages, *strangers.values())
    missing = lost_before_end + lost_at_end
    health = Health(found_damages, tuple(known.values()), missing, tuple(broken), Chain(records, end))
    if not health.is_whole:
        vouch(database, session_id, None)
    return health


def numbered_rows(database: Database, session_id: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield number in the chain, digest, table and key of every chained row."""
    for table, keys in KEYS.items():
        names = ", ".join(keys)
        rows = database.query(
            f"SELECT record, digest, {names} FROM {table} WHERE session_id = ? ORDER BY {names}",
            (session_id,),
        )
        for record, digest, *place in rows:
            yield int(record), str(digest), table, "/".join(map(str, place))


def _strangers(
    database: Database, session_id: str, numbers: list[tuple[int, str, str]]
) -> dict[tuple[str, str], Damage]:
    """Return the rows after the end of the chain, from the number, table and key of all."""
    # Asked after the rows were read: what a running session adds in between is no stranger.
    head = chain_of(database, session_id)
    records = head.records if head else 0
    return {
        (table, place): Damage(table, place, AFTER_THE_END)
        for record, table, place in sorted(numbers)
        if record >= records
    }


def quarantine(session_id: str, health: Health) -> list[Statement]:
    """Return the statements that set the damaged rows aside; they stay where they are.

    One after the end leaves the chain: its number is the next row's.
    """
    statements: list[Statement] = []
    for damage in health.damages:
        values = (session_id, damage.table, damage.place, now(), damage.reason)
        statements.append(row_of("quarantine", values))
        if damage.reason == AFTER_THE_END:
            condition, values = row_condition(damage.table, damage.place)
            update = f"UPDATE {damage.table} SET record = -2 - record WHERE session_id = ? AND {condition}"
            statements.append((update, (session_id, *values)))
    return statements


def row_condition(table: str, place: str) -> tuple[str, list[str]]:
    """Return what finds a row within its session by the place that a `Damage` names."""
    keys = KEYS[table]
    # An output is named by its call, whose id may hold a slash.
    return " AND ".join(f"{key} = ?" for key in keys), place.rsplit("/", len(keys) - 1)


def _set_aside(database: Database, session_id: str) -> dict[tuple[str, str], Damage]:
    found = set_aside(database, session_id)
    return {(source, place): Damage(source, place, reason) for source, place, reason in found}


def _damages(database: Database, session_id: str, table: str, digests: dict[int, str]) -> Iterator[Damage]:
    for row in rows_in_order(database, table, session_id, WHOLE_ROWS[table]):
        *values, record, digest = row
        previous = digests.get(int(record) - 1) if int(record) else first_digest(session_id)
        # Without its predecessor a row cannot be checked; that one is reported as missing.
        if previous is not None and digest_of(previous, table, values) != digest:
            yield Damage(table, place_of(table, row), "is not what was written")
