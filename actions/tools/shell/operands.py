"""Which words of a command that only reads are paths, and whether it shows what is in them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .parser import SimpleCommand


class _Syntax(NamedTuple):
    valued: str = ""
    """Letters of options whose value is no path."""
    long_valued: frozenset[str] = frozenset()
    leading: int = 0
    """Operands in front that are no paths: a pattern, a script."""
    instead: str = ""
    """Letters of options that take the place of these."""
    long_instead: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a proved command looks at."""

    paths: tuple[str, ...]
    """As written; a file name pattern too, if `patterns` says so."""
    patterns: frozenset[str]
    """Those of the paths that the shell takes for patterns."""
    shows_content: bool
    walks: bool
    """It goes through folders by itself."""
    follows_links: bool
    """Links that it meets on the way lead it on."""
    skips_hidden: bool
    only: tuple[str, ...]
    """The names to which it keeps on its way; empty: all."""
    shows_unnamed: bool
    """It may show files that no word names, as `git diff` does."""


_NUMBERS = frozenset((
    "--max-count", "--context", "--after-context", "--before-context", "--max-depth", "--max-columns",
    "--lines", "--bytes", "--type", "--type-not", "--sort", "--color", "--colors", "--binary-files",
    "--directories", "--devices", "--label", "--include", "--exclude", "--exclude-dir", "--glob", "--iglob",
    "--encoding", "--threads", "--replace", "--key", "--field-separator", "--format", "--indent",
    "--author", "--grep", "--since", "--until", "--after", "--before", "--date", "--skip", "--abbrev",
    "--match", "--output-delimiter", "--delimiter", "--fields", "--characters", "--separator",
    "--output-separator", "--expression",
)) - {"--color", "--sort", "--abbrev", "--format", "--date"}  # fmt: skip
_GREP = _Syntax("mABCdD", _NUMBERS, 1, "e", ("--regexp", "--file"))
_SYNTAX: Mapping[str, _Syntax] = {
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _Syntax("mABCgtTjMEdr", _NUMBERS, 1, "e", ("--regexp", "--file", "--files", "--type-list")),
    "jq": _Syntax("", frozenset({"--indent"}), 1),
    "sed": _Syntax("", _NUMBERS, 1, "e", ("--expression",)),
    "awk": _Syntax("F", frozenset(), 1),
    "cut": _Syntax("dfcb", _NUMBERS),
    "sort": _Syntax("tk", _NUMBERS),
    "head": _Syntax("nc", _NUMBERS),
    "tail": _Syntax("nc", _NUMBERS),
    "paste": _Syntax("d"),
    "column": _Syntax("tsoNR", _NUMBERS),
    "stat": _Syntax("c", frozenset({"--format", "--printf"})),
    "tree": _Syntax("LIP", frozenset({"--filelimit"})),
    "find": _Syntax(),
}
_NO_PATHS = frozenset((
    "echo", "printf", "pwd", "whoami", "id", "uname", "date", "true", "false", "which", "type", "basename",
    "dirname", "tr", "seq", "expr", "nproc", "arch", "tty", "groups", "logname", "factor", "numfmt",
    "uptime", "free", "ps", "hostname", "command", ":", "python", "python3", "node", "npm", "pip", "gcc",
    "cmake", "make", "docker", "bash",
))  # fmt: skip
_SHOWS_CONTENT = frozenset((
    "cat", "head", "tail", "grep", "egrep", "fgrep", "rg", "nl", "tac", "rev", "cut", "sort", "uniq",
    "diff", "jq", "sed", "awk", "cmp", "comm", "paste", "join", "expand", "unexpand", "fold", "fmt", "od",
    "xxd", "hexdump", "column", "tr", "base64",
))  # fmt: skip
GIT_SHOWS_CONTENT = frozenset((
    "show", "diff", "log", "blame", "grep", "cat-file", "stash", "reflog", "diff-tree", "whatchanged",
))  # fmt: skip
_STARTS_HERE = frozenset(("ls", "find", "tree", "du", "rg", "grep", "egrep", "fgrep", "git", "file"))


