"""Proves that a command line only reads, so that running it twice has no effect.

Only programs, subcommands and options in the tables can be proved.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ....state.lazy_dataclass import dataclass
from .language.parser import (
    HOLDS_BRACES,
    HOLDS_CONTROL,
    HOLDS_SUBSHELL,
    HOLDS_VARIABLE,
    READS_A_FILE,
    ShellReader,
)
from .language.programs.git_tables import GIT
from .language.programs.options import Program, UnknownOption, read_arguments
from .language.programs.steps import (
    CommandStep,
    MarkedWord,
    UnclearStructure,
    UnclearWord,
    expand,
    read_steps,
    turns,
)
from .language.programs.tables import PROGRAMS, SUBCOMMANDS
from .language.programs.versions import tells_version

_MAX_CHARS = 20_000
_EXPLAINED = (HOLDS_BRACES, HOLDS_CONTROL, HOLDS_SUBSHELL, HOLDS_VARIABLE, READS_A_FILE)
"""The doubts of the parser that this module examines."""
_ANY_WORDS = frozenset(("echo", "true", "false", "expr", ":"))
"""Programs whose arguments are all plain text."""
_SPECIAL_FILE = re.compile(r"(?:(?<![\w~*?\]])|^-.*)/[./]*(?:dev|proc|sys)(?:/|$)|^/[\w./]*[*?\[]")
"""A special file, or a text that may name one. Reading such a file may have an effect: a watchdog, a
terminal, the kernel's log.
"""
_CONVERSION = re.compile(r"%[-+ #0]*[0-9]*(?:\.[0-9]+)?[sdiuoxXcbqeEfFgG]|%%")
_TESTS = frozenset((
    "-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-p", "-S", "-b", "-c", "-u", "-g", "-k", "-O",
    "-G", "-z", "-n", "-nt", "-ot", "-ef", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-a",
))  # fmt: skip


class NotProved(Exception):
    """A command may do more than read. The message names the unknown part."""


@dataclass(frozen=True, slots=True)
class ReadProof:
    """The result of a proof for a command line."""

    steps: Sequence[CommandStep] = ()
    """The commands of the line, if it certainly changes nothing; else empty."""
    doubt: str = ""
    """The unknown part, if there is no proof; empty if the line is known to do more than read."""


def is_read_only(command: str) -> bool:
    """Return whether the command line certainly changes nothing, except for caches of programs."""
    return bool(prove(command).steps)


def prove(command: str) -> ReadProof:
    """Prove that a command line changes nothing, or name the unknown part."""
    if len(command) > _MAX_CHARS:
        return ReadProof(doubt="it is too long to be examined")
    reader = ShellReader(command)
    reader.read()
    doubt = next((doubt for doubt in reader.doubts if doubt not in _EXPLAINED), None)
    if doubt is not None:
        return ReadProof(doubt=doubt)
    try:
        steps = read_steps(reader.parts)
        for step in steps:
            _prove_step(step)
    except (UnclearStructure, UnclearWord, NotProved) as unclear:
        return ReadProof(doubt=str(unclear))
    return ReadProof(steps)


def _prove_step(step: CommandStep) -> None:
    command, marked = step.command, step.mark_words()
    if any(word.is_pattern() for word in marked[:1] if word.text != "[") or "{" in command.words[0]:
        raise NotProved("the shell makes the name of a program")
    read = [f" {one.target}" for one in command.redirections if one.target != "/dev/null"]
    for values in turns(step.loops):
        prove_words(expand(marked, values), read)


def prove_words(words: Sequence[MarkedWord], read: Sequence[str] = ()) -> None:
    """Raise `NotProved` unless the words of a command show that it only reads. File name patterns are not
    expanded yet.
    """
    program, *arguments = (word.text for word in words)
    if any(_SPECIAL_FILE.search(word) for word in (*arguments, *read)):
        raise NotProved("it names a special file")
    if program in _ANY_WORDS:
        return
    known = PROGRAMS.get(program)
    if tells_version(program, arguments) or (known and arguments in (["--version"], ["--help"])):
        return
    subcommand = subcommand_of(program, arguments)
    if subcommand is not None:
        _require_clear_patterns(subcommand, None, words)
        _fit(subcommand, SUBCOMMANDS[subcommand], arguments[1:])
        return
    judge = _BY_HAND.get(program)
    if judge is None and known is None:
        raise NotProved(_why_unknown(program, arguments))
    _require_clear_patterns(program, known, words)
    if judge is not None:
        if not judge(arguments):
            raise NotProved(f"{_shorten(' '.join((program, *arguments)))} is not known to only read")
    elif known is not None:
        _fit(program, known, arguments)


def subcommand_of(program: str, words: Sequence[str]) -> str | None:
    """Return a read-only subcommand as its table spells it, for programs other than git; None if there is
    none.
    """
    name = {"pip3": "pip"}.get(program, program)
    second = {"list": "ls"}.get(words[0], words[0]) if words and name == "npm" else " ".join(words[:1])
    return f"{name} {second}" if f"{name} {second}" in SUBCOMMANDS else None


def _why_unknown(program: str, words: Sequence[str]) -> str:
    if list(words) == ["--version"]:
        return f"it is not known whether {_shorten(program)} loads files of the folder to print its version"
    return f"{_shorten(program)} is not known to only read"


def _shorten(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:40]}..."


def _require_clear_patterns(program: str, known: Program | None, words: Sequence[MarkedWord]) -> None:
    """Refuse a pattern that may match a name that looks like an option, or that may add one operand
    too many.
    """
    patterns = [word for word in words[1:] if word.is_pattern()]
    if not patterns or (known is not None and known.is_pure):
        return
    is_known = known is not None and known.most_operands is None and program != "date"
    if not is_known or any(word.text[0] in "*?[-" for word in patterns):
        raise NotProved(f"the effect of its file name pattern on {program} is not known: {patterns[0].text}")


def _fit(program: str, known: Program, words: Sequence[str]) -> None:
    """Raise `NotProved` unless all options are in the table and the number of operands is allowed."""
    try:
        arguments = read_arguments(known, words)
    except UnknownOption as error:
        raise NotProved(f"{program} {_shorten(str(error))} is not known to only read") from None
    most = known.most_operands
    if most is None:
        return
    count = len(arguments.operands) + (0 if program.startswith("git ") else len(arguments.late))
    if count > most or "--" in words:
        raise NotProved(f"{program} may write to its operands: {_shorten(' '.join(words))}")


GIT_GLOBAL_OPTIONS = frozenset(("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"))
_LISTS_BY = {
    "git tag": frozenset(
        ("-l", "--list", "--contains", "--no-contains", "--points-at", "--merged", "--no-merged")
    ),
    "git branch": frozenset(
        ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
    ),
}
"""With one of these options, the operands are patterns or commits, and the command creates nothing."""
_HARMLESS_SETTING = re.compile(
    r"(?:user\.(?:name|email)|init\.defaultbranch|core\.[a-z]+|pull\.[a-z]+|push\.[a-z]+|commit\.[a-z]+"
    r"|branch\..+\.(?:remote|merge|rebase)|remote\.[^.]+\.(?:url|fetch|pushurl)|merge\.[a-z]+|diff\.[a-z]+)",
    re.IGNORECASE,
)
"""Settings of git whose values are not secrets."""


def git_subcommand(words: Sequence[str]) -> tuple[str, int]:
    """Return the subcommand as its table spells it, and the index of its arguments. The name is empty if
    there is none.
    """
    at = 0
    while at < len(words) and (words[at] in GIT_GLOBAL_OPTIONS or words[at] == "-C"):
        at += 2 if words[at] == "-C" else 1
    if at >= len(words):
        return "", at
    two = " ".join(words[at : at + 2])
    return (two, at + 2) if two in GIT else (words[at], at + 1)


def _git(words: Sequence[str]) -> bool:
    """Return whether the subcommand of git only reads."""
    # If a format contains %G, or `signature`, git runs a program to check signatures.
    if any("%G" in word or "signature" in word for word in words):
        raise NotProved("git may run a program to check signatures")
    subcommand, at = git_subcommand(words)
    program, rest = f"git {subcommand}", words[at:]
    known = GIT.get(subcommand)
    if known is None:
        raise NotProved(f"{_shorten(program)} is not known to only read")
    if subcommand == "config":
        _fit_config(rest)
    lists = _LISTS_BY.get(program, frozenset[str]())
    if any(word.partition("=")[0] in lists for word in rest):
        known = replace(known, most_operands=None)
    _fit(program, known, rest)
    return True


def _fit_config(words: Sequence[str]) -> None:
    key = words[-1] if words else ""
    if not _HARMLESS_SETTING.fullmatch(key) or "=" in " ".join(words):
        raise NotProved("it is not known whether git's configuration contains a secret there")


_SED_PATTERN = r"/(?:[^/\n;\\]|\\[^/\n;])*/"
"""A pattern of sed. An escaped slash does not end it: otherwise the rest would be parsed as commands."""
_SED_SCRIPT = re.compile(
    rf"(?:(?:\d+|\$|{_SED_PATTERN})(?:,(?:\d+|\$|\+\d+|{_SED_PATTERN}))?\s*[pd=q]\s*;?\s*)+"
    r"|s([/|#,])(?:(?!\1)[^\n;\\{}]|\\[^\n\\])*\1(?:(?!\1)[^\n;\\{}]|\\[^\n\\])*\1[gpiI\d]*"
)


def _is_read_only_sed(words: Sequence[str]) -> bool:
    """Return whether all scripts only print, delete and replace lines, and neither write nor run anything."""
    rest = list(words)
    scripts: list[str] = []
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option == "--expression" or re.fullmatch(r"-[nEr]*e", option):
            scripts += rest[:1]
            del rest[:1]
        elif not re.fullmatch(r"-[nEr]+|--quiet|--silent|--regexp-extended", option):
            return False
    if not scripts:
        scripts = rest[:1]
        rest = rest[1:]
    return (
        bool(scripts)
        and all(map(_SED_SCRIPT.fullmatch, scripts))
        and not any(word.startswith("-") and word != "-" for word in rest)
    )


_AWK_RISKS = re.compile(
    r"system|getline|[|>@`]|ENVIRON|ARG|TAB|PROCINFO|fflush|close|FILENAME\s*=|function|include|load|extension"
)


def _awk(words: Sequence[str]) -> bool:
    """Return whether the programs only print columns and count. They may name no file and no command."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option == "-F" and rest:
            rest.pop(0)
        elif not option.startswith("-F") or len(option) > 12:
            return False
    return (
        bool(rest)
        and _AWK_RISKS.search(rest[0]) is None
        and not any("=" in word or word.startswith("-") for word in rest[1:])
    )


