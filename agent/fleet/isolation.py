"""Isolation: which claimed sessions run now, so that one that kills its process takes no other with it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from ...state.databases.database import Database
from ...state.store.sessions.claims import Claimed
from ...state.store.sessions.deaths import PARKED, Deaths, has_progressed, load_deaths


class SortedOut(NamedTuple):
    """What a worker does with the sessions that it claimed."""

    run: list[Claimed]
    left: list[Claimed]
    """Those that it hands back, because one of them has to run alone."""
    parked: list[tuple[Claimed, Deaths]]
    """Those whose process died too often: a person has to decide about them."""
    notices: list[str]
    """Sentences for the person who operates the worker."""


class SessionIsolation:
    """Remembers which session of a worker runs alone. Every method waits for the database.

    A session whose process died while a call ran is alone until it is a few steps further, or until its run
    has ended: a call that kills its process is found, and those that ran beside it lose nothing more.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._deaths: Deaths | None = None

    @property
    def session_id(self) -> str:
        """Return the session that runs alone; empty if there is none."""
        return "" if self._deaths is None else self._deaths.session_id

    def is_needed(self, running: Container[str]) -> bool:
        """Return whether nothing may run beside a session of `running`."""
        if self._deaths is None:
            return False
        if self._deaths.session_id not in running or has_progressed(self._database, self._deaths):
            self._deaths = None
        return self._deaths is not None

    def sort_out(self, claimed: Sequence[Claimed]) -> SortedOut:
        """Decide which of the claimed sessions run now."""
        deaths = load_deaths(self._database, [one.session_id for one in claimed])
        every = [(one, deaths.get(one.session_id, Deaths(one.session_id))) for one in claimed]
        parked = [(one, found) for one, found in every if found.are_too_many or one.status == PARKED]
        notices = [f"Session {one.session_id} is parked. {found.reason}" for one, found in parked]
        rest = [pair[0] for pair in every if pair not in parked]
        suspect = next(
            (one for one in rest if (found := deaths.get(one.session_id)) and found.is_suspect), None
        )
        if suspect is None:
            return SortedOut(rest, [], parked, notices)
        self._deaths = deaths[suspect.session_id]
        notices.append(f"Session {suspect.session_id} runs alone. {self._deaths.reason}")
        return SortedOut([suspect], [one for one in rest if one is not suspect], parked, notices)
