"""Decides whether a command line only creates, copies or moves files where edits are allowed."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import basename, dirname, join, lexists, normpath, realpath, relpath

from ....actions.tools.shell.language.parser import HOLDS_BRACES, ShellReader, SimpleCommand
from ....actions.tools.shell.language.programs.options import Program, UnknownOption, read_arguments, table
from ....actions.tools.shell.language.programs.steps import MarkedWord, UnclearWord, expand
from ....actions.workspace.protected.secret_files import is_secret_file
from ..protected_places import why_protected
from ..rules.path_rules import Workspace
from .file_patterns import expand_files

_PROGRAMS: Mapping[str, Program] = {
    "mkdir": Program(table("-pv --parents --verbose")),
    "touch": Program(table("-acm --no-create")),
    "cp": Program(table("-rRvn --recursive --verbose --no-clobber")),
    "mv": Program(table("-vn --verbose --no-clobber")),
}
_MAKES_REPOSITORY = frozenset(("head", "objects", "refs"))
"""Entries that together make a folder a repository. Git obeys the configuration of a repository."""
_MAX_CHARS = 5_000
_MAX_ENTRIES = 2_000


class _NoEditError(Exception):
    """The command does more than an edit of the workspace, or its effect is unknown."""


def only_edits(text: str, workspace: Workspace, cwd: str, own: Sequence[str]) -> bool:
    """Return whether a line only creates, copies or moves files where edits are allowed.

    No existing file is overwritten, no secret or protected file moves, and no link is followed or copied.
    Each command is checked against the files that exist now. So a command that copies or moves has to be the
    first one of its line.
    """
    if len(text) > _MAX_CHARS:
        return False
    reader = ShellReader(text)
    reader.read()
    names = {command.words[0] for command in reader.commands}
    is_simple = set(reader.doubts) <= {HOLDS_BRACES} and not any(part.control for part in reader.parts)
    joints = {command.joint for command in reader.commands}
    if not names or not is_simple or not joints <= {"", "&&", ";", "\n"} or not names <= _PROGRAMS.keys():
        return False
    if len(reader.commands) > 1 and names & {"cp", "mv"}:
        return False
    try:
        for command in reader.commands:
            for place in _places(command, realpath(cwd)):
                _require_editable(place, workspace, own)
    except (_NoEditError, UnclearWord, UnknownOption, OSError, ValueError):
        return False
    return True


def _places(command: SimpleCommand, here: str) -> Iterator[str]:
    """Yield all paths that a command creates, changes or removes."""
    marked = [MarkedWord(*pair) for pair in zip(command.words, command.marks, strict=True)]
    program, *words = expand(marked, {})
    if program.is_pattern() or command.redirections:
        raise _NoEditError
    names = [name for word in words for name in expand_files(word, here)[0]]
    arguments = read_arguments(_PROGRAMS[program.text], names)
    operands = [join(here, name) for name in arguments.operands]
    if arguments.late and any(word.startswith("-") for word in arguments.late):
        raise _NoEditError
    if program.text in ("mkdir", "touch"):
        yield from operands
        return
    if len(operands) < 2:
        raise _NoEditError
    recursive = program.text == "mv" or arguments.has("-r", "-R", "--recursive")
    for source in operands[:-1]:
        yield from _transfer(source.rstrip("/"), _target(source, operands), recursive)


def _target(source: str, operands: Sequence[str]) -> str:
    """Return the path that a source will have. Raises `_NoEditError` if the path exists."""
    last = operands[-1]
    if Path(last).is_dir():
        last = join(last, basename(normpath(source)))
    elif len(operands) > 2:
        raise _NoEditError
    last = last.rstrip("/")
    if lexists(last) or not Path(dirname(last)).is_dir():
        raise _NoEditError
    return last


def _transfer(source: str, target: str, recursive: bool) -> Iterator[str]:
    """Yield the present and the future path of the source of a `cp` or `mv`, and of everything in it.

    Raises `_NoEditError` for what is neither a plain file nor a folder.
    """
    real = join(realpath(dirname(source)), basename(source))
    new = join(realpath(dirname(target)), basename(target))
    if basename(source) in ("", ".", "..") or new == real or new.startswith(f"{real}/"):
        raise _NoEditError
    yield from (real, new)
    if not Path(real).is_dir():
        _require_plain_file(real)
        return
    if not recursive:
        raise _NoEditError
    for count, (folder, folders, files) in enumerate(os.walk(real)):
        if count + len(files) > _MAX_ENTRIES:
            raise _NoEditError
        for name in (*folders, *files):
            place = join(folder, name)
            if name in files or Path(place).is_symlink():
                _require_plain_file(place)
            yield from (place, join(new, relpath(place, real)))


def _require_plain_file(path: str) -> None:
    """Refuse links, whose target may change when they move, and pipes and devices."""
    if Path(path).is_symlink() or not Path(path).is_file():
        raise _NoEditError


def _require_editable(place: str, workspace: Workspace, own: Sequence[str]) -> None:
    real = realpath(place)
    parts = {part.lower() for part in (*real.split("/"), *normpath(place).split("/"))}
    inside = {part.lower() for root in workspace.roots for part in root.split("/")}
    is_in_workspace = workspace.holds(real) and real not in workspace.roots
    if (
        not is_in_workspace
        or is_secret_file(real)
        or is_secret_file(place)
        or (parts - inside) & _MAKES_REPOSITORY
    ):
        raise _NoEditError
    if why_protected(real, own) or why_protected(normpath(place), own):
        raise _NoEditError
