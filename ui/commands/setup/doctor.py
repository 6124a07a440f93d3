"""`sandbur doctor`: checks this installation and says what is missing."""

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Literal

from ....state.errors import SandburError
from ...grammar import Command
from ...open_session import said_by
from ...terminal.sanitize import one_line, plain
from ...terminal.terminal import glyphs_for, put, say
from ..sessions.prune import size_text

if TYPE_CHECKING:
    from ....agent.config.settings import Settings
    from ....state.store.store import Store

_MOST_NAMED = 5
_ROOM_BYTES = 256 * 1024
"""What a few steps of a run take."""
_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Literal["good", "note", "bad"]
    name: str
    detail: str


def store_findings(settings: "Settings") -> Iterator[Finding]:
    from ....state.store.store import Store

    try:
        store = Store.open(
            settings.store, settings.tenant, lambda notice: say(plain(notice)), home=settings.home
        )
        try:
            yield from _store_findings(store, settings)
        finally:
            store.close()
    except SandburError as error:
        yield Finding("bad", "store", str(error))


def _store_findings(store: "Store", settings: "Settings") -> Iterator[Finding]:
    problems = store.database.problems()
    yield from (Finding("bad", "store", problem) for problem in problems[:_MOST_NAMED])
    sessions = [summary.id for summary in store.sessions()]
    count = f"{len(sessions)} session{'' if len(sessions) == 1 else 's'}"
    damaged = list(_records(store, sessions))
    unwritable = list(_writing(store, settings))
    verdict = "cannot be written" if unwritable else "intact"
    verdict = "damaged" if problems or any(f.verdict == "bad" for f in damaged) else verdict
    yield Finding("good" if verdict == "intact" else "bad", "store", f"{store.name}, {count}, {verdict}")
    yield from damaged
    yield _key(settings)
    yield from unwritable
    yield from _dead_runs(store)
    if settings.store.startswith(_SQLITE):
        yield from _rights(Path(settings.store.removeprefix(_SQLITE)))
    yield from _leftovers(settings.home, sessions)


def _records(store: "Store", sessions: list[str]) -> Iterator[Finding]:
    """Follow the hash chain of every session."""
    from ....state.store.integrity import examine

    for session_id in sessions:
        health = examine(store.database, session_id)
        for sentence in health.sentences():
            yield Finding("bad", "session", f"{session_id[:8]}: {sentence}")
        for number in store.inbox(session_id).unreadable():
            said = f"the waiting message {number} cannot be read, and is never sent"
            yield Finding("bad", "session", f"{session_id[:8]}: {said}")
        if health.set_aside:
            count = len(health.set_aside)
            noun = "damaged record is" if count == 1 else "damaged records are"
            yield Finding("note", "session", f"{session_id[:8]}: {count} {noun} set aside")


def _key(settings: "Settings") -> Finding:
    from ....state.store.seals import key_path, known_key, maker_of

    path = key_path(settings.home)
    try:
        key = known_key(settings.home)
    except SandburError as error:
        return Finding("bad", "key", str(error))
    if key is None:
        return Finding("note", "key", f"none yet; {path} is made with the first record")
    mode = stat.S_IMODE(path.stat().st_mode)
    return Finding("note" if mode & 0o077 else "good", "key", f"{path}, {mode:04o}, named {maker_of(key)}")


def _writing(store: "Store", settings: "Settings") -> Iterator[Finding]:
    """Try to write where a run would; nothing of it lasts."""
    try:
        store.try_writing()
    except SandburError as error:
        yield Finding("bad", "store", str(error))
    if settings.store.startswith(_SQLITE):
        folder = Path(settings.store.removeprefix(_SQLITE)).parent
        try:
            _try_folder(folder)
        except OSError as error:
            problem = f"{folder} cannot be written: {error.strerror}."
            yield Finding("bad", "folder", f"{problem} Make it writable, or free some space.")


