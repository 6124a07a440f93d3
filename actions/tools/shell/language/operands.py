"""Finds the words of a read-only command that are paths, and whether the command shows file contents."""

import re
from collections.abc import Iterator, Sequence

from .....state.lazy_dataclass import dataclass
from ..read_only import git_subcommand, subcommand_of
from .programs.git_tables import GIT
from .programs.options import Program, ProgramArguments, list_possible_files, read_arguments
from .programs.tables import PROGRAMS, SUBCOMMANDS
from .programs.versions import tells_version


@dataclass(frozen=True, slots=True)
class Reading:
    """The files that a read-only command reads."""

    paths: tuple[str, ...]
    shows_content: bool
    walks: bool
    """Whether it walks through folders."""
    follows_links: bool
    """Whether it follows links while it walks."""
    skips_hidden: bool
    only: tuple[str, ...]
    """The names of the files that it reads while it walks; empty if it reads all."""
    obeys_ignore_files: bool
    """Whether it reads ignore files while it walks, and shows their invalid lines."""
    shows_unnamed: bool
    """Whether it may show files that no word names, as `git diff` does."""


_NO_PATHS = frozenset((
    "echo", "printf", "true", "false", "expr", "ps", "hostname", "command", ":", "sleep",
))  # fmt: skip
"""Programs without a table whose arguments are not files."""
_NO_TABLE = Program({})


def reading_of(words: Sequence[str], made: Sequence[str] = (), opened: Sequence[str] = ()) -> Reading:
    """Return what a command reads. A word counts as a path unless it is known not to be one.

    `words` are the program's arguments, `made` those that the shell expanded from file name patterns, and
    `opened` the files of its input.
    """
    program = words[0]
    known, arguments = _arguments(words)
    paths = [*_paths(words, known, arguments), *opened]
    # A program such as `echo` prints its words, so it prints file names that the shell expanded.
    paths += (word for word in made if word not in paths)
    walks, follows = _walks(program, words, arguments)
    if known.starts_here and (program == "git" or not arguments.operands[known.leading :]):
        paths.append(".")
    return Reading(
        paths=tuple(paths),
        shows_content=known.shows_content or bool(opened),
        walks=walks,
        follows_links=follows,
        skips_hidden=program == "rg" and not _reaches_hidden(arguments),
        only=tuple(_only(program, arguments)),
        obeys_ignore_files=program == "rg" or arguments.has("--gitignore"),
        shows_unnamed=program == "git" and _shows_unnamed(words, arguments),
    )


def _arguments(words: Sequence[str]) -> tuple[Program, ProgramArguments]:
    if words[0] == "git":
        subcommand, at = git_subcommand(words[1:])
        known = GIT.get(subcommand, _NO_TABLE)
        rest = words[at + 1 :]
    elif (name := subcommand_of(words[0], words[1:])) is not None:
        known, rest = SUBCOMMANDS[name], words[2:]
    elif _asks_about_itself(words):
        return _NO_TABLE, ProgramArguments()
    else:
        known, rest = PROGRAMS.get(words[0], _NO_TABLE), words[1:]
    return known, read_arguments(known, rest) if known is not _NO_TABLE else ProgramArguments(
        operands=list(rest)
    )


def _asks_about_itself(words: Sequence[str]) -> bool:
    if words[0] in PROGRAMS and list(words[1:]) in (["--version"], ["--help"]):
        return True
    return tells_version(words[0], words[1:])


def _paths(words: Sequence[str], known: Program, arguments: ProgramArguments) -> Iterator[str]:
    if words[0] in _NO_PATHS:
        return
    yield from (path for path in list_possible_files(known, arguments) if path not in ("-", ""))


def _walks(program: str, words: Sequence[str], arguments: ProgramArguments) -> tuple[bool, bool]:
    """Return whether a program walks through folders, and whether it follows links there."""
    has = arguments.has
    if program in ("grep", "egrep", "fgrep"):
        follows = has("-R", "--dereference-recursive")
        return follows or has("-r", "-d", "--recursive", "--directories"), follows
    if program == "diff":
        return True, True
    if program == "find":
        return True, has("-L", "-H", "-follow")
    if program == "git":
        subcommand, _ = git_subcommand(words[1:])
        return has("--no-index") or (subcommand == "grep" and has("--untracked")), False
    if program == "ls":
        follows = has("-L", "--dereference")
        return follows or has("-R", "--recursive"), follows
    if program == "du":
        return True, has("-L", "-D", "-H", "--dereference", "--dereference-args")
    if program == "npm":
        # These programs read the metadata of each package, which may be in other folders.
        return True, True
    if program == "rg":
        return True, has("-L", "--follow")
    return program == "tree", program == "tree" and has("-l")


def _reaches_hidden(arguments: ProgramArguments) -> bool:
    """Return whether hidden files are included. A pattern of included names may match hidden files."""
    names = ("--hidden", "-.", "-u", "--unrestricted", "--ignore-file")
    if any(given.name in names or given.name.startswith("--no-ignore") for given in arguments.options):
        return True
    return next(_only("rg", arguments), None) is not None


_ONLY = {"rg": ("-g", "--glob", "--iglob"), "grep": ("--include",)}


def _only(program: str, arguments: ProgramArguments) -> Iterator[str]:
    names = _ONLY.get(program, ())
    if program == "grep":
        # If the first pattern excludes names, a path that matches no pattern is included.
        first = next(
            (given.name for given in arguments.options if given.name in ("--include", "--exclude")), ""
        )
        names = names if first == "--include" else ()
    yield from (
        given.value for given in arguments.options if given.name in names and not given.value.startswith("!")
    )


def _shows_unnamed(words: Sequence[str], arguments: ProgramArguments) -> bool:
    subcommand, _ = git_subcommand(words[1:])
    known = GIT.get(subcommand)
    if known is None or not known.shows_content or subcommand == "blame":
        return False
    if subcommand == "cat-file":
        return not arguments.has("-t", "-s", "-e") and not any(":" in word for word in arguments.operands)
    patch = any(_PATCH.fullmatch(given.name) for given in arguments.options)
    if subcommand in ("log", "reflog", "reflog show", "stash list", "whatchanged"):
        return patch
    return patch or not arguments.has(*_NO_PATCH)


_PATCH = re.compile(
    r"-[puUSGLcmBMCW]|--patch.*|--unified|--word.*|--color-words|--cc|--remerge-diff|--full-diff|--raw"
    r"|--binary|--pickaxe.*|--diff-merges|--submodule|--function-context"
)
_NO_PATCH = frozenset((
    "--stat", "--name-only", "--name-status", "--numstat", "--shortstat", "-s", "--no-patch", "--summary",
))  # fmt: skip
