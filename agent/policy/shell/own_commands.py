"""Finds commands that call Sandbur itself to run, allow or change something without its questions."""

import re
from collections.abc import Sequence
from itertools import pairwise

from .seen_commands import SeenCommand, Sight

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
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
    own = [(seen, words) for seen in sight.commands if (words := _find_own_words(seen)) is not None]
    for seen, words in own:
        if _lifts(words):
            return " ".join(seen.words[:3])
    names = {name for name, _ in sight.assigned} | {
        word.partition("=")[0] for seen in sight.commands for word in seen.words[1:] if "=" in word
    }
    if own and (name := next(filter(_VARIABLE.fullmatch, sorted(names)), None)):
        return f"{name}=... {own[0][0].words[0]}"
    return None


def calls_sandbur(sight: Sight) -> bool:
    """Return whether one of the commands is Sandbur itself."""
    return any(_find_own_words(seen) is not None for seen in sight.commands)


def _find_own_words(seen: SeenCommand) -> Sequence[str] | None:
    """Return the arguments of a command of Sandbur; None for another program."""
    words = seen.words
    if seen.program.partition("@")[0] == "sandbur":
        return words[1:]
    if _PYTHON.fullmatch(seen.program) is None:
        return None
    for at, word in enumerate(words[1:], 1):
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
