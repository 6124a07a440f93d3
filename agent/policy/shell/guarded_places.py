"""Finds the protected, secret and outside places that commands name. No wide rule and no plan covers them."""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path
from posixpath import basename, expanduser, join, normpath, realpath
from typing import Literal, NamedTuple

from ....actions.tools.shell.language.operands import Reading, reading_of
from ....actions.tools.shell.language.programs.options import UnknownOption
from ....actions.tools.shell.language.programs.steps import UnclearWord, quote_word
from ....actions.tools.shell.read_only import NotProved, prove_words
from ....actions.workspace.protected.protected_places import PROTECTED_PATHS, find_protected_part
from ....actions.workspace.protected.secret_files import is_secret_file
from ....state.store.seals import key_path
from ..protected_places import why_protected
from ..rules.path_rules import Workspace, covers, is_pattern
from .named_places import NamedPlace, find_named_places, follow_folders
from .read_paths import walk_below, why_not_below
from .seen_commands import SeenCommand, Sight

_MAX_ENTRIES = 50_000
_ONLY_NAMES = frozenset(
    ("echo", "printf", "basename", "dirname", "ls", "test", "[", "true", "stat", "realpath")
)
"""Programs that show nothing of the files in their arguments but names and properties."""
_PASSES_ON = re.compile(r"sort|head|tail|tac|shuf|[ef]?grep|uniq|cat")
"""Programs that print some of the lines of their input, unchanged."""
_FOLLOWS = {
    name: re.compile(options)
    for name, options in map(
        str.split,
        r"""
        cp        -[a-zA-Z]*[LH]|--dereference
        rsync     -[a-zA-Z]*[LkK]|--copy-.*links|--copy-dirlinks|--keep-dirlinks
        tar       -?[a-zA-Z]*h[a-zA-Z]*|--dereference
        bsdtar    -?[a-zA-Z]*[hLH][a-zA-Z]*
        cpio      -[a-zA-Z]*L|--dereference
        pax       -[a-zA-Z]*[LH]
        zip       (?!-y|--symlinks).*
        7z        (?!-snl).*
        scp       -[a-zA-Z]*r
        ag        -[a-zA-Z]*f|--follow
        ack       --follow
        fd        -[a-zA-Z]*L|--follow
        find      -[LH]|-follow
        rg        -[a-zA-Z]*L|--follow
        grep      -[a-zA-Z]*R|--dereference-recursive
        diff      -[a-zA-Z]*r|--recursive
        """.strip().splitlines(),
    )
}
"""Program -> the options with which it follows the links below its operands."""
_TAKES_FOLDERS = re.compile(
    r"cp|rsync|scp|tar|bsdtar|zip|7z|cpio|pax|mv|ln|[ef]?grep|rg|ag|ack|rclone|restic|borg|docker|podman|aws"
    r"|gcloud|git|sftp|diff|xargs|find"
)
"""Programs that read or copy what is below a folder."""
_SEARCHES = re.compile(r"[ef]?grep|rg")
_NAME_TESTS = frozenset(("-name", "-iname"))
_TURNS_TESTS = frozenset(("-o", "-or", "!", "-not", ","))
_EVERYTHING = Reading((), True, True, True, False, (), False, False)

Kind = Literal["protected", "secret", "outside", "unclear"]


class GuardedPlace(NamedTuple):
    kind: Kind
    why: str
    """What a command does with the place, as a clause."""
    text: str = ""
    """The path as the command writes it; empty for a place that it does not name."""
    real: str = ""
    is_output: bool = False
    """Whether the shell writes the output of a command to it."""

    def is_named_in(self, patterns: Sequence[str], workspace: Workspace) -> bool:
        """Return whether the patterns of allow rules name the place itself, and not only its program."""
        words = [word for pattern in patterns for word in pattern.split()[1:] if re.search(r"[^*?]", word)]
        if self.kind == "outside":
            return any(_covers_outside(word, self.real, workspace) for word in words if "/" in word)
        name = basename(self.real).lower()
        return bool(self.text) and any(
            self.text == word or (name in word.lower() and fnmatchcase(self.text, word)) for word in words
        )


