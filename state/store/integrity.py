"""Checks the hash chain of a session, and quarantines damaged rows."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

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
from ..errors import StoreError
from ..lazy_dataclass import dataclass
from ..process.clock import now
from .deltas import UNREADABLE
from .seals import BrokenSeal, find_broken_seals, load_head_with_seals, note_verified
from .sessions.listing import load_lineage

_MOST_NAMED = 5
_NOUNS = {"steps": "step", "messages": "message", "calls": "call record", "outputs": "output",
          "files": "file change", "traces": "trace record"}  # fmt: skip
AFTER_THE_END = "stands behind the end of the chain"
"""The reason for a row that no writer added. It is a stored text. In the quarantine, the row's chain number
is negative.
"""


@dataclass(frozen=True, slots=True)
class Damage:
    """A row that differs from the row that was written."""

    table: str
    place: str
    """The primary key of the row in the session, joined by `/`."""
    reason: str

    def __str__(self) -> str:
        return f"{_NOUNS.get(self.table, 'record')} {self.place} {self.reason}"


@dataclass(frozen=True, slots=True)
class Health:
    """The damage in the records of a session."""

    damages: tuple[Damage, ...] = ()
    """The damaged rows that are not quarantined yet."""
    quarantined: tuple[Damage, ...] = ()
    """The damaged rows that were quarantined earlier. They are not used any more."""
    missing: int = 0
    """The number of missing records, in the middle or at the end."""
    broken_seals: tuple[BrokenSeal, ...] = ()
    end: Chain | None = None
    """The end of the checked chain; None if there is no such session."""

    @property
    def is_whole(self) -> bool:
        """Return whether every record is as it was written, and none is missing."""
        return not (self.damages or self.quarantined or self.missing or self.broken_seals)

    @property
    def may_lack_starts(self) -> bool:
        """Return whether the record of a started call may be missing."""
        damages = (d for d in (*self.damages, *self.quarantined) if d.reason != AFTER_THE_END)
        return bool(self.missing) or any(d.table == "calls" for d in damages)

    def describe(self) -> list[str]:
        """Return the damage as sentences for a person."""
        sentences = _describe_damages(self.damages, "is set aside", "So are")
        sentences += _describe_damages(self.quarantined, "was set aside earlier", "So were")
        if self.missing:
            noun = "record is" if self.missing == 1 else "records are"
            sentences.append(
                f"{self.missing} {noun} missing from this session: the store lost some of its records, or is"
                " an older copy. The events in those records may have happened nevertheless."
            )
        if any(broken.is_newest for broken in self.broken_seals):
            sentences.append(
                "The records of this session do not match the seals of this machine: another program"
                " changed them. Look at them with: sandbur sessions verify"
            )
        return sentences


def _describe_damages(damages: Sequence[Damage], what_is_done: str, more: str) -> list[str]:
    """Return a sentence for each of the first damages, and one sentence for the rest."""
    sentences = [
        f"The {damage}. It {what_is_done}, and the session continues without it."
        for damage in damages[:_MOST_NAMED]
    ]
    if len(damages) > _MOST_NAMED:
        sentences.append(f"{more} {len(damages) - _MOST_NAMED} more records of this session.")
    return sentences


def examine(database: Database, session_id: str) -> Health:
    """Compare every row with its digest, every digest with the previous one, and the end of the chain with
    the head.

    If a row seems to be missing or damaged, the check is repeated without the indexes of the database.
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
    # The head is read first: rows that a running session adds meanwhile do not count as missing.
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
    # A damaged number of records can be as large as 2**63: it is not counted up to.
    lost_before_end = max(records, 0) - sum(1 for record in digests if 0 <= record < records)
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
    """Yield the chain number, the digest, the table and the key of every chained row."""
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
    """Return the rows after the end of the chain. `numbers` contains the number, table and key of all
    rows.
    """
    # The head is read after the rows: rows that a running session adds meanwhile belong to the chain.
    head = load_chain(database, session_id)
    records = head.records if head else 0
    return {
        (table, place): Damage(table, place, AFTER_THE_END)
        for record, table, place in sorted(numbers)
        if record >= records
    }


@contextmanager
def name_damage(database: Database, session_id: str) -> Generator[None]:
    """Raise `StoreError` in place of what the content of a damaged record raises.

    The records of the session and its ancestors are checked only then.
    """
    try:
        yield
    except UNREADABLE as error:
        if found := find_damage(database, session_id):
            raise found from error
        raise


def find_damage(database: Database, session_id: str) -> StoreError | None:
    """Return an error that names the damage in a session or its ancestors; None if they are whole."""
    for owner, _ in load_lineage(database, session_id):
        health = examine(database, owner)
        if not health.is_whole:
            damages = [*health.damages, *health.quarantined]
            what = f"the {damages[0]}" if damages else "records are missing, or their seals are broken"
            return StoreError(
                f"Session {owner} is damaged: {what}.",
                f"Continue without what is damaged: sandbur -r {session_id}. See all of it:"
                f" sandbur sessions verify {session_id}",
            )
    return None


def quarantine(session_id: str, health: Health) -> list[Statement]:
    """Return the statements that quarantine the damaged rows. The rows stay in their tables.

    A row after the end is removed from the chain, because the next row will use its number.
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
    """Return an SQL condition, with its values, that finds the row of a `Damage` in its session."""
    keys = KEYS[table]
    # The key of an output contains the id of a call, which may contain a slash.
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
        # A row after a missing row cannot be checked. The missing row is reported.
        if previous is not None and digest_of(previous, table, values) != digest:
            yield Damage(table, format_row_key(table, row), "is not what was written")
