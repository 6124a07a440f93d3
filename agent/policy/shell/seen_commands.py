"""Finds all commands that a shell text runs, and the reasons why there may be others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from posixpath import basename

from ....actions.tools.shell.language.parser import Redirection, ShellReader, SimpleCommand
from ....state.lazy_dataclass import dataclass
from .inner_commands.given_texts import find_commands_in_input, find_given_texts, git_subcommand_at
from .inner_commands.sed_scripts import sed_may_run
from .inner_commands.variables import find_text_of_variable, makes_programs_run
from .inner_commands.wrappers import find_wrapped_commands

MAX_CHARS = 131_072
"""The most characters that are analysed: Linux refuses longer single arguments, so no longer text reaches `sh
-c`."""
MADE_TEXT = "a shell or interpreter is given a text that something else makes"
MADE_NAME = "the shell makes the name of a program"
GIVEN_PROGRAM = "an interpreter is given a program of its own"
TOO_DEEP = "it is too long or too deeply nested to be looked through"
_NEW_NAME = "it gives a command another name"

_MAX_DEPTH = 6
_MAX_COMMANDS = 3000
_MAX_WRAPPED = 30

_GIVE_NAMES = frozenset(("xargs", "parallel", "find", "gfind", "fd", "fdfind", "bfs", "entr", "watchexec"))
SHELLS = frozenset(
    ("ash", "bash", "dash", "fish", "ksh", "mksh", "rbash", "sh", "yash", "zsh", "csh", "tcsh")
)
INTERPRETER = re.compile(
    r"(?:python|pypy|perl|ruby|php|lua|luajit|node|nodejs|deno|bun|osascript|tclsh|Rscript|pwsh|groovy|scala"
    r"|ipython|guile|racket|julia|elixir|irb|R|octave|gnuplot|clojure|ghc|erl|sbcl|emacs|emacsclient)[\d.]*"
)
_PROGRAM_OPTIONS = re.compile(
    r"-(?:[a-zA-Z]*[ceErRpi]|-eval|-print|-execute|-command|exec)(?:=.*)?|eval|-[eE].+"
)
_TEXT_IS_DATA = frozenset(("at", "batch", "crontab", "ed", "ex"))
_AWK_RUNS = re.compile(r"system|\||@\s*[A-Za-z_]\w*\s*\(")
_MAKE_RUNS = re.compile(
    r"-{1,2}e(?:v(?:al?)?)?(?:=.*)?|-E.*|SHELL=.*|-f-|-|.*\$[({]shell\s.*|.*!=.*", re.DOTALL
)
_GIT_SETTING = re.compile(
    r"(?i)(?:user|author|committer|color|advice|init|push|pull|fetch|log|status|index|pack|http|i18n|rebase|branch"
    r"|feature|rerere|column|versionsort|safe|clone|checkout|submodule|gc|maintenance|transfer)\..*"
    r"|core\.(?:autocrlf|quotepath|eol|filemode|longpaths|safecrlf|ignorecase|abbrev|bare|compression)"
    r"|(?:commit|tag)\.gpgsign|merge\.(?:ff|conflictstyle|renamelimit)|diff\.(?:renames|algorithm|context|colormoved)"
    r"|protocol\.version"
)
"""The keys of git's configuration that name no program."""
_SETS_VARIABLES = frozenset((
    "env", "export", "declare", "typeset", "local", "readonly", "sudo", "doas", "make", "gmake", "cross-env",
    "env-cmd",
))  # fmt: skip
_VALUED_BEFORE_CODE = frozenset(("-X", "-W", "-I", "-d", "-r", "-C", "--require", "--import", "--loader"))
_RUNS_ARGUMENTS = frozenset(("timeit", "pdb", "code"))
"""Modules of Python that run the code among their arguments, or from their input."""
_EDITOR_RUNS = re.compile(r"^(?:\+|-c|--cmd|-es).*")