def _covers_outside(word: str, real: str, workspace: Workspace) -> bool:
    pattern = re.sub(r"\*+", "**", word)
    return is_pattern(pattern) and covers(pattern, real, workspace)


def find_guarded_places(
    sight: Sight, workspace: Workspace, cwd: str, own: Sequence[str]
) -> Iterator[GuardedPlace]:
    """Yield the places that need approval, whatever the programs are known for.

    A command that is known to only read may read a protected place. `own` are the folders of Sandbur itself.
    """
    readers = {id(seen): reading for seen in sight.commands if (reading := _find_reading(seen)) is not None}
    for named in find_named_places(sight, cwd):
        if (reading := readers.get(id(named.seen))) is None or named.is_unclear:
            found = _judge(named, workspace, own)
            yield from (one._replace(is_output=named.is_output) for one in found)
        elif named.text in _list_spellings(reading.paths) or named.seen.redirections:
            yield from _judge_reading(named, reading, workspace)
    for number, (seen, folders) in enumerate(follow_folders(sight, cwd)):
        if seen.is_given_names and seen.program not in _ONLY_NAMES:
            yield from _judge_fed(sight.commands, number, folders, workspace)
        for folder in folders:
            yield from _judge_below(seen, folder, readers.get(id(seen)), workspace)


def find_use_of_key(sight: Sight, cwd: str, own: Sequence[str]) -> str | None:
    """Return the key of the record that a command would show, copy or send, or None."""
    keys = [str(key_path(Path(folder))) for folder in own]
    if not keys:
        return None
    # A program of an interpreter names the key as well.
    # Of folders with one name, the first is that of the data.
    ends = {"/".join(key.split("/")[-2:]): key for key in reversed(keys)}
    words = [word for seen in sight.commands for word in seen.words]
    if found := next((key for end, key in ends.items() if any(end in word for word in words)), None):
        return found
    for named in find_named_places(sight, cwd):
        real = realpath(named.written)
        is_above = any(key.startswith(real.rstrip("/") + "/") for key in keys)
        if real in keys or (is_above and _TAKES_FOLDERS.fullmatch(named.seen.program)):
            return real
    return None


def _find_reading(seen: SeenCommand) -> Reading | None:
    """Return what a command reads if it is known to only read, or None."""
    if any(seen.computed) or seen.is_given_names or any(">" in one.operator for one in seen.redirections):
        return None
    try:
        prove_words(list(map(quote_word, seen.words)))
        return reading_of(seen.words, opened=[one.target for one in seen.redirections if one.operator == "<"])
    except (NotProved, UnclearWord, UnknownOption):
        return None


def _list_spellings(paths: Sequence[str]) -> frozenset[str]:
    """Return paths of a reader, and the parts behind a colon, such as that of `git show HEAD:file`."""
    return frozenset((*paths, *(path.partition(":")[2] for path in paths)))


def _judge_reading(named: NamedPlace, reading: Reading, workspace: Workspace) -> Iterator[GuardedPlace]:
    real = realpath(named.written)
    if not workspace.holds(real):
        yield GuardedPlace("outside", f"leads outside the workspace: {real}", named.text, real)
    if reading.shows_content and (is_secret_file(real) or is_secret_file(normpath(named.written))):
        yield GuardedPlace("secret", f"shows a secret file: {real}", named.text, real)


def _judge(named: NamedPlace, workspace: Workspace, own: Sequence[str]) -> Iterator[GuardedPlace]:
    real, written = realpath(named.written), normpath(named.written)
    if named.is_unclear:
        yield GuardedPlace("unclear", f"may name any file: {named.text}", real=real)
        return
    is_secret = is_secret_file(real) or is_secret_file(written)
    if is_secret and not named.is_new_word:
        yield GuardedPlace("secret", f"names a secret file: {real}", named.text, real)
    why = _find_protection(real, own) or _find_protection(written, own)
    if why and not (is_secret and named.is_new_word):
        yield GuardedPlace("protected", f"names a protected place: {real} ({why})", named.text, real)
    if not workspace.holds(real):
        yield GuardedPlace("outside", f"leads outside the workspace: {real}", named.text, real)


@lru_cache(maxsize=2048)
def _find_part(place: str) -> str | None:
    return find_protected_part(place)


