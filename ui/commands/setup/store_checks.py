"""Checks of `sandbur doctor` for the store: its records, its files, and a test write."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from errno import ENOSPC
from pathlib import Path

from ....actions.workspace.paths import format_count, format_size
from ....agent.config.settings import Settings
from ....agent.runtime.cleanup import size_of, strays
from ....state.databases.database import Database
from ....state.errors import SandburError
from ....state.maintenance.damaged_rows import DamagedRow, find_damaged_rows, find_damaged_rows_of
from ....state.maintenance.recent import (
    ChosenSessions,
    choose_every_session,
    choose_recent_sessions,
    list_session_ids,
)
from ....state.maintenance.verify import Breach, audit_all
from ....state.maintenance.writing_check import try_room
from ....state.store.seals import find_key, key_path, name_maker
from ....state.store.sessions.sealed_limits import list_changed_limits, make_limit_error
from ....state.store.sessions.search import MOST_INDEXED, count_unindexed
from ....state.store.sessions.session_rows import list_due_runs
from ....state.store.sessions.settings_proof import list_moved_sessions
from ....state.store.store import Store
from ...cli.open_session import tell_notice
from ...terminal.live import ProgressLine
from ...terminal.standard_output import exit_on_signals
from ...terminal.text.sanitize import one_line
from ..sessions.verify import breach_line
from .installation_checks import Finding

_MOST_NAMED = 5
_SQLITE = "sqlite:///"


def store_findings(settings: Settings, reindexes: bool = False, is_full: bool = False) -> Iterator[Finding]:
    """Check the store. Only its indexes are changed, and only if `reindexes` is true.

    Of a large store, only what changed last is checked, unless `is_full` is true.
    """
    try:
        store = Store.open(settings.store, settings.tenant, tell_notice, home=settings.home)
        try:
            if reindexes:
                store.database.reindex()
                _index_words(store, shows_progress=not settings.plain)
            yield from _store_findings(store, settings, is_full)
        finally:
            store.close()
    except SandburError as error:
        yield Finding("bad", "store", error.message, error.hint)


def _store_findings(store: Store, settings: Settings, is_full: bool) -> Iterator[Finding]:
    choose = choose_every_session if is_full else choose_recent_sessions
    chosen = choose(store.database, store.tenant)
    is_whole = not chosen.left_out
    is_file = settings.store.startswith(_SQLITE)
    # Of a file, this reads every page; of a server, the names of its tables.
    problems = store.database.find_problems() if is_whole or not is_file else []
    if problems and (indexes := store.database.find_damaged_indexes()):
        detail = f"{', '.join(indexes)}: damaged; the records can still be read"
        yield Finding("bad", "index", detail, "sandbur doctor --reindex")
    else:
        for problem in problems[:_MOST_NAMED]:
            yield Finding("bad", "store", problem, "sandbur sessions verify")
    count = format_count(len(chosen.parents) + chosen.left_out, "session")
    with exit_on_signals():
        damaged = [
            *_records(store, chosen.parents, shows_progress=not settings.plain),
            *_row_findings(_find_rows(store.database, chosen, is_whole)),
            *_moved_sessions(store),
            *_changed_limits(store),
        ]
    unwritable = list(_check_writing(store, settings))
    intact = "intact" if is_whole else "intact as far as it was checked"
    verdict = "cannot be written" if unwritable else intact
    verdict = "damaged" if problems or any(f.verdict == "bad" for f in damaged) else verdict
    yield Finding("good" if verdict == intact else "bad", "store", f"{store.name}, {count}, {verdict}")
    if not is_whole:
        yield _left_out(chosen, is_file)
    yield from damaged
    yield _key(settings)
    yield from unwritable
    yield from _dead_runs(store)
    yield from _unindexed_words(store)
    if is_file:
        yield from _rights(Path(settings.store.removeprefix(_SQLITE)))
    yield from _find_leftovers(settings.home, list_session_ids(store.database, store.tenant))


def _left_out(chosen: ChosenSessions, is_file: bool) -> Finding:
    checked = format_count(len(chosen.parents), "session")
    rest = ", the rows of no session and the pages of the file" if is_file else " and the rows of no session"
    detail = f"only the {checked} that changed last were checked, not {chosen.left_out:,} others{rest}"
    return Finding("note", "not checked", detail, "sandbur doctor --full")


def _find_rows(database: Database, chosen: ChosenSessions, is_whole: bool) -> Iterator[DamagedRow]:
    """Yield the damaged rows outside of hash chains: all of them, or those of the chosen sessions."""
    if is_whole:
        return find_damaged_rows(database)
    return (row for session_id in chosen.parents for row in find_damaged_rows_of(database, session_id))


def _index_words(store: Store, shows_progress: bool) -> None:
    """Complete the index in which `sessions list --text` searches."""
    total = count_unindexed(store.database, store.tenant)
    with exit_on_signals(), ProgressLine("Indexing session", total, is_wanted=shows_progress) as progress:
        store.index_words(progress.show)


def _unindexed_words(store: Store) -> Iterator[Finding]:
    if (count := count_unindexed(store.database, store.tenant)) > MOST_INDEXED:
        detail = f"{format_count(count, 'session')} to index; each search in texts indexes {MOST_INDEXED:,}"
        yield Finding("note", "search", detail, "sandbur doctor --reindex")


def _moved_sessions(store: Store) -> Iterator[Finding]:
    for session_id in list_moved_sessions(store.database, store.tenant):
        detail = f"{session_id[:8]}: another program changed its tenant; it is opened by no process"
        yield Finding("bad", "session", detail, "Restore the store from a backup.")


def _changed_limits(store: Store) -> Iterator[Finding]:
    for kind, name in list_changed_limits(store.database):
        error = make_limit_error(kind, name)
        yield Finding("bad", kind, error.message, error.hint)


def _records(store: Store, parents: Mapping[str, str | None], shows_progress: bool) -> Iterator[Finding]:
    """Verify sessions, as `sessions verify` does."""
    with ProgressLine("Checking session", len(parents), is_wanted=shows_progress) as progress:
        for number, (session_id, breaches) in enumerate(audit_all(store.database, parents), 1):
            progress.show(number)
            yield from _breach_findings(session_id, breaches)


def _breach_findings(session_id: str, breaches: list[Breach]) -> Iterator[Finding]:
    fix = f"sandbur sessions verify {session_id}"
    for breach in breaches[:_MOST_NAMED]:
        detail = f"{session_id[:8]}: {breach_line(breach, session_id)}"
        yield Finding("note" if breach.is_set_aside else "bad", "session", detail, fix)
    if rest := breaches[_MOST_NAMED:]:
        verdict = "note" if all(breach.is_set_aside for breach in rest) else "bad"
        yield Finding(verdict, "session", f"{session_id[:8]}: {len(rest)} more problems", fix)


def _row_findings(found: Iterator[DamagedRow]) -> Iterator[Finding]:
    """Yield a finding for each damaged row that belongs to no chain, up to a number."""
    fix = "restore the store from a backup, or delete what is damaged"
    for count, row in enumerate(found):
        if count == _MOST_NAMED:
            yield Finding("bad", "store", "more rows are damaged", fix)
            return
        if row.table == "heads" and row.problem.startswith("title:"):
            fix_title = f"sandbur sessions rename {shlex.quote(row.key)} TITLE"
            yield Finding("bad", "session", f"{row.key[:8]}: its title is not what was written", fix_title)
        else:
            detail = f"{row.table}, {one_line(row.key)}: {one_line(row.problem)}"
            yield Finding("bad", "store", detail, fix)


def _key(settings: Settings) -> Finding:
    path = key_path(settings.home)
    try:
        key = find_key(settings.home)
    except SandburError as error:
        return Finding("bad", "seal key", error.message, error.hint)
    if key is None:
        return Finding("good", "seal key", f"none yet; {path} is created with the first record")
    mode = stat.S_IMODE(path.stat().st_mode)
    fix = f"chmod 600 {shlex.quote(str(path))}" if mode & 0o077 else ""
    return Finding("note" if fix else "good", "seal key", f"{path}, {mode:04o}, named {name_maker(key)}", fix)


def _check_writing(store: Store, settings: Settings) -> Iterator[Finding]:
    """Check that the store and its folder can be written; no test data stays."""
    try:
        store.try_writing()
    except SandburError as error:
        yield Finding("bad", "store", str(error), _look_at(settings))
    if settings.store.startswith(_SQLITE):
        folder = Path(settings.store.removeprefix(_SQLITE)).parent
        try:
            try_room(store)
        except OSError as error:
            problem = f"{folder} cannot be written: {error.strerror}."
            quoted = shlex.quote(str(folder))
            fix = f"df -h {quoted}" if error.errno == ENOSPC else f"chmod -R u+rwX {quoted}"
            yield Finding("bad", "folder", f"{problem} Make it writable, or free some space.", fix)


def _look_at(settings: Settings) -> str:
    """Return a shell command that prints owner and free space of the store, or no text for a server."""
    if not settings.store.startswith(_SQLITE):
        return ""
    quoted = shlex.quote(settings.store.removeprefix(_SQLITE))
    return f"ls -ld {quoted}; df -h {quoted}"


def _dead_runs(store: Store) -> Iterator[Finding]:
    due = [run for run in list_due_runs(store.database, store.tenant) if not run.held_by]
    if due:
        noun = "run waits" if len(due) == 1 else "runs wait"
        yield Finding("note", "runs", f"{len(due)} {noun} to be resumed", "sandbur resume --due")


def _rights(database: Path) -> Iterator[Finding]:
    """Yield a finding for every file of the store that other users can read."""
    marks = database.with_name(database.name + "-marks")
    files = [database.with_name(database.name + suffix) for suffix in ("", "-wal", "-shm")]
    inside = list(marks.iterdir()) if marks.is_dir() else []
    for path, wanted in [*((file, "600") for file in (*files, *inside)), (database.parent, "700")]:
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            mode = stat.S_IMODE(path.stat().st_mode)
            fix = f"chmod {wanted} {shlex.quote(str(path))}"
            yield Finding("note", "permissions", f"others can read {path}, which is {mode:04o}", fix)


def _find_leftovers(home: Path, sessions: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding if there are folders of calls whose sessions are not in the store."""
    found = strays(home, sessions)
    if found:
        noun = "folder" if len(found) == 1 else "folders"
        detail = f"{len(found)} {noun} in {home / 'scratch'} ({format_size(size_of(found))})"
        fix = f"rm -rI {' '.join(shlex.quote(str(one)) for one in found[:_MOST_NAMED])}"
        yield Finding("note", "leftovers", f"{detail} of sessions that are not in this store", fix)