@dataclass(frozen=True, slots=True)
class SeenCommand:
    words: tuple[str, ...]
    computed: tuple[bool, ...]
    source: str = ""
    """The source text of the command; empty for a command that another one wraps."""
    redirections: tuple[Redirection, ...] = ()
    reads_pipe: bool = False
    fed: str = ""
    """The placeholder for an argument that is not in the text: `{}` of `xargs` and `find`."""
    is_given_names: bool = False
    """Whether a program such as `xargs` adds operands that are not in the text."""

    @property
    def program(self) -> str:
        return basename(self.words[0])

    def rest(self, start: int, fed: str = "") -> SeenCommand:
        """Return the command that begins at a word of this one, with the same redirections."""
        return replace(
            self,
            words=self.words[start:],
            computed=self.computed[start:],
            source="",
            fed=fed or self.fed,
            is_given_names=self.is_given_names or self.program in _GIVE_NAMES,
        )


@dataclass(slots=True)
class Sight:
    """The result of the analysis of a shell text."""

    commands: list[SeenCommand] = field(default_factory=list[SeenCommand])
    doubts: dict[str, None] = field(default_factory=dict[str, None])
    """Reasons why the text may run other commands than `commands` lists. The values are unused."""
    assigned: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The variables that the text sets in front of commands, with their values."""
    is_sequence: bool = False
    """Whether each command of the line runs only if all commands before it succeeded."""


def look(text: str) -> Sight:
    """Analyse a shell text, and all shell text inside it, down to the programs that run."""
    sight = Sight()
    _look_into(text, 0, sight)
    return sight


def _look_into(text: str, depth: int, sight: Sight) -> None:
    if depth > _MAX_DEPTH or len(text) > MAX_CHARS or len(sight.commands) > _MAX_COMMANDS:
        sight.doubts[TOO_DEEP] = None
        return
    reader = ShellReader(text)
    reader.read()
    sight.assigned += reader.assigned
    for name, value in reader.assigned:
        for nested in _text_of_variable(name, value, sight):
            _look_into(nested, depth + 1, sight)
    if not depth:
        is_plain = not any(part.control or part.bracket for part in reader.parts)
        sight.is_sequence = is_plain and all(one.joint in ("", "&&") for one in reader.commands)
    for command in reader.commands:
        for nested in _inspect(command, sight):
            _look_into(nested, depth + 1, sight)


def _inspect(command: SimpleCommand, sight: Sight) -> Iterator[str]:
    """Record the command and all commands that it wraps; yield the shell texts among their arguments."""
    first = SeenCommand(
        command.words, command.computed, command.source, command.redirections, command.reads_pipe
    )
    waiting = [first, *_expand_braces(first)]
    for count, seen in enumerate(waiting):
        if count > _MAX_WRAPPED or len(sight.commands) > _MAX_COMMANDS:
            sight.doubts[TOO_DEEP] = None
            return
        sight.commands.append(seen)
        if seen.computed[0] or (seen.fed and seen.fed in seen.words[0]):
            sight.doubts[MADE_NAME] = None
        starts = list(find_wrapped_commands(seen.words))
        waiting.extend(seen.rest(start, _xargs_placeholder(seen)) for start in starts)
        if seen.program == "xargs" and any(_needs_more(seen.rest(start)) for start in starts):
            sight.doubts[MADE_NAME] = None
        yield from _texts(seen, sight)


def _expand_braces(seen: SeenCommand) -> list[SeenCommand]:
    """Return the command that a word such as `{rm,-r,x}` expands to."""
    name = seen.words[0]
    if not (name.startswith("{") and name.endswith("}") and "," in name):
        return []
    words = (*name[1:-1].split(","), *seen.words[1:])
    return [SeenCommand(words, (True,) * len(words))] if words[0] else []


def _xargs_placeholder(seen: SeenCommand) -> str:
    if seen.program == "xargs":
        for at, word in enumerate(seen.words):
            if word.startswith("-I"):
                return word[2:] or " ".join(seen.words[at + 1 : at + 2]) or "{}"
    return "{}"


def _needs_more(seen: SeenCommand) -> bool:
    """Return whether the first argument that `xargs` adds would be a program or code."""
    if seen.program in SHELLS:
        return "-c" in seen.words[-1] or len(seen.words) == 1
    return seen.words[-1] == seen.words[0] and (
        seen.program in ("env", "sudo", "nice", "nohup", "command", "time")
    )


def _texts(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    program = seen.program
    if program in SHELLS:
        yield from _shell_texts(seen, sight)
    elif program in _BY_PROGRAM:
        yield from _BY_PROGRAM[program](seen, sight)
    elif INTERPRETER.fullmatch(program):
        _interpret(seen, sight)
    if program in _TEXT_IS_DATA:
        yield from _list_piped_texts(seen, sight)
    for text, at in find_given_texts(seen.words):
        yield from _text_of(seen, at, sight, text)
    for redirection in seen.redirections:
        yield from find_commands_in_input(program, redirection.text)
    if program in _SETS_VARIABLES:
        for name, equals, value in (word.partition("=") for word in seen.words[1:]):
            yield from _text_of_variable(name, value, sight) if equals else ()


def _text_of_variable(name: str, value: str, sight: Sight) -> Iterator[str]:
    if makes_programs_run(name, value):
        sight.doubts[f"the variable {name} makes programs run others"] = None
    if (text := find_text_of_variable(name, value)) is not None:
        yield text


def _shell_texts(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    """Yield the text after `-c`, or standard input if the shell has no other source of commands."""
    options = [at for at, word in enumerate(seen.words) if at and word.startswith(("-", "+")) and word != "-"]
    at = next((at for at in options if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", seen.words[at])), None)
    if at is not None:
        at += 1
        while at < len(seen.words) and seen.words[at].startswith(("-", "+")):
            at += 2 if seen.words[at] in ("-o", "+o", "-O", "+O") else 1
        if at < len(seen.words):
            yield from _text_of(seen, at, sight)
        return
    operands = [at for at in range(1, len(seen.words)) if at not in options]
    if any(
        seen.words[at].startswith("-") and "s" in seen.words[at]
        for at in options
        if seen.words[at][:2] != "--"
    ):
        operands = []
    if (
        operands
        and seen.words[operands[0]] not in ("-", "/dev/stdin")
        and not seen.words[operands[0]].startswith(("/dev/fd/", "/proc/self/fd/"))
    ):
        if seen.computed[operands[0]]:
            sight.doubts[MADE_TEXT] = None
        return
    if operands and seen.words[operands[0]].startswith("/"):
        sight.doubts[MADE_TEXT] = None
    yield from _list_piped_texts(seen, sight)


def _list_piped_texts(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    """Add a doubt about text from standard input, and yield the known parts of that text."""
    for redirection in seen.redirections:
        if redirection.operator in ("<<", "<<-", "<<<"):
            if redirection.is_computed:
                sight.doubts[MADE_TEXT] = None
            else:
                sight.doubts["a shell is given a here-document"] = None
            yield redirection.text
        elif redirection.operator in ("<", "<>", "<&") and redirection.target != "/dev/null":
            sight.doubts[MADE_TEXT] = None
    if seen.reads_pipe:
        sight.doubts[MADE_TEXT] = None


def _text_of(seen: SeenCommand, at: int, sight: Sight, part: str | None = None) -> Iterator[str]:
    """Yield a word, or a part of it, as a text that is run."""
    if at >= len(seen.words):
        return
    text = seen.words[at] if part is None else part
    if seen.computed[at] or (seen.fed and seen.fed in text):
        sight.doubts[MADE_TEXT] = None
    yield text


def _eval(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    if any(seen.computed[1:]):
        sight.doubts[MADE_TEXT] = None
    yield " ".join(seen.words[1:])


def _source(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    sight.doubts[MADE_TEXT if any(seen.computed[1:]) else "it runs the text of a file in this shell"] = None
    yield from _list_piped_texts(seen, sight)


def _exec(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    """Add a doubt if later commands of the line read another standard input."""
    if len(seen.words) == 1:
        yield from _list_piped_texts(seen, sight)


def _alias(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    for word in seen.words[1:]:
        if "=" in word:
            sight.doubts[_NEW_NAME] = None
            yield word.partition("=")[2]


def _first_argument(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    at = next((at for at in range(1, len(seen.words)) if not seen.words[at].startswith("-")), None)
    if at is not None:
        yield from _text_of(seen, at, sight)


def _after_c(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    """Yield the value of `-c` and `--command`."""
    for at, word in enumerate(seen.words[1:], 1):
        if word in ("-c", "--command", "-lc", "--session-command") and at + 1 < len(seen.words):
            yield from _text_of(seen, at + 1, sight)
        elif word.startswith(("--command=", "--session-command=")):
            yield word.partition("=")[2]


def _split_string(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    """Yield the command in a text such as `env -S 'rm x'`."""
    for at, word in enumerate(seen.words[1:], 1):
        if re.fullmatch(r"-[iv0]*S|--s(?:p[a-z-]*)?", word):
            yield " ".join(seen.words[at + 1 :])
        elif found := re.match(r"(?:-[iv0]*S|--s[a-z-]*=)(.+)", word, re.DOTALL):
            yield " ".join((found[1], *seen.words[at + 1 :]))


def _remote(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    """Yield the command that `ssh` runs on the other machine."""
    at, valued = 1, "BbcDEeFIiJLlmOopQRSWw"
    while at < len(seen.words) and seen.words[at].startswith("-"):
        at += 2 if seen.words[at][-1] in valued else 1
    rest = seen.words[at + 1 :]
    if rest:
        if any(seen.computed[at + 1 :]):
            sight.doubts[MADE_TEXT] = None
        yield " ".join(rest)
    else:
        yield from _list_piped_texts(seen, sight)


def _as_other(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    """Yield the standard input of another user's shell, unless a command is given."""
    yield from _after_c(seen, sight)
    if not {"-c", "--command", "--session-command"} & set(seen.words) and not list(
        find_wrapped_commands(seen.words)
    ):
        yield from _list_piped_texts(seen, sight)


