"""Whether a command line only reads what lies in the workspace and is no secret; else, why not."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from pathlib import Path
from posixpath import expanduser, isabs, join, normpath, realpath

from ....actions.tools.shell.operands import Reading, reading_of
from ....actions.tools.shell.parser import SimpleCommand
from ....actions.tools.shell.read_only import proved_commands
from ....actions.workspace.secret_files import is_secret_file as is_secret
from ..path_rules import Workspace
from .repository import find_repository, tracked_names, why_git_may_run_more

_MAX_MATCHES = 1000
_MAX_ENTRIES = 20_000
_BUILTINS = frozenset(("cd", "echo", "printf", "pwd", "test", "[", "true", "false", "type", "command", ":"))
_LISTS_NAMES = re.compile(r"--files0.*|@.+")
_FOREIGN_IN_JQ = re.compile(r"(?<![.\w])(?:env|import|include|modulemeta|get_search_list)\b|\$ENV")
_SECRET_IN_INDEX = re.compile(
    rb"[/\0-\x1f\x80-\xff](?:\.env(?:\.[\w.-]+)?|id_(?:rsa|dsa|ecdsa|ed25519)|[\w.-]+\.(?:pem|key|p12|pfx|jks|kdbx)"
    rb"|\.netrc|\.npmrc|\.pypirc|\.git-credentials|credentials[\w.-]*)\0", re.IGNORECASE,
)  # fmt: skip


def why_not_read_only(text: str, workspace: Workspace, cwd: str | None = None) -> str | None:
    """Return None for a command line that only reads in the workspace; else the first thing that speaks
    against it. An empty text: that it only reads is not proved."""
    commands = proved_commands(text)
    if not commands:
        return ""
    here = realpath(cwd or workspace.cwd)
    for number, command in enumerate(commands):
        if why := _program_of_workspace(command.words[0], workspace):
            return why
        if command.words[0] == "cd":
            following = _followed(commands, number, here)
            if following is None:
                return "where `cd` leads cannot be told"
            here = following
        if why := _why_not(command, workspace, here):
            return why
    return None


def _followed(commands: Sequence[SimpleCommand], number: int, here: str) -> str | None:
    """Return the folder after a `cd` that surely happens and surely works."""
    command = commands[number]
    target = command.words[1]
    following = commands[number + 1].joint if number + 1 < len(commands) else ""
    is_first = all(one.words[0] == "cd" for one in commands[:number])
    if command.computed[1] or command.reads_pipe or following in ("|", "|&", "||") or command.joint == "||":
        return None
    if command.joint == "&&" and not is_first:
        return None
    if "CDPATH" in os.environ and not target.startswith(("/", ".", "~")):
        return None
    if re.match(r"~[^/]", target):
        return None
    written = join(here, expanduser(target))
    real = realpath(written)
    # The shell takes `..` by the words of the path, the system by its links.
    if ".." in target.split("/") and normpath(written) != real:
        return None
    return real if Path(real).is_dir() and os.access(real, os.X_OK) else None


def _program_of_workspace(program: str, workspace: Workspace) -> str | None:
    """Say so if the search for a program may end in the workspace."""
    if program in _BUILTINS:
        return None
    if "/" in program:
        return f"runs a program of its own: {program}"
    found = _found_program(program, os.environ.get("PATH", os.defpath))
    if found is None:
        return None
    if not isabs(found) or workspace.contains(found):
        return f"runs a program of the repository: {found}"
    return None


@lru_cache(maxsize=256)
def _resolved(folder: str, program: str, modified: int) -> str | None:
    path = join(folder, program)
    return path if os.access(path, os.X_OK) and not Path(path).is_dir() else None


def _found_program(program: str, path: str) -> str | None:
    for folder in path.split(":"):
        if not isabs(folder):
            return join(folder or ".", program)
        try:
            modified = os.stat(folder).st_mtime_ns  # noqa: PTH116 -- every microsecond of a verdict counts
        except OSError:
            continue
        if found := _resolved(folder, program, modified):
            return found
    return None


def _why_not(command: SimpleCommand, workspace: Workspace, here: str) -> str | None:
    reading = reading_of(command)
    if any(_LISTS_NAMES.fullmatch(word) for word in command.words[1:]):
        return "reads what a list of names says"
    if command.words[0] == "jq" and any(_FOREIGN_IN_JQ.search(word) for word in command.words[1:]):
        return "reads more than the files it names"
    if command.words[0] == "git" and (why := _why_not_git(command, reading, workspace, here)):
        return why
    for path in reading.paths:
        if why := _why_not_path(path, reading, workspace, here):
            return why
    return None


def _why_not_path(path: str, reading: Reading, workspace: Workspace, here: str) -> str | None:
    if re.match(r"~[^/]", path):
        return f"leads outside the workspace: {path}"
    is_pattern = path in reading.patterns
    if is_pattern and (re.search(r"\[[\[^:]|\[.*[:.=]\]", path) or not re.search(r"[*?\[]", path)):
        return "what its file name pattern means cannot be told"
    places = [join(here, expanduser(path))]
    if is_pattern:
        # A pattern that fits nothing stays what it is.
        places = list(islice(glob.iglob(places[0]), _MAX_MATCHES + 1)) or places  # noqa: PTH207 -- as text
        if any(name.rpartition("/")[2].startswith("-") for name in places if "/" not in path):
            return "its file name pattern means a name that looks like an option"
        if len(places) > _MAX_MATCHES:
            return "its file name pattern means too many files to look through"
    return next((why for place in places if (why := _why_not_place(place, reading, workspace))), None)


def _why_not_place(place: str, reading: Reading, workspace: Workspace) -> str | None:
    real = realpath(place)
    if not workspace.holds(real):
        return f"leads outside the workspace: {real}"
    if reading.shows_content and (is_secret(real) or is_secret(normpath(place))):
        return f"shows a secret file: {real}"
    if reading.shows_content and ":" in place and is_secret(place.rpartition(":")[2]):
        return f"shows a secret file: {place.rpartition(':')[2]}"
    if reading.walks and (reading.shows_content or reading.follows_links) and Path(real).is_dir():
        return _why_not_below(real, reading, workspace)
    return None


def _why_not_below(folder: str, reading: Reading, workspace: Workspace) -> str | None:
    for count, entry in enumerate(below(folder, reading.skips_hidden)):
        if count >= _MAX_ENTRIES:
            return f"goes through too many files to be sure that none is secret: {folder}"
        if entry.is_symlink():
            if reading.follows_links and not workspace.contains(entry.path):
                return f"leads outside the workspace: {realpath(entry.path)}"
        elif reading.shows_content and is_secret(entry.path) and _is_wanted(entry, reading.only):
            return f"shows a secret file: {entry.path}"
    return None


def _is_wanted(entry: "os.DirEntry[str]", only: Sequence[str]) -> bool:
    return not only or any("/" in one or "{" in one or fnmatchcase(entry.name, one) for one in only)


def secret_below(folder: str, skips_hidden: bool) -> str | None:
    """Return a secret file below a folder, or the folder if it is too large to be looked through."""
    for count, entry in enumerate(below(folder, skips_hidden)):
        if count >= _MAX_ENTRIES:
            return folder
        if is_secret(entry.path) and not entry.is_dir(follow_symlinks=False):
            return entry.path
    return None


def below(folder: str, skips_hidden: bool = False) -> Iterator["os.DirEntry[str]"]:
    """Yield what lies below a folder, links not followed, without what git keeps for itself."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if skips_hidden and entry.name.startswith("."):
                        continue
                    yield entry
                    if entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                        waiting.append(entry.path)
        except OSError:
            continue


@lru_cache(maxsize=2)
def _secret_among(index: bytes) -> str | None:
    names = (found[0][1:-1].decode(errors="replace") for found in _SECRET_IN_INDEX.finditer(index))
    return next(filter(is_secret, names), None)


def _why_not_git(command: SimpleCommand, reading: Reading, workspace: Workspace, here: str) -> str | None:
    words = command.words
    at = 1
    while words[at] in ("--no-pager", "-C"):
        if words[at] == "-C":
            here = realpath(join(here, expanduser(words[at + 1])))
            if not workspace.holds(here):
                return f"leads outside the workspace: {here}"
            at += 1
        at += 1
    repository = find_repository(here)
    if repository is not None and not workspace.holds(repository):
        return f"leads outside the workspace: {repository}"
    if why := why_git_may_run_more(here):
        return f"may run a program of the repository: {why}"
    for word in words[at + 1 :]:
        if not word.startswith("-") and (why := _why_not_path(word, reading, workspace, here)):
            return why
    if reading.shows_unnamed:
        found = _secret_among(tracked_names(here))
        if found is not None:
            return f"may show a secret file: {found}"
    return None