def reading_of(command: SimpleCommand) -> Reading:
    """Return what a command looks at; a word is a path unless it is known to be none."""
    program, words = command.words[0], command.words
    paths = list(_paths(command))
    opened = [one.target for one in command.redirections if one.operator == "<" and one.target != "/dev/null"]
    paths += opened
    walks, follows = _walks(program, words)
    is_git = program == "git"
    if program in _STARTS_HERE and (not paths or is_git):
        paths.append(".")
    shown = program in _SHOWS_CONTENT or bool(opened)
    if is_git:
        shown = any(word in GIT_SHOWS_CONTENT for word in words[1:])
    return Reading(
        paths=tuple(paths),
        patterns=frozenset(
            word for word, made in zip(words, command.computed, strict=True) if made and command.expands
        ),
        shows_content=shown,
        walks=walks,
        follows_links=follows,
        skips_hidden=program == "rg"
        and not any(word.startswith(("--hid", "-.", "--no-ig", "--unr", "-u")) for word in words),
        only=tuple(_only(program, words)),
        shows_unnamed=is_git and _shows_unnamed(words),
    )


def _paths(command: SimpleCommand) -> Iterator[str]:
    program = command.words[0]
    if program in _NO_PATHS:
        # What such a program prints is its words, unless the shell puts names of files there.
        yield from (word for word, made in zip(command.words[1:], command.computed[1:], strict=True) if made)
        return
    yield from _split(_SYNTAX.get(program, _Syntax()), command.words[1:])


def _split(syntax: _Syntax, words: tuple[str, ...]) -> Iterator[str]:
    """Yield the words and the values of options that may be paths."""
    operands: list[str] = []
    leading, at = syntax.leading, 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            operands += words[at:]
            break
        if not word.startswith("-") or word == "-":
            operands.append(word)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            if any(full.startswith(name) for full in syntax.long_instead):
                leading = 0
            if equals:
                yield from () if name in syntax.long_valued else (value,)
            elif name in syntax.long_valued:
                at += 1
        else:
            is_skipped, instead, value = _cluster(syntax, word)
            leading = 0 if instead else leading
            at += is_skipped
            if value:
                yield value
    yield from (word for word in operands[leading:] if word != "-")


def _cluster(syntax: _Syntax, word: str) -> tuple[bool, bool, str]:
    """Read `-rnA3`: is the next word a value, does it stand for the pattern, and what of it may be a path?"""
    for at, letter in enumerate(word[1:], 1):
        if letter in syntax.instead:
            return at == len(word) - 1, True, ""
        if letter == "f" and syntax.instead:
            return False, True, word[at + 1 :]
        if letter in syntax.valued:
            return at == len(word) - 1, False, ""
    return False, False, word[2:] if any(mark in word for mark in "/~.") else ""


def _walks(program: str, words: tuple[str, ...]) -> tuple[bool, bool]:
    """Tell whether a program goes through folders by itself, and over links."""
    letters = "".join(word[1:] for word in words[1:] if word[:1] == "-" and word[:2] != "--")
    options = [word.partition("=")[0] for word in words[1:] if word.startswith("--") and len(word) > 4]
    if program in ("grep", "egrep", "fgrep"):
        follows = "R" in letters or any("--dereference-recursive".startswith(word) for word in options)
        recursive = any("--recursive".startswith(word) or word == "--directories" for word in options)
        return "r" in letters or "d" in letters or recursive or follows, follows
    if program == "diff":
        return True, True
    if program == "find":
        return True, "-L" in words or "-follow" in words
    if program == "git":
        return "grep" in words, False
    if program in ("rg", "tree", "du", "ls"):
        walks = program != "ls" or "R" in letters or any("--recursive".startswith(word) for word in options)
        follows = "L" in letters or (program == "tree" and "l" in letters)
        return walks, walks and (follows or "--follow" in options or "--dereference" in options)
    return False, False


def _only(program: str, words: tuple[str, ...]) -> Iterator[str]:
    names = {"rg": ("-g", "--glob", "--iglob"), "grep": ("--include",)}.get(program, ())
    for at, word in enumerate(words[1:], 1):
        name, equals, value = word.partition("=")
        if equals and name in names and not value.startswith("!"):
            yield value
        elif words[at - 1] in names and not word.startswith("!"):
            yield word


def _shows_unnamed(words: tuple[str, ...]) -> bool:
    at = next((at for at, word in enumerate(words) if word in GIT_SHOWS_CONTENT), None)
    if at is None or words[at] in ("blame", "cat-file", "grep"):
        return False
    rest = words[at + 1 :]
    if words[at] in ("log", "reflog", "stash", "whatchanged"):
        return any(_PATCH.match(word) for word in rest)
    return not any(word in _NO_PATCH for word in rest)


_PATCH = re.compile(r"-[a-zA-Z]*[pu]|--patch|-U|--unified|-S|-G|-L|-c$|-m$|--word|--cc")
_NO_PATCH = frozenset((
    "--stat", "--name-only", "--name-status", "--numstat", "--shortstat", "-s", "--no-patch", "--summary",
))  # fmt: skip
