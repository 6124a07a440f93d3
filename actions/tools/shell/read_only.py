"""Proves of a command line that it only reads, so that running it twice means nothing.

What is not known to be harmless is not proved: programs, subcommands and options have to be in the tables.
"""

import re
from collections.abc import Callable, Sequence

from .parser import READS_A_FILE, ShellReader, SimpleCommand

_MAX_CHARS = 20_000

_HARMLESS = frozenset((
    "ls", "cat", "head", "wc", "grep", "egrep", "fgrep", "pwd", "echo", "stat", "du", "which", "type",
    "uname", "whoami", "id", "cut", "tr", "cmp", "basename", "dirname", "realpath", "readlink", "nl", "tac",
    "rev", "md5sum", "sha256sum", "true", "false", "sha1sum", "sha512sum", "b2sum", "cksum", "sum", "comm",
    "paste", "join", "expand", "unexpand", "fold", "seq", "expr", "nproc", "arch", "tty", "groups", "logname",
    "od", "fmt", "factor", "numfmt", "pathchk", ":", "uptime",
))  # fmt: skip
"""None of their options writes, runs something or waits for ever."""

_HISTORY = (
    "-abceilmnpqrstwzCDLMRSUG --oneline --graph --all --stat --shortstat --numstat --dirstat --summary"
    " --name-only --name-status --patch --no-patch --cached --staged --format --pretty --decorate"
    " --no-decorate --abbrev --abbrev-commit --author --grep --since --until --after --before --follow"
    "--merges --no-merges --first-parent --reverse --color --no-color --word-diff --max-count --skip"
    " --date"
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
        "-lname -type -xtype -size -empty -perm -user -group -uid -gid -links -inum -samefile -newer"
        " -anewer"
        " -cnewer -newermt -mtime -atime -ctime -mmin -amin -cmin -maxdepth -mindepth -depth -mount -xdev"
        " -prune -print -print0 -printf -ls -quit -true -false -readable -writable -executable -follow"
        " -daystart -noleaf -nouser -nogroup"
    ),
    "file": "-bihkLNrn0 --brief --mime --mime-type --mime-encoding --dereference",
    "df": "-ahHiklmPTtx --all --human-readable --inodes --local --portability --total --print-type",
    "tree": "-adfilshpugDFLPIACNJ --noreport --dirsfirst --du --gitignore --filelimit",
    "sort": (
        "-bdfghinMRrVcCmsuzkt., --reverse --unique --numeric-sort --key --field-separator --version-sort"
    ),
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
    "git tag": "-ln --list --sort --format --contains --merged --no-merged --points-at --column --color",
    "git grep": (
        "-aiIwvhHlLnzcpWEFGPABCefqro --cached --untracked --no-index --text --ignore-case --word-regexp"
        " --invert-match --full-name --extended-regexp --basic-regexp --fixed-strings --perl-regexp"
        " --line-number --column --files-with-matches --files-without-match --name-only --count"
        " --color --break --heading --show-function --function-context --context"
        "--after-context --before-context --and --or --not --quiet --only-matching --max-depth"
        " --no-color --max-count"
    ),
    "git ls-tree": "-drtlz --name-only --name-status --long --full-name --full-tree --abbrev --object-only",
    "git cat-file": "-tspe --batch-check",
    "git rev-list": (
        "-n --count --all --max-count --since --until --after --before --author --grep --merges --no-merges"
        " --first-parent --reverse --objects --left-right --left-only --right-only --branches --tags"
        " --remotes --oneline --parents --children --topo-order --date-order"
    ),
    "git merge-base": "-a --all --is-ancestor --octopus --independent --fork-point",
    "git name-rev": "- --name-only --tags --refs --always --all",
    "git shortlog": "-nsec --numbered --summary --email --since --until --after --before --no-merges",
    "git for-each-ref": "- --count --sort --format --contains --merged --no-merged --points-at",
    "git show-ref": "-dsq --head --heads --tags --dereference --hash --verify --quiet --abbrev",
    "git count-objects": "-vH --verbose --human-readable",
    "git check-ignore": "-vqn --verbose --quiet --no-index --non-matching",
    "git symbolic-ref": "-q --short --quiet",
    "git remote": "-v --verbose",
    "git stash": _HISTORY,
    "git reflog": _HISTORY,
    "git worktree": "-v --porcelain --verbose",
    "git diff-tree": _HISTORY,
    "git whatchanged": _HISTORY,
    "column": "-tsnoxcNRJ --table --separator --output-separator --columns --fillrows",
    "xxd": "-cglspubieEa",
    "hexdump": "-bcCdnosvx",
    "free": "-bkmghtwlv --human --mega --giga --total --wide",
    "lsblk": "-abdfilmnoprtS --all --bytes --fs --json --list --output --paths",
    "git branch": "-arv --all --remotes --list --verbose --show-current --sort --format --color --no-color",
}
"""Letters of short options, with the characters of attached values besides digits; then whole options."""

