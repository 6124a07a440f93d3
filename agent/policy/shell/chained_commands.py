"""Follows data between the commands of a line: names to delete through a pipe, and downloads that run."""

import re
from collections.abc import Callable, Iterator, Sequence
from posixpath import basename, expanduser, join, normpath

from .seen_commands import INTERPRETER, SHELLS, SeenCommand

_NARROWS = re.compile(r"[ef]?grep|rg|head|tail|awk|sed|cut|uniq|comm|fzf")
_PASSES_ON = re.compile(rf"sort|tr|tee|cat|tac|shuf|nl|{_NARROWS.pattern}")
_PRINTS_CONTENT = re.compile(rf"{_PASSES_ON.pattern}|jq|yq|curl|wget|:|xargs")
_READS_NAMES = frozenset(("read", "mapfile", "readarray"))
_SUBSTITUTION = re.compile(r"\$\(|`")
_PARALLEL_ERASURE = re.compile(r"\brm\s+(?:-\S+\s+)*-(?:[a-zA-Z]*[rR]|-r)")
_GIVEN = re.compile(r"\$[@*\w{]")
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r(?:e(?:c\w*)?)?")
_OUTPUT = re.compile(r"-[a-zA-Z]*[oO]|--output|--output-document")
_ATTACHED = re.compile(r"(?:-o|-O|--output=|--output-document=)(?P<name>[^-].*)")


def names_given(commands: Sequence[SeenCommand], at: int) -> tuple[tuple[str, ...], bool]:
    """Return the file names that a pipe passes to a command, and whether they are only a part of the
    names."""
    is_narrow = False
    for seen in reversed(commands[:at]):
        if _PASSES_ON.fullmatch(seen.program) and seen.reads_pipe:
            is_narrow |= _NARROWS.fullmatch(seen.program) is not None
        elif (names := _NAMES.get(seen.program)) is not None:
            return tuple(names(seen)), is_narrow
        elif not seen.reads_pipe:
            break
    return (), is_narrow


def erases_unknown_trees(commands: Sequence[SeenCommand], at: int) -> bool:
    """Return whether a command deletes trees whose names come from elsewhere: from a file, or a program."""
    seen = commands[at]
    if seen.program == "parallel":
        text = " ".join(seen.words[1:])
        return _PARALLEL_ERASURE.search(text) is not None and ":::" not in seen.words
    if not any(map(_RECURSIVE.fullmatch, seen.words[1:])):
        return False
    if seen.is_given_names:
        return True
    operands = {re.sub(r"[{}]|\[[@*]\]", "", word) for word in seen.words[1:]}
    if operands & set(_list_read_variables(commands[:at])):
        return True
    is_own = "$()" in operands and _SUBSTITUTION.search(seen.source) is not None
    return is_own and _prints_names_from_elsewhere(commands, at)


def _list_read_variables(commands: Sequence[SeenCommand]) -> Iterator[str]:
    """Yield the variables whose values come from a file, a program or the arguments of `xargs`."""
    for at, one in enumerate(commands):
        if one.program in _READS_NAMES:
            yield from (f"${name}" for name in one.words[1:])
        elif one.words[1:] == ("in", "$()") and _prints_names_from_elsewhere(commands, at):
            yield f"${one.words[0]}"
        elif one.is_given_names and one.program in SHELLS:
            yield from ("$@", "$*", *(f"${number}" for number in range(10)))


def _prints_names_from_elsewhere(commands: Sequence[SeenCommand], at: int) -> bool:
    """Return whether the substitution in a command prints what a file or a service contains."""
    for seen in reversed(commands[:at]):
        if _PASSES_ON.fullmatch(seen.program) and seen.reads_pipe:
            continue
        is_git = seen.program == "git" and not {"rev-parse", "config"} & set(seen.words)
        return is_git or _PRINTS_CONTENT.fullmatch(seen.program) is not None
    return False


def add_arguments(seen: SeenCommand, names: Sequence[str]) -> SeenCommand:
    """Return the command with the arguments that come from `xargs` or a loop variable."""
    words = list(seen.words[1:])
    places = [at for at, word in enumerate(words) if (seen.fed or "{}") in word or _GIVEN.match(word)]
    if not places:
        words += names if seen.fed else ()
    for at in reversed(places):
        mark = _GIVEN.match(words[at]) is not None
        words[at : at + 1] = [name if mark else words[at].replace(seen.fed or "{}", name) for name in names]
    return SeenCommand((seen.words[0], *words), (False,) * (len(words) + 1))


def _echo_words(seen: SeenCommand) -> Iterator[str]:
    yield from (word for word in seen.words[1:] if not word.startswith("-") and "%" not in word)


def _ls_patterns(seen: SeenCommand) -> Iterator[str]:
    folders = [word for word in seen.words[1:] if not word.startswith("-")]
    yield from (folder if "*" in folder else f"{folder.rstrip('/')}/*" for folder in folders or ["."])


def _find_starts(seen: SeenCommand) -> Iterator[str]:
    starts: list[str] = []
    for word in seen.words[1:]:
        if word.startswith(("-", "(", "!")):
            break
        starts.append(word)
    yield from starts or ["."]


_NAMES: dict[str, Callable[[SeenCommand], Iterator[str]]] = {
    "echo": _echo_words,
    "printf": _echo_words,
    "ls": _ls_patterns,
    "find": _find_starts,
    "pwd": lambda seen: iter(("$PWD",)),
}


class LoadedFiles:
    """The files that earlier commands of a line download."""

    def __init__(self, loads: Callable[[SeenCommand], bool]) -> None:
        self._loads = loads
        self._files: set[str] = set()
        self._is_piped = False
        """Whether the previous command downloads, or passes on a download."""

    def runs(self, seen: SeenCommand, cwd: str) -> bool:
        """Return whether a command runs a downloaded file; record the files that the command downloads."""
        loads = self._loads(seen)
        self._is_piped = loads or (self._is_piped and seen.reads_pipe)
        if self._is_piped:
            self._files |= {_path(name, cwd) for name in _output_files(seen, loads)}
        return any(_path(name, cwd) in self._files for name in _run_by(seen))


def _path(name: str, cwd: str) -> str:
    return normpath(join(cwd, expanduser(name)))


def _output_files(seen: SeenCommand, loads: bool) -> Iterator[str]:
    yield from (one.target for one in seen.redirections if ">" in one.operator)
    if not loads:
        yield from (word for word in seen.words[1:] if seen.program == "tee" and not word.startswith("-"))
        return
    for word, following in zip(seen.words, (*seen.words[1:], ""), strict=True):
        if _OUTPUT.fullmatch(word):
            yield following
        elif found := _ATTACHED.fullmatch(word):
            yield found["name"]
        elif "://" in word:
            yield basename(re.split(r"[?#]", word)[0])


def _run_by(seen: SeenCommand) -> Iterator[str]:
    operands = [word for word in seen.words[1:] if not word.startswith("-")]
    if "/" in seen.words[0]:
        yield seen.words[0]
    if seen.program in SHELLS or seen.program in (".", "source"):
        yield from operands
        yield from (one.target for one in seen.redirections if one.operator.endswith("<"))
    elif INTERPRETER.fullmatch(seen.program):
        for operand in operands:
            yield operand
            if "." in operand:
                break
        yield from (one.target for one in seen.redirections if one.operator.endswith("<"))
