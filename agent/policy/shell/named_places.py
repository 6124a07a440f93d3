"""Finds the paths that the words of commands name or may name, with the current files and environment."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from os.path import expandvars
from posixpath import dirname, expanduser, join, lexists, realpath
from typing import NamedTuple
from urllib.parse import unquote

from ....actions.tools.shell.language.parser import PLAIN, Redirection
from ....actions.tools.shell.language.programs.steps import MarkedWord, UnclearWord, expand_braces
from .far_options import GIT_OPTIONS_WITH_VALUE, find_scripts
from .file_patterns import expand_files
from .inner_commands.wrappers import find_wrapped_commands
from .seen_commands import SeenCommand, Sight

_MAX_WORD_CHARS = 4096
_MAX_PIECES = 40
_MAX_FOLDERS = 16
_MAX_LETTERS = 24
"""The most letters of a cluster of options after which an attached value is looked for."""
_NOWHERE = frozenset((
    "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/random", "/dev/urandom",
))  # fmt: skip
_DELIMITER = re.compile(r"[=:,;@<]")
_ADDRESS = re.compile(r"(?<![\w/.+-])[A-Za-z][A-Za-z0-9+.-]*://[^\s,;'\"]*")
_FILE_ADDRESS = re.compile(r"(?i)file:(?://[^/\s]*)?(/[^\s'\"]*)")
_TEXT = re.compile(r"[\s\"'`()]")
"""Characters of a word that is a sentence or code, and not a path alone."""
_TOKEN = re.compile(r"[^\s\"'`;&|<>(){}\[\]$=,:!*?\\^#]+")
_UNKNOWN = re.compile(r"[/.]*")
_WILDCARD = re.compile(r"[*?\[]")
_FOLDER_VARIABLE = re.compile(r"\$\{?\w+\}?/|\$\{?HOME\}?$|\$\{?PWD\}?$")
"""A variable that is used as a folder. The values of other variables are unknown."""
_PRINTS_ITS_WORDS = frozenset(("echo", "printf", "true", "false", ":"))
_MOVES = re.compile(r"(?:-C|-D|--directory|--chdir|--cwd|--work-dir|--workdir|--prefix)(?:=(.*))?|-[CD](.+)")
_LEAVES_OUT = re.compile(r"--(?:extend-)?(?:exclude|ignore)(?:-dir|-glob|-pattern)?|--norecursedirs")
_PASSES_OVER = re.compile(
    r"[gb]?s?d?tar|rsync|[ef]?grep|rg|ag|ack|ruff|flake8|mypy|black|isort|pylint|pytest|eslint|tree|fd|du|bandit"
)
"""Programs whose options with these names take names to pass over, and nothing else."""
_MESSAGE = re.compile(r"-[a-zA-Z]*m|--message|--title|--body|--notes|--subject|--trailer")
_MESSAGE_ATTACHED = re.compile(r"(?s)(?:--message|--title|--body|--notes|--subject|--trailer)=.*|-a?m.+")
_HAS_MESSAGE = frozenset((
    "git commit", "git tag", "git merge", "git stash", "git notes", "gh pr", "gh issue", "gh release",
    "hg commit", "svn commit", "jj describe", "jj commit", "npm version",
))  # fmt: skip
"""Programs with a subcommand whose option `-m` takes a text."""


class NamedPlace(NamedTuple):
    """One path that a command may name, seen from one folder in which the command may run."""

    text: str
    """The path as the command writes it."""
    written: str
    """The absolute path, as written: neither links nor `..` are resolved."""
    seen: SeenCommand
    is_unclear: bool = False
    """Whether the text means files that cannot be known."""
    is_output: bool = False
    """Whether the shell writes the output of the command to it."""

    @property
    def is_new_word(self) -> bool:
        """Return whether it is a plain word that no file has as its name."""
        return "/" not in self.text and "." not in self.text and not lexists(self.written)


def find_named_places(sight: Sight, cwd: str) -> Iterator[NamedPlace]:
    """Yield every operand, every value of an option and every redirection that may be a path.

    The words of a wrapped command belong to the wrapped command; the names of programs are left out.
    """
    is_fed = any(seen.is_given_names for seen in sight.commands)
    for seen, folders in follow_folders(sight, cwd):
        texts = dict.fromkeys((*_list_redirected(seen.redirections), *_list_words(seen, is_fed)))
        outputs = dict.fromkeys(_list_redirected(seen.redirections, is_output=True))
        for folder in folders:
            yield from _find_in(folder, texts, seen)
            yield from (one._replace(is_output=True) for one in _find_in(folder, outputs, seen))


def follow_folders(sight: Sight, cwd: str) -> Iterator[tuple[SeenCommand, Sequence[str]]]:
    """Yield each command with the folders in which it may run."""
    folders = [realpath(cwd)]
    for number, seen in enumerate(sight.commands):
        moved = [_enter(folder, word) for word in _list_moves(seen) for folder in folders]
        if seen.program == "cd" and number == 0 and sight.is_sequence and len(moved) == 1:
            # The other commands run only if this one succeeds.
            yield seen, folders
            folders = moved
            continue
        folders = list(dict.fromkeys((*folders, *moved)))[:_MAX_FOLDERS]
        yield seen, [enter_git_folder(seen, folder) for folder in folders]


def _enter(folder: str, word: str) -> str:
    return realpath(join(folder, expanduser(word)))


def _list_moves(seen: SeenCommand) -> Iterator[str]:
    """Yield the folders that a command makes the working folder of others."""
    if seen.program in ("cd", "pushd"):
        yield from [word for word in seen.words[1:] if word == "-" or not word.startswith("-")] or ["~"]
    elif seen.program != "git":
        for word, following in pairwise((*seen.words[1:], "")):
            if (found := _MOVES.fullmatch(word)) and (folder := found[1] or found[2] or following):
                yield folder


def enter_git_folder(seen: SeenCommand, folder: str) -> str:
    """Return the folder in which a git command works: that of its options `-C`, or `folder`."""
    words = list(seen.words[1:]) if seen.program == "git" else list[str]()
    while words and words[0].startswith("-"):
        if words[0] == "-C" and len(words) > 1:
            folder = _enter(folder, words[1])
        del words[: 2 if words[0] in GIT_OPTIONS_WITH_VALUE else 1]
    return folder


def _list_redirected(redirections: Sequence[Redirection], is_output: bool = False) -> Iterator[str]:
    for one in redirections:
        is_file = one.operator not in ("<<", "<<-", "<<<") and not (one.target.isdigit() or one.target == "-")
        if is_file and (">" in one.operator and one.operator != "<>") == is_output:
            yield one.target


def _list_words(seen: SeenCommand, is_fed: bool) -> Iterator[str]:
    """Yield the words that may be paths. What `echo` prints may become the operand of another command."""
    if seen.program in _PRINTS_ITS_WORDS and not is_fed:
        return
    # If it is uncertain where the wrapped command begins, only the last start is certainly part of it.
    end = max(find_wrapped_commands(seen.words), default=len(seen.words))
    scripts = find_scripts(seen.words) if seen.program.lstrip("gmn") in ("sed", "awk") else ()
    for at, word in enumerate(seen.words[1:end], 1):
        if word not in scripts and not _is_message(seen, at) and not _is_left_out(seen, at):
            yield word


def _is_left_out(seen: SeenCommand, at: int) -> bool:
    """Return whether a word names what a program passes over."""
    if _PASSES_OVER.fullmatch(seen.program) is None:
        return False
    before, word = seen.words[at - 1], seen.words[at]
    return (
        _LEAVES_OUT.fullmatch(before) is not None or _LEAVES_OUT.fullmatch(word.partition("=")[0]) is not None
    )


def _is_message(seen: SeenCommand, at: int) -> bool:
    words = seen.words
    operands = [word for word in words[1:at] if not word.startswith("-")]
    if not operands or not any(f"{seen.program} {word}" in _HAS_MESSAGE for word in operands):
        return False
    return _MESSAGE.fullmatch(words[at - 1]) is not None or _MESSAGE_ATTACHED.fullmatch(words[at]) is not None


def _find_in(folder: str, texts: Iterable[str], seen: SeenCommand) -> Iterator[NamedPlace]:
    for text in texts:
        if len(text) > _MAX_WORD_CHARS:
            yield NamedPlace(text[:100], folder, seen, is_unclear=True)
            continue
        for word in _expand_braces(text):
            for part in dict.fromkeys(_list_parts(word, folder)):
                yield from _find_meant(part, folder, seen)


def _expand_braces(text: str) -> list[str]:
    if "{" not in text:
        return [text]
    try:
        return [text, *(word.text for word in expand_braces(MarkedWord(text, PLAIN * len(text))))]
    except UnclearWord:
        return [text]


def _list_parts(word: str, folder: str) -> Iterator[str]:
    """Yield a word and its parts that may be paths: behind `=`, `@` or `:`, or attached to an option."""
    yield from (unquote(found[1]) for found in _FILE_ADDRESS.finditer(word))
    address = _ADDRESS.match(word)
    if address is not None and not lexists(join(folder, word.partition("//")[0])):
        word = word[address.end() :]
    elif _TEXT.search(word) is not None:
        yield from _list_parts_of_text(word, folder)
        return
    elif not word.startswith("-"):
        yield word
    word = _ADDRESS.sub("", word)
    if word[:1] == "-" and word[:2] != "--":
        yield from (part for part in _list_attached(word) if part.strip("/"))
    cuts = [found.end() for found in _DELIMITER.finditer(word)][:_MAX_PIECES]
    for start, end in pairwise((*cuts, len(word) + 1)):
        yield from (part for part in (word[start : end - 1], word[start:]) if part.strip("/"))


def _list_attached(word: str) -> Iterator[str]:
    """Yield what may be the value of a short option in a cluster: `zf../x`, `f../x` and `../x` of
    `-czf../x`."""
    for at in range(2, min(len(word), _MAX_LETTERS)):
        yield word[at:]
        if not word[at].isalnum():
            return


def _list_parts_of_text(word: str, folder: str) -> Iterator[str]:
    """Yield a word with blanks if it is a path, and the existing paths in it."""
    _, equals, value = word.partition("=")
    for part in (word, *([value] if equals else ())):
        place = join(folder, expanduser(part))
        if "\0" not in part and (lexists(place) or ("/" in part and lexists(dirname(place)))):
            yield part
    for token in _TOKEN.findall(word):
        if not ("/" in token or token.startswith(("~", "."))) or _UNKNOWN.fullmatch(token):
            continue
        place = join(folder, expanduser(token))
        is_new = "/" in token and dirname(place) not in ("/", folder) and lexists(dirname(place))
        if is_new or lexists(place):
            yield token


def _find_meant(part: str, folder: str, seen: SeenCommand) -> Iterator[NamedPlace]:
    """Yield the places that a part means after the expansions of the shell."""
    if not part or part in _NOWHERE or "\0" in part:
        return
    if _FOLDER_VARIABLE.search(part):
        part = expandvars(re.sub(r"\$(?:PWD\b|\{PWD\})", lambda _: folder, part))
    path = expanduser(re.sub(r"^~\+(?=/|$)", lambda _: folder, part))
    if path.startswith("~") and len(path) > 1:
        yield NamedPlace(part, join(folder, path), seen, is_unclear=True)
        return
    yield NamedPlace(part, join(folder, path), seen)
    if _WILDCARD.search(path) is None:
        return
    try:
        names, _ = expand_files(MarkedWord(path, PLAIN * len(path)), folder)
    except UnclearWord:
        yield NamedPlace(part, join(folder, path), seen, is_unclear=any(seen.computed))
        return
    yield from (NamedPlace(name, join(folder, name), seen) for name in names)
