"""A read-only sandbox for commands that run without a question because they only read. It protects even if
the proof is wrong.

Inside the wall, commands can read the workspace, the system, the toolchains and the person's git
configuration. They cannot write, reach the network or read secret files. Landlock is the first choice,
because it needs no namespace, no program and almost no time; bubblewrap is the alternative.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from posixpath import lexists
from typing import Literal, NamedTuple

from ....workspace.protected.place_finder import PlaceFinder
from .bubblewrap import bubblewrap, wall_arguments
from .inside.confine import READ, RUN, SEE, WRITE_DEVICE, new_ruleset, version
from .launch import Launch, open_file, spell
from .plan import list_secret_places
from .seccomp import filter_program, is_known_machine
from .visible import DEVICES, SYSTEM, git_files, toolchains

WallKind = Literal["landlock", "bubblewrap"]
KINDS: tuple[WallKind, ...] = ("landlock", "bubblewrap")
_LEAST_LANDLOCK = 3
"""With earlier versions of Landlock, opening a file for reading could empty it."""
_MOST_FOLDERS = 2000
"""The most folders of the workspace in which secret files are searched before each command, nearest first."""
_MOST_ENTRIES = 20_000
"""The most entries that are granted one by one, because their folder contains a hidden entry."""
_TRIAL_S = 20
_READS_AS_ROOT = "1"
"""The capability that root keeps, CAP_DAC_OVERRIDE. With it, root reads the files of all users."""
_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "PIP_NO_CACHE_DIR": "1"}
"""Variables that stop programs from writing, or from complaining that they cannot write."""
_REFUSALS = re.compile(
    r"Permission denied|EACCES|Operation not permitted|EPERM|Read-only file system|EROFS"
    r"|cannot open shared object|cannot be started|Network is unreachable"
)
_MISSING = re.compile(r"(?P<program>\S+): (?:command )?not found$|No such file or directory|ENOENT")
_END_CHARS = 8000
_MAX_ERROR_CHARS = 160


@cache
def wall_kind() -> WallKind | None:
    """Return the kind of wall that works on this machine, or None."""
    return next((kind for kind in KINDS if not why_no_wall(kind)), None)


def why_no_wall(kind: WallKind) -> str:
    """Return why a wall of this kind does not work on this machine, or an empty text if it works."""
    if sys.platform != "linux" or not is_known_machine():
        return "no system call filter for this machine"
    if kind == "landlock":
        return "" if version() >= _LEAST_LANDLOCK else "this kernel does not offer it, or only an old version"
    if bubblewrap() is None:
        return "bwrap is not installed"
    with Wall("bubblewrap", (), Path("/nonexistent")).prepare(Path("/")) as launch:
        words = (*launch.words, "/bin/sh", "-c", ":")
        try:
            trial = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=launch.descriptors,
                timeout=_TRIAL_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
    return " ".join(trial.stderr.decode(errors="replace").split())[:300] if trial.returncode else ""


class VisiblePlaces(NamedTuple):
    """The places that can be read: whole folders and files, except the hidden places in them."""

    rights: dict[str, int]
    hidden: frozenset[str]


class Wall:
    """The wall of one workspace. Its rules are computed again after files have changed."""

    def __init__(
        self, kind: WallKind, roots: tuple[Path, ...], home: Path, private: tuple[Path, ...] = ()
    ) -> None:
        """`private`: the data of Sandbur, which is always hidden."""
        self._kind: WallKind = kind
        self._roots = [os.path.realpath(root) for root in roots]
        self._home = Path(os.path.realpath(home))
        self._private = [os.path.realpath(place) for place in private]
        self._finder = PlaceFinder()
        self._ruleset: _Ruleset | None = None
        self._lock = threading.Lock()
        self._places: tuple[frozenset[str], tuple[str, ...]] | None = None

    @asynccontextmanager
    async def launch(self, cwd: Path) -> AsyncGenerator[Launch]:
        """Prepare one command that runs in `cwd`. Raises `OSError`."""
        prepared = self.prepare(cwd)
        launch = await asyncio.to_thread(prepared.__enter__)
        try:
            yield launch
        finally:
            prepared.__exit__(None, None, None)

    @contextmanager
    def prepare(self, cwd: Path) -> Generator[Launch]:
        """Prepare one command that runs in `cwd`, and block the caller meanwhile. Raises `OSError`."""
        environment = _ENVIRONMENT.copy()
        with ExitStack() as stack:
            if self._kind == "bubblewrap":
                with self._lock:
                    view = self._view()
                program = stack.enter_context(open_file(filter_program()))
                content = wall_arguments(view.rights, view.hidden, cwd, program)
                arguments = stack.enter_context(open_file(content))
                words = (str(bubblewrap()), "--args", str(arguments), "--")
                yield Launch(words, descriptors=(arguments, program), environment=environment)
                return
            program = stack.enter_context(
                open_file(filter_program(looks_only=True, knows_scopes=version() >= 6))
            )
            with self._lock:
                ruleset = self._get_ruleset(self._view()).copy()
            stack.callback(os.close, ruleset)
            drop = [("drop-powers", _READS_AS_ROOT)] if os.geteuid() == 0 else []
            steps = [*drop, ("restrict-to", str(ruleset)), ("filter", str(program))]
            orders = stack.enter_context(open_file(spell(steps)))
            yield Launch((), orders, (orders, program, ruleset), environment)

    def _view(self) -> VisiblePlaces:
        rights = dict.fromkeys(SYSTEM, SEE | READ | RUN)
        rights |= dict.fromkeys(toolchains(os.environ.get("PATH", ""), self._home), SEE | READ | RUN)
        rights |= dict.fromkeys(git_files(self._home, os.environ), SEE | READ)
        for root in self._roots:
            # Files of the workspace are readable, but not executable.
            rights[root] = SEE | READ
        found = self._finder.find(self._roots, _MOST_FOLDERS).secret
        # In the workspace, the target of a link is hidden. Elsewhere it keeps its own access.
        real = (os.path.realpath(path) if os.path.islink(path) else path for path in found)  # noqa: PTH114
        secret = (path for path in real if _is_below(path, self._roots))
        hidden = (place for place in self._candidates(frozenset(rights)) if os.path.lexists(place))
        return VisiblePlaces(rights, frozenset((*secret, *hidden)))

    def _candidates(self, visible: frozenset[str]) -> tuple[str, ...]:
        """Return the places of secrets that are inside the visible places. They need not exist."""
        if self._places is None or self._places[0] != visible:
            places = (*list_secret_places(self._home), *self._private)
            inside = (place for place in places if _is_below(place, visible) and place not in self._roots)
            self._places = visible, tuple(inside)
        return self._places[1]

    def _get_ruleset(self, view: VisiblePlaces) -> _Ruleset:
        if self._ruleset is None or not self._ruleset.holds_for(view):
            self._ruleset = _Ruleset(view)
        return self._ruleset


class _Ruleset:
    """A Landlock ruleset, which any number of commands can share."""

    def __init__(self, view: VisiblePlaces) -> None:
        self._view = view
        self._entered: dict[str, int] = {}
        """Maps each folder that is granted entry by entry to its last change time."""
        rules = [*_grants(view, self._entered), *((device, WRITE_DEVICE) for device in DEVICES)]
        self._descriptor = new_ruleset((os.fsencode(path), rights) for path, rights in rules)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def copy(self) -> int:
        """Return a new descriptor of the ruleset, which the caller must close."""
        return os.dup(self._descriptor)

    def holds_for(self, view: VisiblePlaces) -> bool:
        """Return whether the ruleset still grants the same files. A file that replaced another one is a new
        file.
        """
        return view == self._view and all(
            _read_change_time_ns(path) == then for path, then in self._entered.items()
        )


def _grants(view: VisiblePlaces, entered: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the granted paths with their rights. Folders with hidden entries are added to `entered`."""
    above = {str(folder) for place in view.hidden for folder in Path(place).parents}
    waiting = list(view.rights.items())
    while waiting:
        path, rights = waiting.pop()
        if path in view.hidden:
            continue
        if path not in above or (entries := _entries(path)) is None:
            yield path, rights
            continue
        entered[path] = _read_change_time_ns(path)
        # The name of the entry is visible in the parent.
        yield path, SEE
        waiting += [(entry, rights) for entry in entries]


