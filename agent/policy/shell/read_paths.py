"""Decides whether a command line only reads files of the workspace that are not secret; if not, says why."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from pathlib import Path
from posixpath import dirname, isabs, join, lexists, normpath, realpath, relpath

from ....actions.tools.shell.language.operands import Reading, reading_of
from ....actions.tools.shell.language.programs.options import UnknownOption
from ....actions.tools.shell.language.programs.steps import (
    CommandStep,
    MarkedWord,
    ShellLoop,
    UnclearWord,
    expand,
    expand_braces,
    put_in,
    quote_word,
    turns,
)
from ....actions.tools.shell.language.programs.versions import CHOSEN_BY, CHOSEN_BY_SHIMS
from ....actions.tools.shell.read_only import GIT_GLOBAL_OPTIONS, NotProved, prove, prove_words
from ....actions.workspace.protected.secret_files import is_secret_file
from ....state.lazy_dataclass import dataclass
from ..rules.path_rules import Workspace
from .file_patterns import expand_files, expand_tilde
from .repository import find_repository, read_index, why_git_may_run_more

_MAX_ENTRIES = 100_000
_MAX_LIST_BYTES = 100_000
_MAX_LINKED_FOLDERS = 100
_UNCLEAR_IN_PATTERN = re.compile(r"[/{\[\\]")
"""Characters in a pattern that programs interpret in different ways."""
_IGNORE_FILES = frozenset((".gitignore", ".ignore", ".rgignore"))
_BUILTINS = frozenset(("cd", "echo", "printf", "pwd", "test", "[", "true", "false", "type", "command", ":"))
_FOREIGN_IN_JQ = re.compile(r"(?<![.\w])(?:env|import|include|modulemeta|get_search_list)\b|\$ENV")


def why_not_read_only(text: str, workspace: Workspace, cwd: str | None = None) -> str | None:
    """Return None if a command line only reads in the workspace, otherwise the first reason against that.

    The reason is empty if the line does more than read, or if this cannot be excluded.
    """
    proof = prove(text)
    if not proof.steps:
        return ""
    try:
        return _why_not_all(proof.steps, workspace, realpath(cwd or workspace.cwd))
    except (UnclearWord, UnknownOption, NotProved) as unclear:
        return str(unclear)


@dataclass(slots=True)
class _Place:
    """The current folder of a shell or subshell."""

    here: str
    has_only_moved: bool = True


def _why_not_all(steps: Sequence[CommandStep], workspace: Workspace, here: str) -> str | None:
    places: dict[tuple[int, ...], _Place] = {(): _Place(here)}
    for step in steps:
        for depth in range(1, len(step.groups) + 1):
            around = places[step.groups[: depth - 1]]
            places.setdefault(step.groups[:depth], _Place(around.here))
        place = places[step.groups]
        if why := _program_of_workspace(step.command.words[0], workspace, place.here):
            return why
        if step.command.words[0] == "cd":
            following = _follow_cd(step, place)
            if following is None:
                return "where `cd` leads is not known"
            place.here = following
        else:
            place.has_only_moved = False
        if why := _why_not_step(step, workspace, place.here):
            return why
    return None


def _why_not_step(step: CommandStep, workspace: Workspace, here: str) -> str | None:
    """Check one command in each iteration of the loops around it; return a reason against it or None."""
    loops = [
        ShellLoop(
            loop.name, tuple(quote_word(name) for word in loop.words for name in _loop_values(word, here))
        )
        for loop in step.loops
    ]
    for values in turns(loops):
        words: list[str] = []
        made: list[str] = []
        program, *arguments = expand(step.mark_words(), values)
        words.append(program.text)
        for word in arguments:
            names, is_made = expand_files(word, here)
            words += names
            made += names if is_made else ()
        opened = [
            expand_tilde(put_in(MarkedWord(one.target, one.marks), values)).text
            for one in step.command.redirections
            if one.operator == "<" and one.target != "/dev/null"
        ]
        if made:
            # A file name is an argument like any other: it may be an option.
            prove_words(list(map(quote_word, words)))
        if why := _why_not(words, reading_of(words, made, opened), workspace, here):
            return why
    return None


def _loop_values(word: MarkedWord, here: str) -> Iterator[str]:
    """Yield the values of a `for` loop, including the matches of file name patterns."""
    for one in expand_braces(word):
        names, _ = expand_files(put_in(one, {}), here)
        yield from names


def _follow_cd(step: CommandStep, place: _Place) -> str | None:
    """Return the folder after a `cd`, or None unless the `cd` is certain to run and to succeed."""
    command = step.command
    target = command.words[1]
    if step.is_conditional or command.computed[1] or command.reads_pipe or command.joint == "||":
        return None
    if step.following in ("|", "|&", "||") or (command.joint == "&&" and not place.has_only_moved):
        return None
    if "CDPATH" in os.environ and not target.startswith(("/", ".", "~")):
        return None
    written = join(place.here, expand_tilde(step.mark_words()[1]).text)
    real = realpath(written)
    # The shell resolves `..` in the text; the system resolves it after links.
    if ".." in target.split("/") and normpath(written) != real:
        return None
    return real if Path(real).is_dir() and os.access(real, os.X_OK) else None


def _program_of_workspace(program: str, workspace: Workspace, here: str) -> str | None:
    """Return a reason if the search for a program may find one in the workspace, otherwise None."""
    if program in _BUILTINS:
        return None
    if "/" in program:
        return f"runs a program of its own: {program}"
    found = _find_program(program, os.environ.get("PATH", os.defpath))
    if why := _why_program_chosen_by_folder(CHOSEN_BY.get(program, ()), workspace, here):
        return why
    if found is None:
        return None
    if not isabs(found) or workspace.contains(found):
        return f"runs a program of the repository: {found}"
    return _why_program_chosen_by_folder(CHOSEN_BY_SHIMS, workspace, here) if "/shims/" in found else None


def _why_program_chosen_by_folder(names: Sequence[str], workspace: Workspace, here: str) -> str | None:
    """Return a reason if a file of the workspace selects the program that runs, otherwise None."""
    folder = here
    while names and workspace.holds(folder):
        if name := next((name for name in names if lexists(join(folder, name))), None):
            return f"may run a program of the repository: {join(folder, name)} chooses it"
        folder = dirname(folder)
    return None


@lru_cache(maxsize=256)
def _find_in_folder(folder: str, program: str, modified: int) -> str | None:
    path = join(folder, program)
    return path if os.access(path, os.X_OK) and not Path(path).is_dir() else None


def _find_program(program: str, path: str) -> str | None:
    for folder in path.split(":"):
        if not isabs(folder):
            return join(folder or ".", program)
        try:
            modified = os.stat(folder).st_mtime_ns  # noqa: PTH116 -- every microsecond of a verdict counts
        except OSError:
            continue
        if found := _find_in_folder(folder, program, modified):
            return found
    return None


def _why_not(words: Sequence[str], reading: Reading, workspace: Workspace, here: str) -> str | None:
    if words[0] == "jq" and any(_FOREIGN_IN_JQ.search(word) for word in words[1:]):
        return "reads more than the files it names"
    if words[0] == "git":
        return _why_not_git(words, reading, workspace, here)
    return _why_not_paths(reading, workspace, here)


def _why_not_paths(reading: Reading, workspace: Workspace, here: str) -> str | None:
    whys = (_why_not_place(join(here, path), reading, workspace) for path in reading.paths)
    return next(filter(None, whys), None)


def _why_not_place(place: str, reading: Reading, workspace: Workspace) -> str | None:
    real = realpath(place)
    if not workspace.holds(real):
        return f"leads outside the workspace: {real}"
    if reading.shows_content and (is_secret_file(real) or is_secret_file(normpath(place))):
        return f"shows a secret file: {real}"
    if reading.shows_content and ":" in place and is_secret_file(place.rpartition(":")[2]):
        return f"shows a secret file: {place.rpartition(':')[2]}"
    if reading.obeys_ignore_files and (why := _why_not_above(real, workspace)):
        return why
    looks = reading.shows_content or reading.follows_links or reading.obeys_ignore_files
    if reading.walks and looks and Path(real).is_dir():
        return why_not_below(real, reading, workspace)
    return None


def _why_not_above(path: str, workspace: Workspace) -> str | None:
    """Check the ignore files in all folders above the path, up to the top of the workspace."""
    folder = path
    while workspace.holds(folder):
        for name in (*_IGNORE_FILES, ".git"):
            if why := _why_not_ignore_file(join(folder, name)):
                return why
        folder = dirname(folder)
    return None


def _why_not_ignore_file(path: str) -> str | None:
    """Return a reason if the ignore file is a link: a program that cannot parse it may print its lines."""
    own = join(path, "info", "exclude") if path.endswith("/.git") else path
    if not lexists(own) or realpath(own) == join(realpath(dirname(path)), relpath(own, dirname(path))):
        return None
    return f"may show what a link leads to: {own}"


def why_not_below(
    folder: str, reading: Reading, workspace: Workspace, walked: frozenset[str] = frozenset()
) -> str | None:
    """Return a reason against what a command reads below a folder, or None. `walked` are folders that links
    led to before."""
    lists = _IGNORE_FILES if reading.obeys_ignore_files else ()
    shows_hidden = (
        _find_reincluded_names(_list_ignore_files(folder, workspace)) if reading.skips_hidden else set[str]()
    )
    linked: dict[str, None] = {}
    for count, entry in enumerate(walk_below(folder, reading.skips_hidden, reading.obeys_ignore_files)):
        if count >= _MAX_ENTRIES:
            return f"goes through too many files to be sure that none is secret: {folder}"
        if reading.obeys_ignore_files and entry.name in (*_IGNORE_FILES, ".git"):
            if why := _why_not_ignore_file(entry.path):
                return why
            if reading.skips_hidden and entry.name in lists:
                shows_hidden |= _find_reincluded_names([entry.path])
        elif why := _why_not_entry(entry, reading, workspace):
            return why
        elif reading.follows_links and entry.is_symlink() and entry.is_dir():
            linked[realpath(entry.path)] = None
    if shows_hidden and (why := _why_not_hidden(folder, shows_hidden)):
        return why
    return _why_not_linked([*linked], reading, workspace, walked | {folder})


def _why_not_entry(entry: os.DirEntry[str], reading: Reading, workspace: Workspace) -> str | None:
    if entry.is_symlink():
        return _why_not_link(entry, reading, workspace) if reading.follows_links else None
    if reading.shows_content and is_secret_file(entry.path) and _is_wanted(entry, reading.only):
        return f"shows a secret file: {entry.path}"
    return None


def _why_not_linked(
    linked: Sequence[str], reading: Reading, workspace: Workspace, walked: frozenset[str]
) -> str | None:
    """Return a reason against what is below the folders that links lead to, or None."""
    folders = [place for place in linked if place not in walked]
    known = walked.union(folders)
    if len(known) > _MAX_LINKED_FOLDERS:
        return f"follows too many links to be sure that none leads to a secret file: {folders[-1]}"
    return next(filter(None, (why_not_below(one, reading, workspace, known) for one in folders)), None)


def _why_not_link(entry: os.DirEntry[str], reading: Reading, workspace: Workspace) -> str | None:
    """Return a reason against following a link below a folder, or None."""
    real = realpath(entry.path)
    if not workspace.holds(real):
        return f"leads outside the workspace: {real}"
    if reading.shows_content and (is_secret_file(real) or is_secret_file(entry.path)):
        return f"shows a secret file: {real}"
    return None


def _is_wanted(entry: os.DirEntry[str], only: Sequence[str]) -> bool:
    return not only or any(_may_fit(entry.name, one) for one in only)


def _may_fit(name: str, pattern: str) -> bool:
    """Return whether a name may match a pattern; True if uncertain."""
    return _UNCLEAR_IN_PATTERN.search(pattern) is not None or fnmatchcase(name.lower(), pattern.lower())


def _list_ignore_files(folder: str, workspace: Workspace) -> Iterator[str]:
    """Yield the ignore files in a folder, and in the folders above it within the workspace."""
    while workspace.holds(folder):
        yield from (join(folder, name) for name in (*_IGNORE_FILES, ".git/info/exclude"))
        folder = dirname(folder)


def _find_reincluded_names(paths: Iterable[str]) -> set[str]:
    """Return the patterns of ignore files that include hidden names again, such as `!.env`."""
    found: set[str] = set()
    for path in paths:
        try:
            with Path(path).open("rb") as file:
                lines = file.read(_MAX_LIST_BYTES).decode(errors="replace").splitlines()
        except OSError:
            continue
        names = (line[1:].rstrip().rstrip("/").rpartition("/")[2] for line in lines if line.startswith("!"))
        found |= {"*" if name in ("", "**") else name for name in names if name[:1] in ("", *".*?[{\\")}
    return found


def _why_not_hidden(folder: str, names: set[str]) -> str | None:
    """Return a reason if a hidden file in the folder may be secret, as far as no known pattern hides it."""
    entries = list(islice(walk_below(folder), _MAX_ENTRIES + 1))
    if len(entries) > _MAX_ENTRIES:
        return f"goes through too many files to be sure that none is secret: {folder}"
    names = names | _find_reincluded_names(entry.path for entry in entries if entry.name in _IGNORE_FILES)
    for entry in entries:
        if not is_secret_file(entry.path) or entry.is_dir(follow_symlinks=False):
            continue
        hidden = [part for part in relpath(entry.path, folder).split("/") if part.startswith(".")]
        if hidden and all(any(_may_fit(part, name) for name in names) for part in hidden):
            return f"shows a secret file: {entry.path}"
    return None


def secret_below(folder: str, skips_hidden: bool) -> str | None:
    """Return a secret file below a folder; the folder itself if it is too large to search; otherwise None."""
    for count, entry in enumerate(walk_below(folder, skips_hidden)):
        if count >= _MAX_ENTRIES:
            return folder
        if is_secret_file(entry.path) and not entry.is_dir(follow_symlinks=False):
            return entry.path
    return None


def walk_below(
    folder: str, skips_hidden: bool = False, with_ignore_files: bool = False, with_git: bool = False
) -> Iterator[os.DirEntry[str]]:
    """Yield the entries below a folder. Links are not followed, and git's own files are left out unless
    `with_git`."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    is_wanted = with_ignore_files and entry.name in (*_IGNORE_FILES, ".git")
                    if skips_hidden and entry.name.startswith(".") and not is_wanted:
                        continue
                    yield entry
                    if entry.is_dir(follow_symlinks=False) and (with_git or entry.name != ".git"):
                        waiting.append(entry.path)
        except OSError:
            continue