_MOST_OPERANDS = {
    "uniq": 1, "git branch": 0, "git tag": 0, "git symbolic-ref": 1, "git remote": 0, "xxd": 1,
    "git stash": 0, "git reflog": 0, "git worktree": 0, "lsblk": 0,
}  # fmt: skip
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
    return bool(proved_commands(command))


def proved_commands(command: str) -> Sequence[SimpleCommand]:
    """Return the commands of a line that surely changes nothing; none if it may change something."""
    if len(command) > _MAX_CHARS:
        return ()
    reader = ShellReader(command)
    reader.read()
    reader.doubts.pop(READS_A_FILE, None)
    return () if reader.doubts or not all(map(_only_reads, reader.commands)) else reader.commands


def _only_reads(command: SimpleCommand) -> bool:
    program, *words = command.words
    read = [redirection.target for redirection in command.redirections if redirection.target != "/dev/null"]
    if any(_SPECIAL_FILE.search(word) for word in (*words, *(f" {target}" for target in read))):
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
    words = list(words)
    while words[:1] in (["--no-pager"], ["-C"]):
        del words[: 1 if words[0] == "--no-pager" else 2]
    # With %G in a format, or `signature`, a program is run to check signatures.
    if not words or any("%G" in word or "signature" in word for word in words):
        return False
    subcommand, rest = words[0], words[1:]
    if (subcommand, *rest[:1]) in _WITH_A_WORD:
        rest = rest[1:]
    elif subcommand in ("stash", "worktree"):
        return False
    if subcommand == "tag" and ({"-l", "--list", "--contains", "--points-at"} & set(rest)):
        return _has_options("git tag", rest)
    if subcommand == "branch" and ({"--list", "--contains", "--merged", "--no-merged"} & set(rest)):
        return _has_options("git branch", rest)
    return _fits(f"git {subcommand}", rest)


_WITH_A_WORD = (("stash", "list"), ("worktree", "list"), ("reflog", "show"))


def _has_options(program: str, words: Sequence[str]) -> bool:
    letters, *names = _OPTIONS[program].split(" ")
    names += ["--contains", "--merged", "--no-merged"]
    asked = [word for word in words if word.startswith("-")]
    return all(word.partition("=")[0] in names or _has_only(letters[1:], word) for word in asked)


_SED_SCRIPT = re.compile(
    r"(?:(?:\d+|\$|/[^/\n;]*/)(?:,(?:\d+|\$|\+\d+|/[^/\n;]*/))?\s*[pd=q]\s*;?\s*)+"
    r"|s([/|#,])(?:(?!\1)[^\n;\\{}]|\\[^\n\\])*\1(?:(?!\1)[^\n;\\{}]|\\[^\n\\])*\1[gpiI\d]*"
)


def _sed(words: Sequence[str]) -> bool:
    """Say yes to scripts that print, drop and replace lines, and to nothing that writes or runs."""
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
    r"system|getline|[|>@`]|ENVIRON|ARG|TAB|PROCINFO|fflush|close|FILENAME\s*=|function|include|load"
)


def _awk(words: Sequence[str]) -> bool:
    """Say yes to programs that print columns and count; they may name no file and no command."""
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


def _bracket(words: Sequence[str]) -> bool:
    return words[-1:] == ["]"] and _test(words[:-1])


def _cd(words: Sequence[str]) -> bool:
    return len(words) == 1 and not words[0].startswith(("-", "+"))


def _command(words: Sequence[str]) -> bool:
    return words[:1] in (["-v"], ["-V"])


def _ps(words: Sequence[str]) -> bool:
    """Say no to the `e` that shows what processes have in their environment."""
    return all(re.fullmatch(r"[auxfwj]+|-[AaefFlj]+|--forest|--sort=[-+%\w,]+", word) for word in words)


def _only_version(words: Sequence[str]) -> bool:
    return list(words) in (["--version"], ["-V"])


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
    "[": _bracket,
    "date": _date,
    "cd": _cd,
    "sed": _sed,
    "awk": _awk,
    "command": _command,
    "python": _only_version,
    "python3": _only_version,
    "pip": _only_version,
    "gcc": _only_version,
    "cmake": _only_version,
    "docker": _only_version,
    "make": lambda words: list(words) == ["--version"],
    "bash": lambda words: list(words) == ["--version"],
    "node": lambda words: list(words) in (["--version"], ["-v"]),
    "npm": lambda words: list(words) in (["--version"], ["-v"]),
    "ps": _ps,
    "hostname": lambda words: not words,
}
