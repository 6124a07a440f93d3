"""Finds commands that call Sandbur itself to run, allow or change something without its questions."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from posixpath import basename

from .seen_commands import MADE_TEXT, SeenCommand, Sight

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_CARRIES = frozenset(("tmux", "byobu", "parallel", "pixi", "coverage", "kernprof", "viztracer", "scalene"))
"""Programs that run a command that is among their arguments, and that nothing else takes apart."""
_COMMAND_LINE = re.compile(r"\bsandbur\.ui\.cli\b")
_LIFTS = re.compile(
    r"-[cpqv]*y[cpqv]*|--yolo|--approve|--apply-best|--allow(?:-net)?(?:=.*)?|--allowed-?[tT]ools(?:=.*)?"
    r"|--mode=(?:yolo|auto-edit)|--sandbox=off|--dangerously-\S*|--permission-mode(?:=.*)?|--full-auto"
)
"""Flags that let calls run unasked."""
_LIFTING_PAIRS = frozenset(
    (("--mode", "yolo"), ("--mode", "auto-edit"), ("--sandbox", "off"), ("--permission-mode", "yolo"))
)
_DECIDES = frozenset(("approve", "settle", "trust"))
_CHANGES = {
    "config": frozenset(("set", "unset")),
    "mcp": frozenset(("add", "login")),
    "memory": frozenset(("add", "edit", "restore", "import", "review", "extract")),
    "serve": frozenset(("add-token", "client")),
    "sessions": frozenset(("delete", "prune", "import")),
    "try": frozenset(("apply", "drop")),
    "agents": frozenset(("new",)),
}
"""Command -> the subcommands that change what is asked, what an agent knows, or what is recorded."""
_VARIABLE = re.compile(r"(?:SANDBUR_(?!HOME$|STORE$|MODEL$)\w+|XDG_CONFIG_HOME|HOME)")
"""Variables that change which calls Sandbur asks about."""


def find_lifted_questions(sight: Sight) -> str | None:
    """Return the beginning of a command that lets calls run without the questions of Sandbur, or None."""
    own = list(_find_own_commands(sight))
    for seen, words in own:
        if _lifts(words):
            return " ".join(seen.words[:3])
    names = {name for name, _ in sight.assigned} | {
        word.partition("=")[0] for seen in sight.commands for word in seen.words[1:] if "=" in word
    }
    names |= {name for seen in sight.commands for name in _list_unset(seen)}
    if own and (name := next(filter(_VARIABLE.fullmatch, sorted(names)), None)):
        return f"{name}=... {own[0][0].words[0]}"
    return None


def calls_sandbur(sight: Sight) -> bool:
    """Return whether one of the commands is Sandbur itself."""
    return any(True for _ in _find_own_commands(sight))


def _find_own_commands(sight: Sight) -> Iterator[tuple[SeenCommand, Sequence[str]]]:
    """Yield the commands that are or run Sandbur, each with the arguments for it."""
    for seen in sight.commands:
        words = _find_own_words(seen)
        is_text = seen.program in ("echo", "printf") and MADE_TEXT in sight.doubts
        if words is None and (is_text or seen.program in _CARRIES):
            words = _find_carried_words(seen)
        if words is not None:
            yield seen, words


def _find_carried_words(seen: SeenCommand) -> Sequence[str] | None:
    tokens = " ".join(seen.words[1:]).split()
    at = next((at for at, token in enumerate(tokens) if basename(token) == "sandbur"), None)
    return None if at is None else tokens[at + 1 :]


def _list_unset(seen: SeenCommand) -> Iterator[str]:
    """Yield the variables that a command removes."""
    if seen.program == "unset":
        yield from seen.words[1:]
    elif seen.program == "env":
        for word, following in pairwise((*seen.words, "")):
            if word in ("-u", "--unset"):
                yield following
            elif found := re.fullmatch(r"(?:-u|--unset=)(\w+)", word):
                yield found[1]


def _find_own_words(seen: SeenCommand) -> Sequence[str] | None:
    """Return the arguments of a command of Sandbur; None for another program."""
    words = seen.words
    if seen.program.partition("@")[0] == "sandbur":
        return words[1:]
    if _PYTHON.fullmatch(seen.program) is None:
        return None
    for at, word in enumerate(words[1:], 1):
        if _COMMAND_LINE.search(word):
            return re.findall(r"[\w-]+", " ".join(words[at:]))
        if re.fullmatch(r"-[a-zA-Z]*msandbur(?:\.\S*)?", word):
            return words[at + 1 :]
        if re.fullmatch(r"-[a-zA-Z]*m", word) and " ".join(words[at + 1 : at + 2]).split(".")[0] == "sandbur":
            return words[at + 2 :]
    return None


def _lifts(words: Sequence[str]) -> bool:
    pairs = set(pairwise(words))
    if any(map(_LIFTS.fullmatch, words)) or pairs & _LIFTING_PAIRS or _DECIDES.intersection(words):
        return True
    return any(name in words and not changes.isdisjoint(words) for name, changes in _CHANGES.items())
