"""Chooses which sessions a check of bounded time verifies: those that changed last."""

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from ..databases.chain import load_chain
from ..databases.database import Database
from ..store.sessions.listing import count_sessions, list_newest, load_lineage

MOST_RECORDS = 5_000
"""The most records of the sessions that are chosen, all together."""
_MOST_SESSIONS = 500


class ChosenSessions(NamedTuple):
    """The sessions of a tenant to verify."""

    parents: Mapping[str, str | None]
    """Maps the id of each to the session that it was forked from."""
    left_out: int
    """How many other sessions the tenant has."""


def choose_every_session(database: Database, tenant: str) -> ChosenSessions:
    return ChosenSessions({one.id: one.parent_id for one in list_newest(database, tenant)}, 0)


def choose_recent_sessions(
    database: Database, tenant: str, most_records: int = MOST_RECORDS
) -> ChosenSessions:
    """Choose the sessions that changed last, as many as have at most so many records together.

    What a session was forked from is chosen with it: a fork is verified after its parent.
    """
    chosen: dict[str, str | None] = {}
    left = most_records
    for summary in islice(list_newest(database, tenant), _MOST_SESSIONS):
        lineage = [owner for owner, _ in load_lineage(database, summary.id)]
        parents = dict(zip(lineage, [None, *lineage], strict=False))
        records = sum(_count_records(database, one) for one in parents.keys() - chosen)
        if records <= left:
            chosen |= parents
            left -= records
    return ChosenSessions(chosen, max(count_sessions(database, tenant) - len(chosen), 0))


def list_session_ids(database: Database, tenant: str) -> list[str]:
    return [row[0] for row in database.query("SELECT id FROM sessions WHERE tenant = ?", (tenant,))]


def _count_records(database: Database, session_id: str) -> int:
    end = load_chain(database, session_id)
    return 0 if end is None else end.records
