"""Phrases that start flows: words, `*` for any text, and {name} for any text that gets a name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ....state.lazy_dataclass import dataclass

_PIECE = re.compile(r"\*|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_CHARS = 2000
"""A longer message starts no flow."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A pattern for messages. Matching takes linear time for every message."""

    literals: tuple[str, ...]
    """The texts before, between and after the gaps, in lower case."""
    gaps: tuple[str, ...]
    """The names of the gaps; empty for `*`."""
    text: str = ""
    """The phrase as it was written."""

    @property
    def names(self) -> set[str]:
        return set(filter(None, self.gaps))

    def match(self, message: str) -> Mapping[str, str] | None:
        """Return the values of the named gaps, or None if the message does not match.

        Upper case, repeated blanks and a punctuation mark at the end are ignored. The value of a named gap is
        never empty.
        """
        text = shorten_spaces(message)
        folded = text.lower()
        if len(text) > _MOST_CHARS or len(folded) != len(text):
            return None
        first, *others = self.literals
        if not folded.startswith(first):
            return None
        if not others:
            return {} if folded == first else None
        at = len(first)
        values: list[str] = []
        for number, literal in enumerate(others):
            least = at + (1 if self.gaps[number] else 0)
            if number == len(others) - 1:
                found = len(folded) - len(literal) if folded.endswith(literal) else -1
            else:
                found = folded.find(literal, least)
            if found < least:
                return None
            values.append(text[at:found].strip())
            at = found + len(literal)
        named = {name: value for name, value in zip(self.gaps, values, strict=True) if name}
        return named if all(named.values()) else None


def parse_phrase(text: str) -> Phrase:
    """Parse a phrase; raises `ValueError` if it has no word, or two gaps without a text between them."""
    literals: list[str] = []
    gaps: list[str] = []
    plain = shorten_spaces(text)
    at = 0
    for found in _PIECE.finditer(plain):
        literals.append(plain[at : found.start()].lower())
        gaps.append(found[1] or "")
        at = found.end()
    literals.append(plain[at:].lower())
    if not "".join(literals).strip():
        raise ValueError("has no word, so that every message would start it")
    if any(not literal for literal in literals[1:-1]):
        raise ValueError("has two gaps without a text between them")
    names = [name for name in gaps if name]
    if len(set(names)) < len(names):
        raise ValueError("has two gaps of one name")
    return Phrase(tuple(literals), tuple(gaps), text)


def shorten_spaces(text: str) -> str:
    """Return a text with single blanks, without the punctuation mark at its end."""
    return " ".join(text.split()).rstrip(".!? 。！？")
