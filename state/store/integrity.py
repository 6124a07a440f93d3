"""Checks the hash chain of a session, and quarantines damaged rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..databases.chain import (
    WHOLE_ROWS,
    Chain,
    digest_of,
    format_row_key,
    insert_row,
    list_quarantine,
    list_rows,
    load_chain,
    make_first_digest,
)
from ..databases.database import Database, Statement
from ..databases.schema import CHAINED, KEYS
from ..process.clock import now
from .seals import BrokenSeal, find_broken_seals, load_head_with_seals, note_verified

_MOST_NAMED = 5
_NOUNS = {"steps": "step", "messages": "message", "calls": "call record", "outputs": "output",
          "files": "file change", "traces": "trace record"}  # fmt: skip
AFTER_THE_END = "stands behind the end of the chain"
"""For a row that no writer put there; stored text. After quarantine, its number in the chain is negative."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A row that is not as it was written."""

    table: str
    place: str
    """Its primary key in the session, joined by `/`."""
    reason: str

    def __str__(self) -> str:
        return f"{_NOUNS[self.table]} {self.place} {self.reason}"


@dataclass(frozen=True, slots=True)
class Health:
    """The damage in the records of a session."""

    damages: tuple[Damage, ...] = ()
    """Not quarantined yet."""
    quarantined: tuple[Damage, ...] = ()
    """Quarantined earlier; these rows are not used any more."""
    missing: int = 0
    """Number of missing records, in the middle or at the end."""
    broken_seals: tuple[BrokenSeal, ...] = ()
    end: Chain | None = None
    """The end of the checked chain; None: there is no such session."""

    @property
    def is_whole(self) -> bool:
        """True if every record is as it was written, and none is missing."""
        return not (self.damages or self.quarantined or self.missing or self.broken_seals)

    @property
    def may_lack_starts(self) -> bool:
        """True if the record of a started call may be missing."""
        damages = (d for d in (*self.damages, *self.quarantined) if d.reason != AFTER_THE_END)
        return bool(self.missing) or any(d.table == "calls" for d in damages)

    def describe(self) -> list[str]:
        """Return the damage as sentences for a person."""
        sentences = _describe_damages(self.damages, "is set aside", "So are")
        sentences += _describe_damages(self.quarantined, "was set aside earlier", "So were")
        if self.missing:
            noun = "record is" if self.missing == 1 else "records are"
            sentences.append(
                f"{self.missing} {noun} missing from this session: the store lost a part of what was written,"
                " or is an older copy. What those records described may have happened all the same."
            )
        if any(broken.is_newest for broken in self.broken_seals):
            sentences.append(
                "The records of this session are not what this machine's key has sealed: something else"
                " changed them. Look at them with: sandbur sessions verify"
            )
        return sentences


def _describe_damages(damages: Sequence[Damage], what_is_done: str, more: str) -> list[str]:
    """Return a sentence for each of the first damages, and one sentence for the rest."""
    sentences = [
        f"The {damage}. It {what_is_done}, and the session goes on without it."
        for damage in damages[:_MOST_NAMED]
    ]
    if len(damages) > _MOST_NAMED:
        sentences.append(f"{more} {len(damages) - _MOST_NAMED} more records of this session.")
    return sentences


def examine(database: Database, session_id: str) -> Health:
    """Compare every row with its digest, every digest with the previous one, and the end with the head.

    If something seems to be missing or damaged, the check is repeated without the database's indexes.
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
    # Read this first: rows that a running session adds meanwhile are not missing.
    marked = database.read_mark(session_id)
    found = load_head_with_seals(database, session_id)
    if found is None:
        return Health()
    (records, end), seals = found
    known = _load_quarantine(database, session_id)
    digests: dict[int, str] = {}
    numbers: list[tuple[int, str, str]] = []
    for record, digest, table, place in list_numbered_rows(database, session_id):
        digests[record] = digest
        numbers.append((record, table, place))
    strangers = _find_rows_after_end(database, session_id, numbers)
    damages = [
        damage
        for table in CHAINED
        for damage in _find_damages(database, session_id, table, digests)
        if (damage.table, damage.place) not in known and (damage.table, damage.place) not in strangers
    ]
    lost_before_end = sum(1 for record in range(records) if record not in digests)
    lost_at_end = max(marked - records, 0)
    if records and not damages and records - 1 in digests and digests[records - 1] != end:
        lost_at_end = max(lost_at_end, 1)
    broken = find_broken_seals(database, session_id, Chain(records, end), seals, digests)
    found_damages = (*damages, *strangers.values())
    missing = lost_before_end + lost_at_end
    health = Health(found_damages, tuple(known.values()), missing, tuple(broken), Chain(records, end))
    if not health.is_whole:
        note_verified(database, session_id, None)
    return health


def list_numbered_rows(database: Database, session_id: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield number in the chain, digest, table and key of every chained row."""
    for table, keys in KEYS.items():
        names = ", ".join(keys)
        rows = database.query(
            f"SELECT record, digest, {names} FROM {table} WHERE session_id = ? ORDER BY {names}",
            (session_id,),
        )
        for record, digest, *place in rows:
            yield int(record), str(digest), table, "/".join(map(str, place))


def _find_rows_after_end(
    database: Database, session_id: str, numbers: list[tuple[int, str, str]]
) -> dict[tuple[str, str], Damage]:
    """Return the rows after the end of the chain; `numbers` are number, table and key of all rows."""
    # Read this after the rows: rows that a running session adds meanwhile belong to the chain.
    head = load_chain(database, session_id)
    records = head.records if head else 0
    return {
        (table, place): Damage(table, place, AFTER_THE_END)
        for record, table, place in sorted(numbers)
        if record >= records
    }


def quarantine(session_id: str, health: Health) -> list[Statement]:
    """Return the statements that quarantine the damaged rows; the rows stay where they are.

    A row after the end leaves the chain, because the next row will use its number.
    """
    statements: list[Statement] = []
    for damage in health.damages:
        values = (session_id, damage.table, damage.place, now(), damage.reason)
        statements.append(insert_row("quarantine", values))
        if damage.reason == AFTER_THE_END:
            condition, values = make_row_condition(damage.table, damage.place)
            update = f"UPDATE {damage.table} SET record = -2 - record WHERE session_id = ? AND {condition}"
            statements.append((update, (session_id, *values)))
    return statements


def make_row_condition(table: str, place: str) -> tuple[str, list[str]]:
    """Return an SQL condition with its values that finds the row of a `Damage` in its session."""
    keys = KEYS[table]
    # The key of an output contains a call id, which may have a slash.
    return " AND ".join(f"{key} = ?" for key in keys), place.rsplit("/", len(keys) - 1)


def _load_quarantine(database: Database, session_id: str) -> dict[tuple[str, str], Damage]:
    found = list_quarantine(database, session_id)
    return {(source, place): Damage(source, place, reason) for source, place, reason in found}


def _find_damages(
    database: Database, session_id: str, table: str, digests: dict[int, str]
) -> Iterator[Damage]:
    for row in list_rows(database, table, session_id, WHOLE_ROWS[table]):
        *values, record, digest = row
        previous = digests.get(int(record) - 1) if int(record) else make_first_digest(session_id)
        # A row after a missing one cannot be checked; the missing one is reported.
        if previous is not None and digest_of(previous, table, values) != digest:
            yield Damage(table, format_row_key(table, row), "is not what was written")