def _entries(path: str) -> list[str] | None:
    """Return the entries of a folder except links, whose targets are elsewhere. Return None if there are too
    many entries, or if it is not a folder.
    """
    try:
        with os.scandir(path) as entries:
            found = [entry.path for entry in entries if not entry.is_symlink()]
    except OSError:
        return None
    return found if len(found) <= _MOST_ENTRIES else None


def _read_change_time_ns(path: str) -> int:
    try:
        return os.stat(path).st_ctime_ns  # noqa: PTH116 -- before each command
    except OSError:
        return 0


def _is_below(place: str, folders: Iterable[str]) -> bool:
    return any(place == folder or place.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def find_wall_failure(output: str, cwd: Path) -> str:
    """Return the line of a failed command that the wall caused; empty if there is none.

    A file that is missing, or that the agent itself cannot open, is not the effect of the wall.
    """
    for line in reversed(output[-_END_CHARS:].splitlines()):
        if _is_refused(line, cwd) or _is_hidden(line, cwd):
            return line.strip()[:_MAX_ERROR_CHARS]
    return ""


def _is_refused(line: str, cwd: Path) -> bool:
    if _REFUSALS.search(line) is None:
        return False
    named = _find_paths(line, cwd)
    return any(os.access(path, os.R_OK) for path in named) if named else True


def _is_hidden(line: str, cwd: Path) -> bool:
    found = _MISSING.search(line)
    if found is None:
        return False
    return shutil.which(found["program"]) is not None if found["program"] else bool(_find_paths(line, cwd))


def _find_paths(line: str, cwd: Path) -> list[str]:
    """Return the paths in a line of output."""
    words = set(re.split(r"[\s:'\"`,()]+", line)) - _NO_FILES
    return [path for path in (f"{cwd}/{word}" if word[0] != "/" else word for word in words) if lexists(path)]


_NO_FILES = {"", "/bin/bash", "/bin/sh", "bash", "sh"}
"""Words that name the shell that reports the error, not a file."""
