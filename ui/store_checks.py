"""What `sandbur doctor` finds out about the store: database, records, rights, leftovers."""

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from state.errors import SandburError
from ui.prune import size_text

if TYPE_CHECKING:
    from agent.config import Settings
    from state.store.store import Store

_MOST_NAMED = 5
_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Literal["good", "note", "bad"]
    name: str
    detail: str


def store_findings(settings: "Settings") -> Iterator[Finding]:
    from state.store.store import Store

    try:
        store = Store.open(settings.store_url, settings.tenant)
        try:
            yield from _findings(store, settings)
        finally:
            store.close()
    except SandburError as error:
        yield Finding("bad", "store", str(error))


def _findings(store: "Store", settings: "Settings") -> Iterator[Finding]:
    problems = store.check()
    yield from (Finding("bad", "store", problem) for problem in problems[:_MOST_NAMED])
    sessions = [summary.id for summary in store.sessions()]
    count = f"{len(sessions)} session{'' if len(sessions) == 1 else 's'}"
    damaged = list(_records(store, sessions))
    verdict = "damaged" if problems or any(f.verdict == "bad" for f in damaged) else "intact"
    yield Finding("good" if verdict == "intact" else "bad", "store", f"{store.name}, {count}, {verdict}")
    yield from damaged
    yield from _dead_runs(store)
    if settings.store_url.startswith(_SQLITE):
        yield from _rights(Path(settings.store_url.removeprefix(_SQLITE)))
    yield from _leftovers(settings.home, sessions)


def _records(store: "Store", sessions: list[str]) -> Iterator[Finding]:
    """Follow the hash chain of every session."""
    from state.store.health import examine

    for session_id in sessions:
        health = examine(store.database, session_id)
        for sentence in health.sentences():
            yield Finding("bad", "session", f"{session_id[:8]}: {sentence}")
        if health.set_aside:
            count = len(health.set_aside)
            noun = "damaged record is" if count == 1 else "damaged records are"
            yield Finding("note", "session", f"{session_id[:8]}: {count} {noun} set aside")


def _dead_runs(store: "Store") -> Iterator[Finding]:
    from state.store.waking import due_runs

    due = [run for run in due_runs(store.database, store.tenant, datetime.now(UTC)) if not run.held_by]
    if due:
        noun = "run waits" if len(due) == 1 else "runs wait"
        yield Finding("note", "runs", f"{len(due)} {noun} to go on: `sandbur resume --due`")


def _rights(database: Path) -> Iterator[Finding]:
    """Name every file of the store that others can read."""
    marks = database.with_name(database.name + "-marks")
    files = [database.with_name(database.name + suffix) for suffix in ("", "-wal", "-shm")]
    inside = list(marks.iterdir()) if marks.is_dir() else []
    for path, wanted in [*((file, "600") for file in (*files, *inside)), (database.parent, "700")]:
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            mode = stat.S_IMODE(path.stat().st_mode)
            yield Finding("note", "permissions", f"{path} is {mode:04o}; `chmod {wanted}` keeps others out")


def _leftovers(home: Path, sessions: list[str]) -> Iterator[Finding]:
    """Find what calls left behind whose session is gone."""
    from agent.leftovers import size_of, strays

    found = strays(home, sessions)
    if found:
        noun = "folder" if len(found) == 1 else "folders"
        detail = f"{len(found)} {noun} in {home / 'scratch'} ({size_text(size_of(found))})"
        yield Finding("note", "leftovers", f"{detail} of sessions that are not in this store")
