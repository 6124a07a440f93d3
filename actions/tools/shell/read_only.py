"""Proves of a command line that it only reads, so that running it twice means nothing.

What is not known to be harmless is not proved: programs, subcommands and options have to be in the tables.
"""

import re
from collections.abc import Callable, Sequence

from .parser import ShellReader, SimpleCommand

_MAX_CHARS = 20_000

_HARMLESS = frozenset((
    "ls", "cat", "head", "wc", "grep", "egrep", "fgrep", "pwd", "echo", "stat", "du", "which", "type",
    "uname", "whoami", "id", "cut", "tr", "cmp", "basename", "dirname", "realpath", "readlink", "nl", "tac",
    "rev", "md5sum", "sha256sum", "true", "false",
))  # fmt: skip
"""None of their options writes, runs something or waits for ever."""

_HISTORY = (
    "-abceilmnpqrstwzCDLMRSUG --oneline --graph --all --stat --shortstat --numstat --dirstat --summary"
    " --name-only --name-status --patch --no-patch --cached --staged --format --pretty --decorate"
    " --no-decorate --abbrev --abbrev-commit --author --grep --since --until --after --before --follow"
    " --merges --no-merges --first-parent --reverse --color --no-color --word-diff --max-count --skip --date"
    " --diff-filter --unified --minimal --patience --histogram --find-renames --no-renames --raw --quiet"
    " --ignore-space-change --ignore-all-space --ignore-blank-lines --exit-code --check --no-ext-diff"
    " --no-textconv --branches --tags --remotes --no-index --porcelain --line-porcelain --merge-base"
)
_OPTIONS = {
    "tail": "-cnqvz+ --bytes --lines --quiet --silent --verbose",
    "rg": (
        "-abceghilmnopqstuvwxABCEFHILMNPSTUV --after-context --before-context --context --count --color"
        " --files --files-with-matches --files-without-match --fixed-strings --glob --iglob --heading"
        " --no-heading --hidden --ignore-case --invert-match --line-number --no-line-number --max-count"
        " --max-depth --multiline --with-filename --no-filename --no-ignore --no-messages --only-matching"
        " --pcre2 --quiet --regexp --smart-case --sort --stats --type --type-not --vimgrep --word-regexp"
    ),
    "find": (
        "- -H -L -P -a -o -not -and -or -name -iname -path -ipath -wholename -regex -iregex -regextype"
        " -lname -type -xtype -size -empty -perm -user -group -uid -gid -links -inum -samefile -newer -anewer"
        " -cnewer -newermt -mtime -atime -ctime -mmin -amin -cmin -maxdepth -mindepth -depth -mount -xdev"
        " -prune -print -print0 -printf -ls -quit -true -false -readable -writable -executable -follow"
        " -daystart -noleaf -nouser -nogroup"
    ),
    "file": "-bihkLNrn0 --brief --mime --mime-type --mime-encoding --dereference",
    "df": "-ahHiklmPTtx --all --human-readable --inodes --local --portability --total --print-type",
    "tree": "-adfilshpugDFLPIACNJ --noreport --dirsfirst --du --gitignore --filelimit",
    "sort": "-bdfghinMRrVcCmsuzkt., --reverse --unique --numeric-sort --key --field-separator --version-sort",
    "uniq": "-cdDuizfsw --count --repeated --unique --ignore-case",
    "diff": "-abBcdeEiNnpqrstTuwxyU --brief --unified --recursive --color --side-by-side --exclude",
    "jq": (
        "-nrcaMCeSsjR --raw-output --raw-input --compact-output --slurp --arg --argjson --null-input"
        " --exit-status --sort-keys --tab --indent"
    ),
    "git log": _HISTORY,
    "git show": _HISTORY,
    "git diff": _HISTORY,
    "git blame": _HISTORY,
    "git status": "-sbvuznoal --short --branch --porcelain --long --ignored --untracked-files --no-renames",
    "git rev-parse": "- --show-toplevel --abbrev-ref --short --verify --git-dir --quiet",
    "git ls-files": "-cdmosuvzt --others --cached --modified --deleted --stage --exclude-standard",
    "git describe": "- --tags --all --always --dirty --long --abbrev --match --exact-match --contains",
    "git branch": "-arv --all --remotes --list --verbose --show-current --sort --format --color --no-color",
}
"""Letters of short options, with the characters of attached values besides digits; then whole options."""

