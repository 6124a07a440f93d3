"""Triggers: decide which messages start a flow or a skill, and return the parts of the message for it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import NamedTuple

from ....state.lazy_dataclass import dataclass
from .linear_regex import LinearRegex, StepBudget
from .phrase import Phrase, parse_phrase, shorten_spaces
from .regex_parser import BadRegex

MatchFunction = Callable[
    [str], "bool | Mapping[str, str] | Awaitable[bool | Mapping[str, str] | None] | None"
]
"""A function of a message. It returns whether the message matches, or its parts by name; None means no match.
"""
_MOST_SHOWN_CHARS = 60


class TriggerMatch(NamedTuple):
    why: str
    """The trigger that matched, as a clause for people."""
    values: Mapping[str, str]
    """The parts of the message by name or number."""


@dataclass(frozen=True, slots=True)
class Triggers:
    """The triggers of one flow or skill; any of them starts it. All except regular expressions ignore case
    and blanks.
    """

    exact: tuple[str, ...] = ()
    """Whole messages."""
    prefix: tuple[str, ...] = ()
    """Beginnings of messages; the rest is the part `rest`."""
    phrase: tuple[Phrase, ...] = ()
    regex: tuple[LinearRegex, ...] = ()
    function: MatchFunction | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.exact or self.prefix or self.phrase or self.regex or self.function)

    async def match(self, message: str, budget: StepBudget) -> TriggerMatch | None:
        """Return the match of the message, or None. Raises the exceptions of the program's own function."""
        found = self._match_text(message, budget)
        if found is not None or self.function is None:
            return found
        result = self.function(message)
        if inspect.isawaitable(result):
            result = await result
        if result is None or result is False:
            return None
        values = {} if isinstance(result, bool) else {str(name): str(text) for name, text in result.items()}
        return TriggerMatch(f"the function {getattr(self.function, '__name__', 'match')}", values)

    def _match_text(self, message: str, budget: StepBudget) -> TriggerMatch | None:
        plain = shorten_spaces(message)
        folded = plain.casefold()
        for text in self.exact:
            if folded == shorten_spaces(text).casefold():
                return TriggerMatch(f"the text {_quote(text)}", {})
        for text in self.prefix:
            if (rest := _rest_after(text, message)) is not None:
                return TriggerMatch(f"the beginning {_quote(text)}", {"rest": rest})
        for phrase in self.phrase:
            if (values := phrase.match(message)) is not None:
                return TriggerMatch(f"the phrase {_quote(phrase.text)}", values)
        for regex in self.regex:
            if (found := regex.search(message, budget)) is not None:
                return TriggerMatch(f"the regex {_quote(regex.pattern)}", found.values)
        return None

    def find_missing(self, names: Iterable[str]) -> str:
        """Return the first of `names` for which a trigger has no value; empty if there is none."""
        if self.function is not None:
            return ""
        given = [*({"rest"} for _ in self.prefix), *(one.names for one in self.phrase)]
        given += [*(one.names for one in self.regex), *(set[str]() for _ in self.exact)]
        missing = (name for name in sorted(names) if any(name not in one for one in given))
        return next(missing, "")

    def describe(self) -> Iterator[str]:
        """Yield each trigger as a clause."""
        yield from (f"the text {_quote(text)}" for text in self.exact)
        yield from (f"the beginning {_quote(text)}" for text in self.prefix)
        yield from (f"the phrase {_quote(one.text)}" for one in self.phrase)
        yield from (f"the regex {_quote(one.pattern)}" for one in self.regex)
        if self.function is not None:
            yield f"the function {getattr(self.function, '__name__', 'match')}"


def make_triggers(
    exact: Iterable[str] = (),
    prefix: Iterable[str] = (),
    phrase: Iterable[str] = (),
    regex: Iterable[str] = (),
    function: MatchFunction | None = None,
) -> Triggers:
    """Return the triggers of these texts; raises `ValueError` with the reason for one that cannot be used."""
    texts = (*(exact := tuple(exact)), *(prefix := tuple(prefix)))
    if any(not text.strip() for text in texts):
        raise ValueError("a trigger is empty, so that every message would start it")
    return Triggers(exact, prefix, tuple(map(parse_phrase, phrase)), tuple(map(_compile, regex)), function)


def _compile(pattern: str) -> LinearRegex:
    try:
        compiled = LinearRegex(pattern)
    except BadRegex as problem:
        raise ValueError(f"the regex {_quote(pattern)} is not possible: {problem}") from None
    if compiled.search("", StepBudget()) is not None:
        raise ValueError(f"the regex {_quote(pattern)} matches every message")
    return compiled


def _rest_after(prefix: str, message: str) -> str | None:
    """Return the text after a prefix, ignoring case and blanks, or None if the message does not begin with
    it.
    """
    words, left = prefix.split(), message.strip()
    for number, word in enumerate(words, 1):
        start, left = left[: len(word)], left[len(word) :]
        is_last = number == len(words)
        if start.casefold() != word.casefold() or not (is_last or left[:1].isspace()):
            return None
        if is_last and _joins(word[-1], left[:1]):
            return None
        left = left.lstrip()
    return left.strip()


def _joins(before: str, after: str) -> bool:
    """Return whether two characters belong to one word; languages without blanks have no such words."""
    return before.isascii() and before.isalnum() and after.isascii() and after.isalnum()


def _quote(text: str) -> str:
    shortened = text if len(text) <= _MOST_SHOWN_CHARS else f"{text[:_MOST_SHOWN_CHARS]}..."
    return f'"{shortened}"'
