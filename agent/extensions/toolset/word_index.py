"""Finds texts by words: the rarer a word, and the larger its part of a text, the more it counts (BM25)."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import log

_SATURATION = 1.2
_LENGTH_SHARE = 0.75
_NAME_WEIGHT = 4
"""A word of a name counts as so many of the text."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")


class WordIndex:
    """Built once over all texts; a search looks at those that have a word of it."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` are found by what they say and by their names."""
        self._names = list(texts)
        self._by_name = {name.lower(): number for number, name in enumerate(texts)}
        self._places: dict[str, dict[int, int]] = {}
        self._lengths: list[int] = []
        for number, (name, text) in enumerate(texts.items()):
            counts = Counter(_words(text))
            for word in _words(name):
                counts[word] += _NAME_WEIGHT
            self._lengths.append(counts.total())
            for word, count in counts.items():
                self._places.setdefault(word, {})[number] = count
        self._usual_length = sum(self._lengths) / max(len(self._lengths), 1) or 1.0

    def best(self, query: str, most: int) -> list[str]:
        """Return the names of what fits best, the best one first; what the query names goes before all."""
        named = (self._by_name.get(part.lower()) for part in re.split(r"[\s,]+", query))
        scores: dict[int, float] = {number: float("inf") for number in named if number is not None}
        for word in set(_words(query)):
            for number, score in self._scored(word):
                scores[number] = scores.get(number, 0.0) + score
        ranked = sorted(scores, key=lambda number: (-scores[number], number))
        return [self._names[number] for number in ranked[:most]]

    def _scored(self, word: str) -> Iterator[tuple[int, float]]:
        there = self._places.get(word, {})
        rarity = log(1 + (len(self._names) - len(there) + 0.5) / (len(there) + 0.5))
        for number, count in there.items():
            share = 1 - _LENGTH_SHARE + _LENGTH_SHARE * self._lengths[number] / self._usual_length
            yield number, rarity * count * (_SATURATION + 1) / (count + _SATURATION * share)


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text, those inside of names too, in small letters and without the plural."""
    for found in _WORD.finditer(text):
        word = found[0].lower()
        yield word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
