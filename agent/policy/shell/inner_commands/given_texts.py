"""Finds the texts among the arguments of a command that its program runs, such as that of `rsync -e TEXT`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import basename
from typing import NamedTuple


class GivenText(NamedTuple):
    text: str
    at: int
    """The position of its word."""


class _Runs(NamedTuple):
    names: tuple[str, ...]
    """The long options whose value is run. An abbreviation of one with two dashes matches, too."""
    letters: str = ""
    """The short options whose value is run."""
    valued: str = ""
    """Other short options with a value, which ends a cluster."""


def _runs(names: str = "", letters: str = "", valued: str = "") -> _Runs:
    return _Runs(tuple(names.split()), letters, valued)


_GIT = (
    "--upload-pack --receive-pack --exec --extcmd --open-files-in-pager --sendmail-cmd --access-hook"
    " --browser --editor --parent-filter --setup --tag-name-filter"
)
_OPTIONS: Mapping[str, _Runs] = {
    "git": _runs(_GIT),
    "git clone": _runs(_GIT, "u", "bcojC"),
    "git difftool": _runs(_GIT, "x", "tC"),
    "git grep": _runs(_GIT, "O", "efmABC"),
    "bat": _runs("--pager"),
    "capsh": _runs("", "c"),
    "cpio": _runs("--rsh-command", "", "FIOHMCRE"),
    "diff3": _runs("--diff-program"),
    "dpkg": _runs("--pre-invoke --post-invoke"),
    "fzf": _runs("--preview"),
    "gcc": _runs("-wrapper"),
    "go": _runs("-exec -toolexec -vettool"),
    "hyperfine": _runs("--prepare --setup --cleanup --conclude --shell", "psSc"),
    "install": _runs("--strip-program"),
    "lftp": _runs("", "ce"),
    "man": _runs("--pager --html", "PH", "CRLmMSserEp"),
    "nc": _runs("--exec --sh-exec", "ec", "IiMmOPpqsTVWwXx"),
    "nodemon": _runs("--exec", "x"),
    "npm": _runs("--call --script-shell", "c"),
    "npx": _runs("--call", "c", "p"),
    "nix-shell": _runs("--run --command"),
    "pwsh": _runs("-Command -c"),
    "rg": _runs("--pre --hostname-bin"),
    "rsync": _runs("--rsh --rsync-path", "e", "fMTB"),
    "scp": _runs("", "S", "cDFiJloPX"),
    "script": _runs("--command", "c", "EImoBOTt"),
    "sdiff": _runs("--diff-program"),
    "sftp": _runs("", "S", "BbcDFiJloPRsX"),
    "sg": _runs("", "c"),
    "sort": _runs("--compress-program", "", "koStT"),
    "split": _runs("--filter"),
    "svn": _runs("--diff-cmd --diff3-cmd --editor-cmd"),
    "tar": _runs("--to-command --use-compress-program --checkpoint-action --info-script --new-volume-script"
                 " --rsh-command --rmt-command", "IF", "fCTXbgKLNVH"),
    "tcpdump": _runs("--postrotate-command", "z", "BcCdDEFGijmMrsTVwWyZ"),
    "vagrant": _runs("--command", "c"),
    "wget": _runs("--use-askpass"),
    "xterm": _runs("-e"),
    "zip": _runs("--unzip-command -TT"),
}  # fmt: skip
_SAME: Mapping[str, str] = {
    "gtar": "tar", "bsdtar": "tar", "ncat": "nc", "netcat": "nc", "batcat": "bat", "g++": "gcc", "cc": "gcc",
    "clang": "gcc", "gsort": "sort", "ripgrep": "rg", "pnpm": "npm", "yarn": "npm",
}  # fmt: skip
_SETTING = re.compile(
    r"(?is)\s*(?:(?:proxy|local|knownhosts|remote)command[\s=]+|use_askpass\s*=\s*|exec=)(.*)"
)
"""A setting whose value is run: in `ssh -o`, `wget -e` and `tar --checkpoint-action`."""
_TAKES_SETTINGS: Mapping[str, str] = {"ssh": "o", "scp": "o", "sftp": "o", "wget": "e"}
_ESCAPE = re.compile(
    r"(?is)\s*(?:[+:]?!|\\!|[+:]?\|\|?-?\$?|\.shell\s|\.system\s|system\s|shell\s|pipe\s|exec:|system:)\s*(.+)"
)
"""A command of a program's own language that runs a command of the shell."""
_TALKS = frozenset((
    "sqlite3", "psql", "mysql", "mariadb", "gdb", "dc", "ed", "less", "more", "lftp", "ftp", "sftp", "socat",
    "mail", "mutt", "tmux",
))  # fmt: skip
"""Programs with a language that runs commands of the shell."""
_SUBSCRIPTS = frozenset((
    "[", "test", "printf", "read", "unset", "declare", "typeset", "local", "export", "readonly", "let",
    "mapfile", "readarray", "wait", "getopts",
))  # fmt: skip
"""Shell builtins that evaluate the subscript of a variable name."""
_CALLS_BACK: Mapping[str, str] = {"mapfile": "C", "readarray": "C", "compgen": "CWF", "complete": "CWF"}
_GIT_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path")
_MAX_TALK_CHARS = 20_000