def _find_protection(place: str, own: Sequence[str]) -> str | None:
    return _find_part(place) or why_protected(place, own) or _find_places_inside(place)


def _find_places_inside(place: str) -> str | None:
    """Return a protected place that a folder of this name may have, such as `.github/workflows`, or None."""
    name = basename(place).lower()
    return next((path for path in PROTECTED_PATHS if name[:1] == "." and path.startswith(f"{name}/")), None)


def _judge_fed(
    commands: Sequence[SeenCommand], at: int, folders: Sequence[str], workspace: Workspace
) -> Iterator[GuardedPlace]:
    """Judge the names that a command is given by `xargs` or `find`, and that its words do not show."""
    source = _find_source(commands, at)
    if source is None:
        why = f"is given names that the command does not show: {commands[at].program}"
        yield GuardedPlace("unclear", why)
        return
    patterns = _list_name_tests(source.words) if source.program == "find" else ()
    for folder in folders:
        for name in _list_starts(source):
            yield from _judge_given(normpath(join(folder, expanduser(name))), patterns, workspace)


def _find_source(commands: Sequence[SeenCommand], at: int) -> SeenCommand | None:
    """Return the command whose visible output names the operands of another one, or None."""
    if commands[at - 1].program == "find" and "-exec" in " ".join(commands[at - 1].words):
        return commands[at - 1]
    for seen in reversed(commands[:at]):
        if seen.program in ("find", "ls") or (seen.program == "echo" and "\\" not in " ".join(seen.words)):
            return seen
        has_operands = any(not word.startswith("-") for word in seen.words[1:]) and not _SEARCHES.fullmatch(
            seen.program
        )
        if seen.program != "xargs" and (_PASSES_ON.fullmatch(seen.program) is None or has_operands):
            return None
    return None


def _list_starts(source: SeenCommand) -> tuple[str, ...]:
    """Return the folders and files that a source of names begins with."""
    words = source.words[1:]
    if source.program != "find":
        return tuple(word for word in words if not word.startswith("-")) or (".",)
    count = next((at for at, word in enumerate(words) if word.startswith(("-", "(", "!"))), len(words))
    return words[:count] or (".",)


def _list_name_tests(words: Sequence[str]) -> tuple[str, ...]:
    """Return the name patterns that all found files fit; empty if any file may be found."""
    if _TURNS_TESTS.intersection(words):
        return ()
    return tuple(value.lower() for test, value in pairwise(words) if test in _NAME_TESTS)


def _judge_given(start: str, patterns: Sequence[str], workspace: Workspace) -> Iterator[GuardedPlace]:
    entries = list(_walk(start))
    if len(entries) == _MAX_ENTRIES:
        yield GuardedPlace("unclear", f"goes through too many files to be sure of each: {start}")
    linked = ((realpath(entry.path), entry.name) for entry in entries if entry.is_symlink())
    places = ((entry.path, entry.name) for entry in entries)
    for path, name in chain([(start, basename(start)), (realpath(start), basename(start))], places, linked):
        if not all(fnmatchcase(name.lower(), pattern) for pattern in patterns):
            continue
        if is_secret_file(path) or find_protected_part(path) or not workspace.holds(path):
            yield GuardedPlace("unclear", f"may be given a guarded file: {path}")
            return


def _walk(start: str) -> Iterator[os.DirEntry[str]]:
    return islice(walk_below(start, with_git=True), _MAX_ENTRIES)


def _judge_below(
    seen: SeenCommand, folder: str, reading: Reading | None, workspace: Workspace
) -> Iterator[GuardedPlace]:
    """Judge what a command reads below the folders that it names."""
    if reading is not None and seen.program != "git":
        paths = reading.paths if reading.walks else ()
    elif (follows := _FOLLOWS.get(seen.program)) and any(map(follows.fullmatch, seen.words[1:])):
        reading, paths = _EVERYTHING, [word for word in seen.words[1:] if not word.startswith("-")]
    else:
        return
    for path in paths:
        real = realpath(join(folder, expanduser(path)))
        is_inside = workspace.holds(real) and Path(real).is_dir()
        if is_inside and (why := why_not_below(real, reading, workspace)):
            yield GuardedPlace("unclear", why)
            return