_DURATION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?[smhd]?")


def _bracket(words: Sequence[str]) -> bool:
    return words[-1:] == ["]"] and _test(words[:-1])


def _cd(words: Sequence[str]) -> bool:
    return len(words) == 1 and not words[0].startswith(("-", "+"))


def _command(words: Sequence[str]) -> bool:
    return words[:1] in (["-v"], ["-V"])


def _ps(words: Sequence[str]) -> bool:
    """Return False for `e`, which shows the environment of processes, and for unknown options."""
    return all(re.fullmatch(r"[auxfwj]+|-[AaefFlj]+|--forest|--sort=[-+%\w,]+", word) for word in words)


def _printf(words: Sequence[str]) -> bool:
    """Return False for `-v` and `%n`: they set variables, and the name of a variable may contain a
    command.
    """
    return bool(words) and not words[0].startswith("-") and "%" not in _CONVERSION.sub("", words[0])


def _test(words: Sequence[str]) -> bool:
    """Return False for `-v` and subscripts: the name of a variable may contain a command."""
    return not any("[" in word for word in words) and all(
        not word.startswith("-") or word in _TESTS or word[1:].isdecimal() for word in words
    )


def _date(words: Sequence[str]) -> bool:
    """Return False for an operand that is not a format, because it sets the clock."""
    try:
        arguments = read_arguments(PROGRAMS["date"], words)
    except UnknownOption:
        return False
    return all(word.startswith("+") for word in arguments.operands)


_BY_HAND: dict[str, Callable[[Sequence[str]], bool]] = {
    "git": _git,
    "printf": _printf,
    "test": _test,
    "[": _bracket,
    "date": _date,
    "cd": _cd,
    "sed": _is_read_only_sed,
    "awk": _awk,
    "command": _command,
    "ps": _ps,
    "hostname": lambda words: not words,
    "sleep": lambda words: bool(words) and all(map(_DURATION.fullmatch, words)),
}
