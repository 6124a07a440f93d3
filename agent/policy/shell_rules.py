"""Match rule patterns against shell commands: allowing needs proof, denying needs only a sight of it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from posixpath import basename

from ...actions.tools.shell.parser import ShellReader, SimpleCommand

MAX_CHARS = 131_072
"""Linux refuses longer single arguments, so no longer text reaches `sh -c`."""

_MAX_NESTED_TEXTS = 4
_WINDOW = 60
"""Words of a wrapped command that are compared."""

_RUNS_ITS_ARGUMENTS = frozenset((
    "builtin", "busybox", "chroot", "chrt", "command", "doas", "env", "exec", "fd", "find", "flock", "ionice",
    "nice", "nohup", "nsenter", "parallel", "proxychains", "runuser", "setpriv", "setsid", "stdbuf", "strace",
    "sudo", "taskset", "time", "timeout", "unbuffer", "unshare", "watch", "xargs",
))  # fmt: skip
_RUNS_SHELL_TEXT = frozenset((
    "ash", "bash", "busybox", "dash", "env", "eval", "fish", "ksh", "parallel", "rbash", "script", "sh",
    "ssh", "su", "trap", "watch", "xargs", "zsh",
))  # fmt: skip
_FAR_REACHING_OPTIONS = {
    "fd": ("-x", "-X", "--exec"),
    "find": ("-delete", "-exec", "-fls", "-fprint", "-ok"),
    "git": ("-c", "--config-env", "--exec-path", "--ext-diff", "--open-files-in-pager", "--output"),
    "rg": ("--pre",),
    "sort": ("-o", "--output", "--compress-program"),
}
"""Program -> options that run, write or delete something although the program only looks without them."""


def read_commands(text: str) -> tuple[Sequence[SimpleCommand], Sequence[str]]:
    """Return the simple commands of the text and the doubts that it is nothing more."""
    if len(text) > MAX_CHARS:
        return (), ("it is too long",)
    reader = ShellReader(text)
    reader.read()
    return reader.commands, list(reader.doubts)


def covers(pattern: str, command: SimpleCommand) -> bool:
    """Tell whether an allow pattern covers one simple command."""
    if command.expands and pattern.find("*") != len(pattern) - 1:
        # What the shell makes of a file name pattern is unknown; only a trailing `*` covers anything.
        return False
    options = _FAR_REACHING_OPTIONS.get(basename(command.words[0]), ())
    if any(word.startswith(options) and word not in pattern for word in command.words[1:] if options):
        return False
    quoted = " ".join(map(_quoted, command.words))
    return _matches(pattern, quoted) or _matches(pattern, command.source)


def hits(pattern: str, text: str) -> bool:
    """Tell whether a deny pattern matches the text or any command found in it."""
    if len(text) > MAX_CHARS:
        return True
    first, blank, rest = pattern.partition(" ")
    patterns = {pattern}
    if "/" in first and not any(character in first for character in "*?["):
        patterns.add(basename(first) + blank + rest)
    return any(_matches(one, candidate) for candidate in _candidates(text, 0) for one in patterns)


def _matches(pattern: str, command: str) -> bool:
    """Compare as a glob; a trailing ` *` also covers the command without arguments."""
    return fnmatchcase(command, pattern) or (pattern.endswith(" *") and fnmatchcase(command, pattern[:-2]))


def _quoted(word: str) -> str:
    """Keep the words of a command apart, so that `"a b"` never passes for `a b`."""
    return word if word and not re.search(r"[\s'\"\\]", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def _candidates(text: str, depth: int) -> Iterator[str]:
    """Yield everything in the text that a person would call a command run by it."""
    yield " ".join(text.split())
    commands, _ = read_commands(text)
    for command in commands:
        yield command.source
        for words in _variants(command.words):
            yield from _spellings(words)
            if depth < _MAX_NESTED_TEXTS:
                yield from _nested(words, depth + 1)


def _variants(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the command and, if it runs its arguments, every command that could be meant by them."""
    if words[0].startswith("{") and words[0].endswith("}"):
        words = (*words[0][1:-1].split(","), *words[1:])
    yield words
    if basename(words[0]) in _RUNS_ITS_ARGUMENTS:
        for start in range(1, len(words)):
            yield words[start : start + _WINDOW]


def _spellings(words: tuple[str, ...]) -> Iterator[str]:
    """Yield the command as it is, without the folder of its program, and without leading options."""
    yield " ".join(words)
    program = basename(words[0])
    for start in _argument_starts(words):
        yield " ".join((program, *words[start:]))


def _argument_starts(words: tuple[str, ...]) -> Iterable[int]:
    """Yield 1 and each place after leading options, which may take a word each: `git -C folder push`."""
    yield 1
    for at in range(1, min(len(words), 9)):
        if not words[at].startswith("-") and not words[at - 1].startswith("-"):
            break
        yield at + 1


def _nested(words: tuple[str, ...], depth: int) -> Iterator[str]:
    """Yield the commands in arguments that are shell text themselves."""
    if basename(words[0]) not in _RUNS_SHELL_TEXT:
        return
    for word in words[1:]:
        if not word.startswith("-") and not word.isalnum():
            yield from _candidates(word, depth)
    if words[0] == "eval":
        yield from _candidates(" ".join(words[1:]), depth)
