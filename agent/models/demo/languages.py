"""Detects the user's language. Requests are matched in all languages and answered in the detected one."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .chinese import CHINESE
from .english import ENGLISH
from .phrases import Ability, Phrases

LANGUAGES = (ENGLISH, CHINESE)
_NO_PROSE = re.compile(r"`[^`]*`|https?://[A-Za-z0-9.:/?&=#%_-]+")
_OWN_COMMAND = r"[!！](?P<command>.*\S.*)"


class Request(NamedTuple):
    ability: Ability
    arguments: Mapping[str, str]
    phrases: Phrases | None
    """The sentences in the language of the request; None if the language is unclear."""


def _possible_languages(text: str) -> tuple[Phrases, ...]:
    """Return the possible languages of a text. The patterns of other languages are not compiled."""
    if not text.isascii():
        return LANGUAGES
    return tuple(phrases for phrases in LANGUAGES if not phrases.understood.has_own_script)


def request_in(text: str) -> Request | None:
    """Return the single call that a text requests, or None if it requests none."""
    if found := _match(_OWN_COMMAND, text):
        return Request("run", found.groupdict(""), None)
    for phrases in _possible_languages(text):
        for ability, pattern in phrases.understood.requests:
            if found := _match(f"{phrases.understood.polite}{pattern}", text):
                return Request(ability, found.groupdict(""), phrases)
    return None


def _match(pattern: str, text: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, text.strip(), re.IGNORECASE | re.DOTALL)


def speaks_of_trouble(text: str) -> bool:
    return any(_search(phrases.understood.trouble, text) for phrases in _possible_languages(text))


def speaks_of_web(text: str) -> bool:
    return any(_search(phrases.understood.web, text) for phrases in _possible_languages(text))


def speaks_of_disk(text: str) -> bool:
    return any(_search(phrases.understood.disk, text) for phrases in _possible_languages(text))


def _search(pattern: str, text: str) -> bool:
    # Only ASCII letters form words here, because no blank separates `CPU` from Chinese letters around it.
    return re.search(pattern, text, re.IGNORECASE | re.ASCII) is not None


def language_of(texts: Iterable[str]) -> Phrases:
    """Return the language of the first text whose language is known; English if none is."""
    return next((found for text in texts if (found := _language(text))), ENGLISH)


def _language(text: str) -> Phrases | None:
    # The files of a message follow its text after an empty line, so only the part before counts.
    text = text.strip().partition("\n\n")[0]
    if request := request_in(text):
        return request.phrases
    prose = _NO_PROSE.sub(" ", text)
    counts = {phrases.counts_in(prose): phrases for phrases in _possible_languages(prose)}
    # On a tie the later language wins, because English terms occur in every language.
    return counts[max(counts)] if any(counts) else None
