"""Deaths: how often the process of a session died without progress, and what ran then.

Each death is one row of the inbox table, which the writer of the session does not write. A session that died
too often is parked: no process resumes it by itself until a person lets it try again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, cast

from ...conversation.messages import parse_json_object
from ...databases.database import Database, GuardedUpdate, Statement, exists, insert_once, update
from ...errors import GuardFailed, SessionParked, StoreError
from ...lazy_dataclass import dataclass
from ...process.clock import now
from ...process.crashpoints import reach
from .family import list_descendants
from .inbox import DIED, WITHDRAWN
from .record_feed import load_newest_run, load_position

PARKED = "parked"
"""The status of a session whose process died too often without progress."""
MOST_DEATHS = 3
"""After so many deaths without progress, a session is parked."""
_NEAR_STEPS = 3
"""Within so many steps after a death there was no progress: a model that reads of a cut call repeats it in
the third step at the latest.
"""
_NO_PROGRESS = ("interrupted", "error", "rate_limited")
"""A run that ends with another status has made progress."""
_MOST_TRIES = 20
_MOST_CHARS = 120
_MOST_CALLS = 4
_AT_ONCE = 500


class Death(NamedTuple):
    """One death of the process that ran a session."""

    epoch: int
    """The epoch of the claim of the process that died."""
    steps: int
    """How many steps the session and its sub-agents had."""
    run: int
    """The number of the newest run, see `NewestRun`; -1: there was none."""
    host: str
    at: str
    """When the death was found."""
    ran: tuple[str, ...]
    """The calls that ran, such as `fetch({"id": 5})`."""


@dataclass(frozen=True, slots=True)
class Deaths:
    """The deaths of a session one after the other, without progress between them, oldest first."""

    session_id: str
    found: tuple[Death, ...] = ()

    @property
    def count(self) -> int:
        return len(self.found)

    @property
    def are_too_many(self) -> bool:
        return self.count >= MOST_DEATHS

    @property
    def is_suspect(self) -> bool:
        """Return whether the session may have killed its process, so that nothing should run beside it."""
        return self.count > 1 or any(death.ran for death in self.found)

    @property
    def reason(self) -> str:
        """Return what ran, how often, and where, as a sentence."""
        if not self.found:
            return "Its process died again and again."
        hosts = " and ".join(dict.fromkeys(death.host for death in self.found))
        ran = [call for call in self.found[-1].ran if all(call in death.ran for death in self.found)]
        what = " and ".join(ran or dict.fromkeys(call for death in self.found for call in death.ran))
        during = f"while it ran {what}" if what else "while no call ran"
        often = "once" if self.count == 1 else f"{self.count} times in a row"
        return f"Its process died {often} {during}, on {hosts}."


def load_deaths(database: Database, session_ids: Collection[str]) -> dict[str, Deaths]:
    """Return the deaths since the last progress, for each of these sessions that has any."""
    found: dict[str, dict[int, Death]] = {}
    ids = list(session_ids)
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        rows = database.query(
            "SELECT session_id, at, body FROM inbox WHERE kind = ? AND session_id IN"
            f" ({', '.join('?' * len(some))}) ORDER BY n",
            (DIED, *some),
        )
        for session_id, at, body in rows:
            death = _parse_death(str(at), str(body))
            found.setdefault(str(session_id), {}).setdefault(death.epoch, death)
    last = {one: _keep_last(database, one, list(deaths.values())) for one, deaths in found.items()}
    return {one: deaths for one, deaths in last.items() if deaths.count}


def record_death(database: Database, session_id: str, epoch: int, owner: str) -> Deaths:
    """Record that the process with this claim died; return the deaths since the last progress.

    A death that is recorded already counts once. This waits for the database.
    """
    known = load_deaths(database, [session_id]).get(session_id, Deaths(session_id))
    if any(death.epoch == epoch for death in known.found):
        return known
    newest = load_newest_run(database, session_id)
    family = [session_id, *list_descendants(database, session_id)]
    death = Death(
        epoch,
        _count_steps(database, family),
        -1 if newest is None else newest.number,
        owner.split(":")[0][:_MOST_CHARS],
        now(),
        _list_open_calls(database, family),
    )
    reach("death_before_commit")
    _insert_death(database, session_id, death)
    reach("death_committed")
    return _keep_last(database, session_id, [*known.found, death])


def has_progressed(database: Database, deaths: Deaths) -> bool:
    """Return whether a session is well past the place where its process died."""
    return not _keep_last(database, deaths.session_id, list(deaths.found)).count


def drop_deaths(session_id: str) -> Statement:
    """Return the statement that removes the deaths of a session, because a person lets it try again."""
    return update("inbox", {"kind": WITHDRAWN, "body": "{}"}, {"session_id": session_id, "kind": DIED})


def make_parked_error(deaths: Deaths) -> SessionParked:
    """Return the error for a process that would resume a parked session by itself."""
    error = SessionParked(
        f"Session {deaths.session_id} is parked. {deaths.reason}",
        f"Let it try again: sandbur approve {deaths.session_id}, or open it: sandbur -r {deaths.session_id}",
    )
    error.session_id = deaths.session_id
    return error


def count_parked(database: Database) -> int:
    """Return how many sessions of all tenants are parked."""
    return int(database.query("SELECT COUNT(*) FROM heads WHERE status = ?", (PARKED,))[0][0])


def _keep_last(database: Database, session_id: str, deaths: Sequence[Death]) -> Deaths:
    """Return those of these deaths after which there was no progress, neither a few steps nor the end of a
    run.
    """
    if not deaths:
        return Deaths(session_id)
    deaths = sorted(deaths, key=lambda death: death.epoch)
    ends = _list_ends(database, session_id, deaths[0].run)
    next_run = max(ends, default=0) + 1
    next_steps = _count_steps(database, [session_id, *list_descendants(database, session_id)])
    kept: list[Death] = []
    for death in reversed(deaths):
        has_ended = any(death.run < end < next_run for end in ends)
        if has_ended or next_steps - death.steps > _NEAR_STEPS:
            break
        kept.append(death)
        next_run, next_steps = death.run, death.steps
    return Deaths(session_id, tuple(reversed(kept)))


def _list_ends(database: Database, session_id: str, after: int) -> list[int]:
    """Return the numbers of the records with the ends of runs that made progress."""
    rows = database.query(
        "SELECT n, body FROM traces WHERE session_id = ? AND event = 'run_ended' AND n > ? ORDER BY n",
        (session_id, after),
    )
    return [int(number) for number, body in rows if _is_progress(parse_json_object(str(body)) or {})]


def _is_progress(end: dict[str, Any]) -> bool:
    """Return whether a run that ended so has made progress."""
    failure: Any = end.get("error")
    code = cast("dict[str, Any]", failure).get("code") if isinstance(failure, dict) else None
    return end.get("status") not in _NO_PROGRESS and code != SessionParked.code


def _count_steps(database: Database, family: Sequence[str]) -> int:
    count = 0
    for start in range(0, len(family), _AT_ONCE):
        some = tuple(family[start : start + _AT_ONCE])
        marks = ", ".join("?" * len(some))
        sql = f"SELECT COALESCE(SUM(last_seq + 1), 0) FROM heads WHERE session_id IN ({marks})"
        count += int(database.query(sql, some)[0][0])
    return count


def _list_open_calls(database: Database, family: Sequence[str]) -> tuple[str, ...]:
    """Return the calls of a session and its sub-agents that started and have no recorded end.

    A call whose sub-agent has open calls is left out.
    """
    found: list[str] = []
    for session_id in reversed(family):
        rows = database.query(
            "SELECT call_id, move FROM calls WHERE session_id = ? AND move IN ('started', 'finished')"
            " ORDER BY n",
            (session_id,),
        )
        last = {str(call_id): str(move) for call_id, move in rows}
        open_calls = {call_id for call_id, move in last.items() if move == "started"}
        if open_calls and not (session_id == family[0] and found):
            found += _describe_calls(database, session_id, open_calls)
    return tuple(dict.fromkeys(found))[:_MOST_CALLS]


def _describe_calls(database: Database, session_id: str, call_ids: Collection[str]) -> list[str]:
    position = load_position(database, session_id)
    pending: Any = position.fields.get("pending_tool_calls")
    asked = {} if position.asked is None else {use.call_id: use.arguments for use in position.asked.tool_uses}
    found: list[str] = []
    for one in cast("list[Any]", pending if isinstance(pending, list) else []):
        call = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
        if (call_id := call.get("call_id")) in call_ids:
            # A step leaves out the arguments that its message has.
            text = f"{call.get('tool', '?')}({call.get('arguments') or asked.get(str(call_id), '')})"
            found.append(text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 4]}...)")
    return found


def _insert_death(database: Database, session_id: str, death: Death) -> None:
    body = {**death._asdict(), "ran": list(death.ran)}
    del body["at"]
    shared = {"session_id": session_id, "kind": DIED, "at": death.at, "body": json.dumps(body)}
    for _ in range(_MOST_TRIES):
        number = _find_free_number(database, session_id)
        place, token = {"session_id": session_id, "n": number}, secrets.token_hex(16)
        claim = insert_once("inbox", {**shared, "n": number, "token": token}, unless=place)
        try:
            database.commit([], GuardedUpdate(claim, exists("inbox", {**place, "token": token})))
        except GuardFailed:
            continue
        except StoreError:
            # Two processes wrote at the same time, and the database accepted one of them.
            if _find_free_number(database, session_id) > number:
                continue
            raise
        return
    raise StoreError("Too many other processes write to this session.", "Try again.")


def _find_free_number(database: Database, session_id: str) -> int:
    rows = database.query("SELECT MAX(n) FROM inbox WHERE session_id = ?", (session_id,))
    return 1 + int(rows[0][0] or 0)


def _parse_death(at: str, body: str) -> Death:
    fields: dict[str, Any] = parse_json_object(body) or {}
    ran = fields.get("ran")
    calls = [str(one) for one in cast("list[Any]", ran)] if isinstance(ran, list) else []
    return Death(
        int(fields.get("epoch", -1)),
        int(fields.get("steps", 0)),
        int(fields.get("run", -1)),
        str(fields.get("host", "?")),
        at,
        tuple(calls),
    )
