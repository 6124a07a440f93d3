"""Finds the documents of large collections that are worth a comparison with a query, in bounded work.

A document is in the sample of level n with the probability 1 / `SAMPLE_BASE` ** n, by its id. Its terms are
indexed once more for each of its levels. A search reads the list of a term in the smallest sample first, and
in a larger one only while the list is short. So no long list is read, however common a word is, and every
database finds the same documents.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..databases.database import Database
from ..databases.sampling import SAMPLE_BASE, TOP_LEVEL
from .ranking import Ranked, Ranker, weigh
from .words import (
    find_stem,
    make_fragment_term,
    make_space,
    make_stem_term,
    measure_bytes,
)

_MOST_QUERY_WORDS = 16
"""In a longer query, only the longest words are searched for, because they are the rarest ones."""
_ENOUGH = 16
"""A list with fewer documents is read again in the next larger sample."""
_MOST_LISTED = 1000
"""The most documents of one list that are read. Lists of samples are shorter: about 250 at most."""
_MOST_SHARED_LIST = 8192
"""Words that are to be in one document are compared in samples that have about so many with the rarest."""
_MOST_COMMON = 4
_MOST_RARE, _MOST_TOGETHER = 128, 48
_MOST_AT_ONCE = 500
_MOST_REFERENCE = 64
"""The most documents of the sample in which parts of words are counted: those that were found have many."""
_EVERY = ""
"""The term that every document has."""


class _Sample(NamedTuple):
    """The documents with a word in the sample of a level; level 0 has all documents."""

    keys: Sequence[Any]
    level: int

    @property
    def estimate(self) -> int:
        """Return the estimated number of documents with the word."""
        return len(self.keys) * SAMPLE_BASE**self.level


class Candidates:
    """Finds and ranks the documents for one query."""

    def __init__(self, database: Database, ranker: Ranker, collections: Sequence[str]) -> None:
        """The database has a full-text index of documents."""
        assert database.document_search is not None
        self._database = database
        self._index = database.document_search
        self._ranker = ranker
        self._words = sorted(ranker.words, key=measure_bytes, reverse=True)[:_MOST_QUERY_WORDS]
        self._spaces = [*map(make_space, collections)]

    def rank(self, collections: Sequence[str]) -> list[Ranked]:
        """Return the best documents of the collections, which are named by their keys."""
        samples = self._sample([*self._words, _EVERY], is_inside=False)
        every = samples.pop(_EVERY)
        unknown = [word for word in self._words if not samples[word].keys]
        inside = self._sample(unknown, is_inside=True) if unknown else {}
        together = self._find_together({word: one for word, one in samples.items() if one.level})
        samples |= inside
        rows = self._load(self._choose(samples, together), collections)
        counts: dict[str, int] = {}
        for word, one in samples.items():
            counts[find_stem(word)] = max(counts.get(find_stem(word), 0), one.estimate)
        total = max([every.estimate, *counts.values()])
        parts = self._ranker.count_parts(self._load(every.keys[:_MOST_REFERENCE], collections))
        return self._ranker.rank(self._ranker.compare(rows, unknown), counts, total, parts)

    def weigh(self, words: Sequence[str]) -> dict[str, float]:
        """Return the weight of each word by the estimated number of documents with it."""
        samples = self._sample([*words, _EVERY], is_inside=False)
        total = max(one.estimate for one in samples.values())
        return {word: weigh(samples[word].estimate, total) for word in words}

    def _sample(self, words: Sequence[str], *, is_inside: bool) -> dict[str, _Sample]:
        """Return the documents of each word from the smallest sample that has enough of them.

        `is_inside`: the words are fragments of words.
        """
        samples: dict[str, _Sample] = {}
        missing = list(words)
        for level in range(TOP_LEVEL, -1, -1):
            matches = {word: self._match(word, level, is_inside) for word in missing}
            for word, keys in self._find_each(matches).items():
                if len(keys) >= _ENOUGH or level == 0:
                    samples[word] = _Sample(keys, level)
            missing = [word for word in missing if word not in samples]
            if not missing:
                break
        return samples

    def _match(self, word: str, level: int, is_inside: bool) -> str:
        """Return the parameter that finds the documents with a word in a sample."""
        make, form = make_stem_term, self._index.term
        if is_inside:
            make, form = make_fragment_term, self._index.prefix
        return self._index.match([[form.format(make(space, word, level)) for space in self._spaces]])

    def _find_each(self, matches: Mapping[Any, str]) -> dict[Any, list[Any]]:
        """Return the keys of the documents that each parameter finds."""
        names = list(matches)
        found: dict[Any, list[Any]] = {name: [] for name in names}
        parts = [
            f"SELECT {at} AS word, q.* FROM ({self._index.find} LIMIT {_MOST_LISTED}) AS q"
            for at in range(len(names))
        ]
        if parts:
            for at, key in self._database.query(" UNION ALL ".join(parts), list(matches.values())):
                found[names[int(at)]].append(key)
        return found

    def _find_together(self, common: Mapping[str, _Sample]) -> dict[Any, int]:
        """Return documents that have several of the common words, with how many of the rarest ones."""
        words = sorted(common, key=lambda word: (common[word].estimate, word))[:_MOST_COMMON]
        found: dict[Any, int] = {}
        if len(words) < 2:
            return found
        level = common[words[0]].level
        while len(found) < _ENOUGH and level >= 0:
            if level and common[words[0]].estimate > _MOST_SHARED_LIST * SAMPLE_BASE**level:
                break
            terms = [
                [self._index.term.format(make_stem_term(space, word, level)) for space in self._spaces]
                for word in words
            ]
            matches = {size: self._index.match(terms[:size]) for size in range(2, len(words) + 1)}
            for size, keys in self._find_each(matches).items():
                for key in keys:
                    found[key] = max(size, found.get(key, 0))
            level -= 1
        return found

    def _choose(self, samples: Mapping[str, _Sample], together: Mapping[Any, int]) -> list[Any]:
        """Return the keys to compare: those with the rarest words, and those with several common words."""
        scores: dict[Any, float] = {}
        for one in samples.values():
            for key in one.keys if one.level == 0 else ():
                scores[key] = scores.get(key, 0.0) + 1 / (1 + one.estimate)
        rare = self._cut(scores, _MOST_RARE)
        shared = self._cut({key: float(size) for key, size in together.items()}, _MOST_TOGETHER)
        chosen = list(dict.fromkeys([*rare, *shared]))
        common = [one for one in samples.values() if one.keys]
        if not chosen and common:
            rarest = min(common, key=lambda one: one.estimate)
            chosen = self._cut(dict.fromkeys(rarest.keys, 0.0), _MOST_TOGETHER)
        return chosen

    def _cut(self, scores: Mapping[Any, float], most: int) -> list[Any]:
        """Return the keys with the highest scores. Equal ones are in the order of the documents' ids."""
        if len(scores) <= most:
            return list(scores)
        least = sorted(scores.values(), reverse=True)[most - 1]
        above = [key for key, score in scores.items() if score > least]
        equal = [key for key, score in scores.items() if score == least]
        return [*above, *self._sort_by_id(equal)[: most - len(above)]]

    def _sort_by_id(self, keys: Sequence[Any]) -> list[Any]:
        if self._index.key == "id":
            return sorted(keys)
        rows: list[tuple[Any, ...]] = []
        for some in split(keys):
            sql = f"SELECT id, {self._index.key} FROM documents WHERE {self._index.key} IN ({mark(some)})"
            rows += self._database.query(sql, some)
        return [row[1] for row in sorted(rows)]

    def _load(self, keys: Sequence[Any], collections: Sequence[str]) -> list[tuple[object, str]]:
        """Return the id and the words of documents, if they are in one of the collections."""
        rows: list[tuple[object, str]] = []
        for some in split(keys):
            # A condition on the collection would make SQLite read the whole collection.
            sql = f"SELECT id, words, collection FROM documents WHERE {self._index.key} IN ({mark(some)})"
            found = self._database.query(sql, some)
            rows += ((row[0], row[1]) for row in found if row[2] in collections)
        return rows


def mark(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def split(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the values in groups that fit into one statement."""
    for begin in range(0, len(values), _MOST_AT_ONCE):
        yield values[begin : begin + _MOST_AT_ONCE]