_MOST_OPERANDS = {"uniq": 1, "git branch": 0}
"""One more is a file to write, or a branch to make."""

_SPECIAL_FILE = re.compile(r"(?:(?<![\w~*?\]])|^-.*)/[./]*(?:dev|proc|sys)(?:/|$)|^/[\w./]*[*?\[]")
"""Reading such a file may do something: a watchdog, a terminal, the kernel's log. Or what may be one."""
_CONVERSION = re.compile(r"%[-+ #0]*[0-9]*(?:\.[0-9]+)?[sdiuoxXcbqeEfFgG]|%%")
_TESTS = frozenset((
    "-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-p", "-S", "-b", "-c", "-u", "-g", "-k", "-O",
    "-G", "-z", "-n", "-nt", "-ot", "-ef", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-a",
))  # fmt: skip


def is_read_only(command: str) -> bool:
    """Tell whether the command line surely changes nothing, but for what programs note for themselves."""
    if len(command) > _MAX_CHARS:
        return False
    reader = ShellReader(command)
    reader.read()
    return bool(reader.commands) and not reader.doubts and all(map(_only_reads, reader.commands))


def _only_reads(command: SimpleCommand) -> bool:
    program, *words = command.words
    if any(_SPECIAL_FILE.search(word) for word in words):
        return False
    if program in _HARMLESS:
        return True
    # A file name pattern may stand for a name that looks like an option, or for one operand too many.
    if command.expands and any(character in word for word in words for character in "*?["):
        return False
    judge = _BY_HAND.get(program)
    return judge(words) if judge is not None else _fits(program, words)


def _fits(program: str, words: Sequence[str]) -> bool:
    """Tell whether all options are in the table."""
    options = _OPTIONS.get(program)
    if options is None or ("--" in words and program in _MOST_OPERANDS):
        return False
    letters, *names = options.split(" ")
    asked = [word for word in words if word.startswith("-") and word not in ("-", "--")]
    operands = sum(not word.startswith("-") or word == "-" for word in words)
    return operands <= _MOST_OPERANDS.get(program, operands) and all(
        word.partition("=")[0] in names or _has_only(letters[1:], word) for word in asked
    )


def _has_only(letters: str, option: str) -> bool:
    return not option.startswith("--") and all(char in letters or char.isdecimal() for char in option[1:])


def _git(words: Sequence[str]) -> bool:
    if words[:1] == ["--no-pager"]:
        words = words[1:]
    # With %G in a format, a program is run to check signatures.
    return bool(words) and not any("%G" in word for word in words) and _fits(f"git {words[0]}", words[1:])


def _printf(words: Sequence[str]) -> bool:
    """Say no to `-v` and `%n`: they set variables, and the name of a variable may hold a command."""
    return bool(words) and not words[0].startswith("-") and "%" not in _CONVERSION.sub("", words[0])


def _test(words: Sequence[str]) -> bool:
    """Say no to `-v`, for the same reason."""
    return all(not word.startswith("-") or word in _TESTS or word[1:].isdecimal() for word in words)


def _date(words: Sequence[str]) -> bool:
    """Say no to an operand that is no format: it sets the clock."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in ("-d", "--date", "-r", "--reference"):
            del rest[:1]
        elif word not in ("-u", "--utc", "-R", "-I") and not word.startswith(("+", "--date=", "--iso-8601")):
            return False
    return True


_BY_HAND: dict[str, Callable[[Sequence[str]], bool]] = {
    "git": _git,
    "printf": _printf,
    "test": _test,
    "date": _date,
}