def _watch(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    for start in find_wrapped_commands(seen.words):
        yield " ".join(seen.words[start:])


def _each_word(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    yield from (word for word in seen.words[1:] if not word.startswith("-"))


def _parallel(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    sight.doubts[MADE_TEXT] = None
    yield from (word for word in seen.words[1:] if not word.startswith("-"))
    yield " ".join(word for word in seen.words[1:] if not word.startswith("-"))


def _git(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    """Yield the commands that `git` runs: a temporary alias, or a command per commit or module."""
    words = seen.words
    for at, word in enumerate(words[1:], 1):
        before = words[at - 1]
        if "=!" in word:
            yield word.partition("=!")[2]
        elif before in ("-x", "--exec") and "rebase" in words:
            yield from _text_of(seen, at, sight)
        elif word.startswith("--exec=") and "rebase" in words:
            yield word[7:]
        elif before in _FILTERS and "filter-branch" in words:
            yield from _text_of(seen, at, sight)
        elif re.match(r"alias\.\w+$", before) and word.startswith("!"):
            yield word[1:]
        elif word == "foreach" and "submodule" in words:
            yield " ".join(one for one in words[at + 1 :] if not one.startswith("--"))
        elif (
            (before == "-c" and not _GIT_SETTING.match(word) and "." in word.partition("=")[0])
            or word.startswith(("--config-env", "--exec-path="))
            or before == "--exec-path"
        ):
            sight.doubts[GIVEN_PROGRAM] = None
    yield from _git_settings(words[git_subcommand_at(words) :])


def _git_settings(words: Sequence[str]) -> Iterator[str]:
    """Yield the values that `git config` gives to keys that may name a program."""
    if words[:1] == ("config",):
        for key, value in pairwise(words[1:]):
            if re.match(r"[A-Za-z][\w.-]*\.", key) and not _GIT_SETTING.match(key):
                yield value.removeprefix("!")


_FILTERS = ("--tree-filter", "--index-filter", "--msg-filter", "--env-filter", "--commit-filter")


def _interpret(seen: SeenCommand, sight: Sight) -> None:
    """Add a doubt if an interpreter gets its program from its arguments or its input."""
    words = seen.words[1:]
    if any(pair[0] == "-m" and pair[1] in _RUNS_ARGUMENTS for pair in pairwise(words)):
        sight.doubts[GIVEN_PROGRAM] = None
    for at, word in enumerate(words):
        if _PROGRAM_OPTIONS.fullmatch(word):
            sight.doubts[MADE_TEXT if any(seen.computed[at + 1 :]) else GIVEN_PROGRAM] = None
            return
        if at and words[at - 1] in _VALUED_BEFORE_CODE:
            continue
        if word == "-m" or (not word.startswith("-") and word != "/dev/stdin"):
            if seen.computed[at + 1] and word.startswith("/dev/fd/"):
                sight.doubts[MADE_TEXT] = None
            return
    _interpret_input(seen, sight)


def _interpret_input(seen: SeenCommand, sight: Sight) -> None:
    if "-" in seen.words[1:]:
        sight.doubts[MADE_TEXT] = None
    for redirection in seen.redirections:
        if redirection.operator.startswith("<") and redirection.target != "/dev/null":
            sight.doubts[GIVEN_PROGRAM] = None
    if seen.reads_pipe:
        sight.doubts[MADE_TEXT] = None


_Reader = Callable[[SeenCommand, Sight], Iterator[str]]


def _doubt_if(test: Callable[[str], object], doubt: str) -> _Reader:
    """Return a reader that yields no text. It adds the doubt if `test` holds for an argument."""

    def note(seen: SeenCommand, sight: Sight) -> Iterator[str]:
        if any(map(test, seen.words[1:])):
            sight.doubts[doubt] = None
        return iter(())

    return note


def _sed(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    if sed_may_run(seen.words):
        sight.doubts[GIVEN_PROGRAM] = None
    return _read_scripts_from_input(seen, sight)


def _awk(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    if any(map(_AWK_RUNS.search, seen.words[1:])):
        sight.doubts[GIVEN_PROGRAM] = None
    return _read_scripts_from_input(seen, sight)


def _read_scripts_from_input(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    if any(re.fullmatch(r"(?:-\w*f|--file=)?(?:-|/dev/stdin)", word) for word in seen.words[1:]):
        sight.doubts[MADE_TEXT] = None
    return iter(())


def _terminal_database(seen: SeenCommand, sight: Sight) -> Iterator[str]:
    if any(re.search(r"(?i)\bprogram\s*'|\bedit\s*\(", word) for word in seen.words[1:]):
        sight.doubts[GIVEN_PROGRAM] = None
    return iter(())


_editor = _doubt_if(_EDITOR_RUNS.match, GIVEN_PROGRAM)
_make = _doubt_if(lambda word: _MAKE_RUNS.fullmatch(word) or word == "/dev/stdin", MADE_TEXT)
_given = _doubt_if(
    re.compile(r"-[a-z]*c.*|-f|-x|-ex|-iex|--(?:init-)?(?:eval-)?command.*").fullmatch, GIVEN_PROGRAM
)

_BY_PROGRAM: Mapping[str, _Reader] = {
    "eval": _eval,
    "exec": _exec,
    "source": _source,
    ".": _source,
    "alias": _alias,
    "hash": _doubt_if(lambda word: word == "-p", _NEW_NAME),
    "trap": _first_argument,
    "su": _as_other,
    "sudo": _as_other,
    "doas": _as_other,
    "runuser": _as_other,
    "script": _after_c,
    "flock": _after_c,
    "npx": _after_c,
    "env": _split_string,
    "ssh": _remote,
    "watch": _watch,
    "parallel": _parallel,
    "hyperfine": _each_word,
    "concurrently": _each_word,
    "pee": _each_word,
    "sem": _parallel,
    "sed": _sed,
    "gsed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "nawk": _awk,
    "git": _git,
    "vim": _editor,
    "vi": _editor,
    "nvim": _editor,
    "ex": _editor,
    "gdb": _given,
    "make": _make,
    "gmake": _make,
    "expect": _given,
    "xonsh": _given,
    "nu": _given,
    "elvish": _given,
    "execlineb": _given,
    "psql": _terminal_database,
    "sqlite3": _terminal_database,
}