@lru_cache(maxsize=2)
def _find_secret(index: bytes) -> str | None:
    return next(filter(is_secret_file, _names_in(index)), None)


def _names_in(index: bytes) -> Iterator[str]:
    """Yield the names of files in a git index: a head of 12 bytes, then one entry per file."""
    at = 12
    for _ in range(int.from_bytes(index[8:12], "big")):
        is_extended = index[at + 60] & 0x40 if at + 60 < len(index) else 0
        start = at + (64 if is_extended else 62)
        end = index.find(b"\0", start)
        if end < 0:
            return
        yield index[start:end].decode(errors="replace")
        at += (end - at + 8) // 8 * 8


def _why_not_git(words: Sequence[str], reading: Reading, workspace: Workspace, here: str) -> str | None:
    at = 1
    while at < len(words) and (words[at] in GIT_GLOBAL_OPTIONS or words[at] == "-C"):
        if words[at] == "-C":
            here = realpath(join(here, words[at + 1]))
            if not workspace.holds(here):
                return f"leads outside the workspace: {here}"
            at += 1
        at += 1
    repository = find_repository(here)
    if repository is not None and not workspace.holds(repository):
        return f"leads outside the workspace: {repository}"
    if why := why_git_may_run_more(here):
        return f"may run a program of the repository: {why}"
    if reading.shows_content and _compares_folders(words, reading, repository, here):
        reading = replace(reading, walks=True)
    if why := _why_not_paths(reading, workspace, here):
        return why
    if reading.shows_unnamed and not _names_its_files(words, here):
        found = _find_secret(read_index(here))
        if found is not None:
            return f"may show a secret file: {found}"
    return None


def _compares_folders(words: Sequence[str], reading: Reading, repository: str | None, here: str) -> bool:
    """Return whether `git diff` compares folders of the disk: without a repository it needs no
    `--no-index` for that."""
    if "--no-index" in words:
        return True
    if "diff" not in words:
        return False
    places = [realpath(join(here, path)) for path in reading.paths if lexists(join(here, path))]
    return repository is None or not all(_is_in(place, repository) for place in places)


def _is_in(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")


def _names_its_files(words: Sequence[str], here: str) -> bool:
    """Return whether `--` limits a git command to single files. A folder or a pattern may match secret
    files."""
    named = words[words.index("--") + 1 :] if "--" in words else ()
    return bool(named) and all(Path(join(here, word)).is_file() for word in named)
