"""`sandbur _complete SHELL WORD...`: prints the candidates for the last word of a command line."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ....cli.argument_types import OneOf
from ....cli.arguments import find_command
from ....cli.grammar import COMMANDS, Command, arguments_of, command_class

_FILES = ":"
"""A candidate that tells the shell to complete file names itself."""
_OF_FILES = re.compile(r"\[?(FILE|DIR|PATH)\b")
_OF_SESSIONS = re.compile(r"\[?ID\d?\b")
_DECIDING = ("approve", "deny", "settle")
"""Commands whose sessions are completed only if they wait for a decision."""


class CompleteCommand(Command):
    """The command that shells run for candidates; no help lists it."""

    words: tuple[str, ...] = ()
    """The shell, and the words after `sandbur` up to the cursor."""

    def run_at_once(self) -> int:
        shell, *words = self.words
        # bash splits `--flag=value` into three words.
        *before, current = [word for word in words if word != "="] or [""]
        found = _Line(self, shell, before, current.strip("\"'")).candidates()
        # The output is UTF-8 in every locale.
        sys.stdout.buffer.write("".join(f"{line}\n" for line in found).encode())
        return 0

    def list_sessions(self, shell: str, kind: str, word: str) -> Iterable[str]:
        return self._load("session_words.list_sessions")(shell, kind, word)


class _Candidate(NamedTuple):
    text: str
    about: str = ""


class _Line:
    """A command line and its last word, which is completed."""

    def __init__(self, command: CompleteCommand, shell: str, before: Sequence[str], current: str) -> None:
        at = find_command(before, COMMANDS.__contains__)
        self.name = "chat" if at is None else before[at]
        self._command = command
        self._shell = shell
        self._before = before if at is None else [*before[:at], *before[at + 1 :]]
        self._current = current
        self._arguments = list(arguments_of(self.name))

    def candidates(self) -> Iterator[str]:
        """Yield a line for each candidate: the word, and except for bash a tab and the description."""
        flag = self._find_flag(self._before[-1]) if self._before else None
        if flag is not None and _takes_value(flag):
            yield from self._of_value(flag)
            if flag.get("nargs") != "?" or flag.get("metavar") == "ID":
                return
        if self._current.startswith("-"):
            yield from self._matching(
                _Candidate(name, " ".join(str(how.get("help") or "").replace("%%", "%").split()))
                for names, how in self._arguments
                for name in names
                if name.startswith("-")
            )
        else:
            yield from self._of_position(self._count_positions())

    def _find_flag(self, word: str) -> dict[str, Any] | None:
        return next((how for names, how in self._arguments if word.startswith("-") and word in names), None)

    def _count_positions(self) -> int:
        """Return how many words before the last one are neither flags nor values of flags."""
        previous = [None, *map(self._find_flag, self._before)]
        return sum(
            not word.startswith("-") and not (flag is not None and _takes_value(flag))
            for word, flag in zip(self._before, previous, strict=False)
        )

    def _of_position(self, position: int) -> Iterator[str]:
        actions = command_class(self.name).ACTIONS
        if self.name == "chat":
            if position == 0:
                yield from self._matching(_Candidate(name, one.summary) for name, one in COMMANDS.items())
            return
        if actions and position == 0:
            yield from self._matching(_Candidate(name, one.about) for name, one in actions.items())
            return
        if actions:
            words = [word for word in self._before if word in actions][:1]
            if words and position == 1:
                found = command_class(self.name)().list_words(words[0])
                yield from self._matching(_Candidate(word, about) for word, about in found)
            placeholders = actions[words[0]].words.split() if words else []
            yield from self._of_placeholder(placeholders[position - 1 : position])
            return
        arguments = [how for names, how in self._arguments if not names[0].startswith("-")]
        for how in arguments[position : position + 1]:
            yield from self._of_value(how)

    def _of_value(self, how: dict[str, Any]) -> Iterator[str]:
        if isinstance(kind := how.get("type"), OneOf):
            yield from self._matching(map(_Candidate, kind.names))
        else:
            yield from self._of_placeholder([str(how.get("metavar") or "")])

    def _of_placeholder(self, placeholders: Iterable[str]) -> Iterator[str]:
        for placeholder in placeholders:
            if _OF_SESSIONS.match(placeholder):
                kind = "waiting" if self.name in _DECIDING else "all"
                yield from self._command.list_sessions(self._shell, kind, self._current)
            elif _OF_FILES.match(placeholder):
                yield _FILES

    def _matching(self, candidates: Iterable[_Candidate]) -> Iterator[str]:
        for one in candidates:
            if one.text.startswith(self._current):
                yield one.text if self._shell == "bash" else f"{one.text}\t{one.about}".rstrip()


def _takes_value(how: dict[str, Any]) -> bool:
    return how.get("action", "append") == "append"