def _try_folder(folder: Path) -> None:
    """Write a file that has no name, so that it is gone however this ends; raises `OSError`."""
    with TemporaryFile(dir=folder) as file:
        file.write(bytes(_ROOM_BYTES))
        file.flush()
        os.fsync(file.fileno())


def _dead_runs(store: "Store") -> Iterator[Finding]:
    from ....state.store.sessions import due_runs

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
    from ....agent.session.leftovers import size_of, strays

    found = strays(home, sessions)
    if found:
        noun = "folder" if len(found) == 1 else "folders"
        detail = f"{len(found)} {noun} in {home / 'scratch'} ({size_text(size_of(found))})"
        yield Finding("note", "leftovers", f"{detail} of sessions that are not in this store")


_PACKAGES = ("apache-burr", "pydantic", "openai", "anthropic", "rich", "prompt_toolkit", "genai-prices")


@dataclass(frozen=True, kw_only=True)
class DoctorCommand(Command):
    async def run(self) -> int:
        """Print the findings; return 1 if one of them keeps Sandbur from working."""
        glyphs = glyphs_for(sys.stdout.encoding)
        signs = {"good": glyphs.done, "note": glyphs.dot, "bad": glyphs.failed}
        failed = False
        for finding in _findings(self):
            put(f"{signs[finding.verdict]:<2} {finding.name:<14} {one_line(finding.detail)}")
            failed = failed or finding.verdict == "bad"
        return int(failed)


def _findings(command: Command) -> Iterator[Finding]:
    yield _python()
    yield from _packages()
    yield from _programs()
    yield _keys()
    try:
        from ....agent.config.load import load_settings

        settings = load_settings(said_by(command), os.environ)
    except SandburError as error:
        yield Finding("bad", "configuration", str(error))
        return
    yield _sandbox(settings)
    yield from _configuration(settings)
    yield _model(settings)
    yield from store_findings(settings)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding("good", "Python", f"{found} at {sys.executable}")


def _packages() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    from ....agent.version import VERSION

    yield Finding("good", "sandbur", f"{VERSION} at {Path(__file__).resolve().parents[3]}")
    found: list[str] = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield Finding("bad", name, "is not installed; install Sandbur again with pip")
    yield Finding("good", "packages", ", ".join(found))


def _programs() -> Iterator[Finding]:
    uses = {"git": "the model cannot use version control", "rg": "grep and glob search in Python, slower"}
    for name, without in uses.items():
        path = shutil.which(name)
        yield Finding("good", name, path) if path else Finding("note", name, f"not installed: {without}")


def _sandbox(settings: "Settings") -> Finding:
    from ....actions.tools.shell.sandbox.sandbox import Workplace, what_works
    from ....agent.config.paths import user_home

    found = list(what_works(Workplace((settings.cwd,), user_home(os.environ))))
    told = ", ".join(f"{kind} {f'does not work ({why})' if why else 'works'}" for kind, why in found)
    works = not all(why for _, why in found)
    return Finding("good" if works else "note", "sandbox", f"{settings.sandbox}; {told}")


def _keys() -> Finding:
    from ....agent.models.connect import DEFAULTS

    names = [name for name, _ in DEFAULTS]
    found = [name for name in names if os.environ.get(name, "").strip()]
    if found:
        return Finding("good", "keys", f"set: {', '.join(found)}")
    return Finding("note", "keys", f"none is set; looked for {', '.join(names)}")


def _configuration(settings: "Settings") -> Iterator[Finding]:
    from ....agent.config.paths import config_home

    user = config_home(os.environ) / "config.toml"
    yield Finding("good", "configuration", str(user) if user.exists() else f"none ({user} may hold one)")
    for notice in settings.notices:
        yield Finding("note", "configuration", notice)


def _model(settings: "Settings") -> Finding:
    from ....agent.models.connect import choose_model

    model, notices = choose_model(settings.model, os.environ)
    return Finding("note" if notices else "good", "model", ": ".join([model, *notices]))
