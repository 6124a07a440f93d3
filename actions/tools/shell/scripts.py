"""Names the files of a command line that hold what it does: scripts, makefiles, lists of scripts.

This serves no proof: it finds what the usual forms name. What a script runs in turn is not looked into.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from posixpath import basename, expanduser, join

from .parser import ShellReader

_MAX_CHARS = 20_000
_MOST_FILES = 20

_PASSES_ON = frozenset(("command", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "sudo", "time"))
"""Programs that run the rest of their words."""
_INTERPRETERS = frozenset((
    ".", "ash", "bash", "bun", "dash", "deno", "fish", "ksh", "lua", "node", "perl", "php", "python",
    "Rscript", "ruby", "sh", "source", "ts-node", "tsx", "zsh",
))  # fmt: skip
"""Programs whose first operand is a script; the version may follow the name."""
_TAKES_TEXT = frozenset(("-c", "-e", "-m", "-p", "-r", "--eval", "--print"))
"""Options of theirs after which no script comes."""
_READS = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", ".justfile", "Justfile"),
    "npm": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "rake": ("Rakefile",),
    "invoke": ("tasks.py",),
}
"""What programs find in the folder that they run in; all of them count: the first that is there is read."""
_FILE = ("-f", "--file", "--makefile", "--justfile")
_FOLDER = ("-C", "--directory", "--prefix", "--dir", "--cwd")


def scripts_of(command: str, cwd: Path) -> Sequence[str]:
    """Return the files as absolute paths, links not followed; some of them may not be there."""
    if len(command) > _MAX_CHARS:
        return ()
    reader = ShellReader(command)
    reader.read()
    folder, found = str(cwd), dict[str, None]()
    for one in reader.commands:
        words = _without_runners(one.words)
        if words[:1] == ["cd"]:
            folder = join(folder, expanduser(words[1] if len(words) > 1 else "~"))
            continue
        found |= dict.fromkeys(join(folder, expanduser(name)) for name in _named(words, folder, cwd))
    return tuple(found)[:_MOST_FILES]


def _without_runners(words: Sequence[str]) -> list[str]:
    """Return the command that programs such as `env` run; options of theirs with a value hide it."""
    rest = list(words)
    while rest and basename(rest[0]) in _PASSES_ON:
        del rest[0]
        while rest and (rest[0].startswith("-") or "=" in rest[0]):
            del rest[0]
    return rest


def _named(words: Sequence[str], folder: str, cwd: Path) -> Iterator[str]:
    if not words:
        return
    program, rest = words[0], words[1:]
    if "/" in program and _is_below(join(folder, expanduser(program)), cwd):
        yield program
    name = basename(program)
    if name in _INTERPRETERS or name.rstrip("0123456789.") in _INTERPRETERS:
        yield from _script(rest)
    elif name in _READS:
        yield from _found_by(rest, _READS[name])


def _is_below(path: str, cwd: Path) -> bool:
    """Tell whether a program is one of the workspace: the system's own are not read each time."""
    return os.path.realpath(path).startswith(os.path.realpath(cwd).rstrip("/") + "/")


def _script(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        is_cluster = word.startswith("-") and not word.startswith("--") and word.endswith("c")
        if word in _TAKES_TEXT or is_cluster:
            return
        if not word.startswith("-"):
            yield word
            return


def _found_by(words: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    folder, files = "", list[str]()
    for word, following in pairwise((*words, "")):
        option, _, value = word.partition("=")
        folder = (value or following) if option in _FOLDER else folder
        files += [value or following] if option in _FILE else []
    yield from (join(folder, name) for name in files or names)