def find_given_texts(words: Sequence[str]) -> Iterator[GivenText]:
    """Yield the texts and names that the program of a command runs because it is given them."""
    program = basename(words[0])
    program = _SAME.get(program, program)
    if runs := _options_of(program, words):
        for given in _values(words, runs):
            setting = _SETTING.fullmatch(given.text)
            text = setting[1] if setting is not None else given.text
            yield given._replace(text=text.replace(",", " ") if program == "gcc" else text)
    if program == "tar" and len(words) > 1 and not words[1].startswith("-"):
        yield from (GivenText(*pair) for pair in _old_tar_values(words))
    if letters := _TAKES_SETTINGS.get(program):
        for given in _values(words, _Runs((), letters)):
            if setting := _SETTING.fullmatch(given.text):
                yield given._replace(text=setting[1])
    if letters := _CALLS_BACK.get(program):
        yield from _values(words, _Runs((), letters))
    yield from _texts_in_words(program, words)


def _texts_in_words(program: str, words: Sequence[str]) -> Iterator[GivenText]:
    """Yield the texts that a program or the shell finds inside of words."""
    is_evaluated = program in _SUBSCRIPTS or words[-1] == "]]"
    for at in range(0 if words[-1] == "]]" else 1, len(words)):
        word = words[at]
        if program in _TALKS and (found := _ESCAPE.fullmatch(word)):
            yield GivenText(found[1].partition(",")[0] if program == "socat" else found[1], at)
        elif is_evaluated and ("$(" in word or "`" in word):
            yield GivenText(word, at)
        elif program == "git" and word.startswith("ext::"):
            yield GivenText(word[5:], at)


def find_commands_in_input(program: str, text: str) -> Iterator[str]:
    """Yield the commands of the shell in a text on the standard input of a program with its own language."""
    if program in _TALKS:
        found = map(_ESCAPE.fullmatch, text[:_MAX_TALK_CHARS].split("\n"))
        yield from (one[1] for one in found if one is not None)


def git_subcommand_at(words: Sequence[str]) -> int:
    """Return the position of the subcommand of `git`, behind the options for all subcommands."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _GIT_VALUED else 1
    return at


def _options_of(program: str, words: Sequence[str]) -> _Runs | None:
    if program != "git":
        return _OPTIONS.get(program)
    subcommand = " ".join(words[git_subcommand_at(words) :][:1])
    return _OPTIONS.get(f"git {subcommand}", _OPTIONS["git"])


def _values(words: Sequence[str], runs: _Runs) -> Iterator[GivenText]:
    """Yield the values of options."""
    for at, word in enumerate(words[1:], 1):
        name, equals, value = word.partition("=")
        is_long = word.startswith("--") and len(name) > 2
        if name in runs.names or (is_long and any(one.startswith(name) for one in runs.names)):
            yield GivenText(value, at) if equals else GivenText(" ".join(words[at + 1 : at + 2]), at + 1)
        elif not is_long and word.startswith("-"):
            yield from _value_in_cluster(words, at, runs)


def _value_in_cluster(words: Sequence[str], at: int, runs: _Runs) -> Iterator[GivenText]:
    word = words[at]
    for place, letter in enumerate(word[1:], 2):
        if letter in runs.letters:
            rest = word[place:]
            yield GivenText(rest, at) if rest else GivenText(" ".join(words[at + 1 : at + 2]), at + 1)
        if letter in runs.letters or letter in runs.valued:
            return


def _old_tar_values(words: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the programs of `tar` options without a dash, whose values follow in the order of the letters."""
    runs, at = _OPTIONS["tar"], 2
    for letter in words[1]:
        if letter in runs.letters and at < len(words):
            yield words[at], at
        at += letter in runs.letters or letter in runs.valued
