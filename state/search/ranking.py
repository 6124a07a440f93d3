"""Ranks documents by the words and the parts of words that they share with a query."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from .words import find_stem, list_parts

KeyT = TypeVar("KeyT")
_ARTICLES = ("a", "an", "the", "this", "that", "it", "i", "me", "my", "we", "you", "your", "s", "t")
_VERBS = ("are", "be", "can", "could", "do", "does", "is", "was", "will", "would")
_OTHERS = ("and", "as", "at", "by", "for", "from", "in", "of", "on", "or", "please", "to", "with")
_QUESTIONS = ("how", "what", "when", "where", "which", "who", "why")
STOP_WORDS = frozenset((*_ARTICLES, *_VERBS, *_OTHERS, *_QUESTIONS))
"""Words that are left out of a query, if it has others."""
_K1, _B = 1.2, 0.75
_TITLE_WEIGHT = 2
_GRAM_CHARS = 4
_LEAST_LIKENESS = 0.35
"""The least share of a query's parts of words, weighted, that makes a document without its words a hit."""
_FUSION_K = 60
TITLE_END = "|"
MOST_WORDS = 800
"""The most words of one document that count for its rank. All words are found."""


class Ranked(NamedTuple):
    """A document that matches a query."""

    key: object
    score: float
    """From 0 to 1, where 1 is a document that is the first one in every order."""
    coverage: float
    """The share of the query's words that the document has, weighted by their rarity, from 0 to 1."""


class Matches(NamedTuple):
    """What one document shares with a query, with the number of times."""

    key: object
    words: Mapping[str, int]
    grams: Mapping[str, int]
    length: int
    """The number of its words."""


class _Match(NamedTuple):
    """What one word shares with a query."""

    stems: tuple[str, ...]
    grams: frozenset[str]


def list_query_words(text: str) -> list[str]:
    """Return the distinct words of a query, without common English words if it has others."""
    words = list(dict.fromkeys(list_parts(text)))
    return [word for word in words if word not in STOP_WORDS] or words


def make_words(title: str, text: str) -> str:
    """Return the words of a document for its rank."""
    words = [*list_parts(title), TITLE_END, *list_parts(text)]
    return " ".join(words[:MOST_WORDS])


@lru_cache(maxsize=50_000)
def _list_grams(word: str) -> frozenset[str]:
    """Return the parts of a word of four characters, with a space before and behind the word."""
    padded = f" {word} "
    return frozenset(padded[at : at + _GRAM_CHARS] for at in range(max(1, len(padded) - _GRAM_CHARS + 1)))


class Ranker:
    """Compares documents with one query."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words` are as `list_query_words` returns them."""
        self.words = words
        self._stems = {find_stem(word) for word in words}
        self._grams = frozenset[str]().union(*map(_list_grams, words))

    def compare(
        self, documents: Iterable[tuple[object, str]], fragments: Iterable[str] = ()
    ) -> list[Matches]:
        """Return what documents, as `make_words` returns them, share with the query.

        Words of the query that are in `fragments` also match the words that contain them.
        """
        split = [(key, words.split()) for key, words in documents]
        known = self._match(set[str]().union(*(words for _, words in split)), [*fragments])
        return [_count(key, words, known) for key, words in split]

    def _match(self, words: Iterable[str], fragments: Sequence[str]) -> dict[str, _Match]:
        """Return the words that share something with the query."""
        known: dict[str, _Match] = {TITLE_END: _Match((), frozenset())}
        for word in words:
            grams = self._grams & _list_grams(word)
            stems = {stem for stem in (find_stem(word),) if stem in self._stems}
            stems |= {find_stem(part) for part in fragments if part in word}
            if grams or stems:
                known[word] = _Match((*stems,), grams)
        return known

    def rank(self, found: Sequence[Matches], counts: Mapping[str, int], total: int) -> list[Ranked]:
        """Return the documents with enough in common with the query, the best one first.

        `counts` maps stems to the number of documents with them, of `total`. Stems that are not in it are
        counted in `found`, like the parts of words.
        """
        counted = Counter(stem for one in found for stem in one.words)
        weights = {stem: weigh(counts.get(stem, counted[stem]), total) for stem in self._stems}
        by_words = _score([(one.words, one.length) for one in found], weights)
        shared = Counter(gram for one in found for gram in one.grams)
        rarity = {gram: weigh(shared[gram], len(found)) for gram in self._grams}
        by_grams = _score([(one.grams, one.length) for one in found], rarity)
        whole, parts = sum(weights.values()) or 1.0, sum(rarity.values()) or 1.0
        hits = [
            at
            for at, one in enumerate(found)
            if one.words or sum(rarity[gram] for gram in one.grams) >= _LEAST_LIKENESS * parts
        ]
        orders = [
            [at for at in _sort(hits, scores, found) if scores[at] > 0] for scores in (by_words, by_grams)
        ]
        return [
            Ranked(found[at].key, score, sum(weights[stem] for stem in found[at].words) / whole)
            for at, score in fuse_ranks([(1.0, order) for order in orders])
        ]


def _count(key: object, words: Sequence[str], known: Mapping[str, _Match]) -> Matches:
    """Return what a document shares with a query. `known` has the words that share something."""
    stems: dict[str, int] = {}
    grams: dict[str, int] = {}
    weight = _TITLE_WEIGHT
    for word in filter(known.__contains__, words):
        if word == TITLE_END:
            weight = 1
        match = known[word]
        for stem in match.stems:
            stems[stem] = stems.get(stem, 0) + weight
        for gram in match.grams:
            grams[gram] = grams.get(gram, 0) + weight
    return Matches(key, stems, grams, len(words))


def _sort(hits: Iterable[int], scores: Sequence[float], found: Sequence[Matches]) -> list[int]:
    """Return the hits with a score, the best one first."""
    return sorted((at for at in hits if scores[at] > 0), key=lambda at: (-scores[at], str(found[at].key)))


def weigh(count: int, total: int) -> float:
    """Return the inverse document frequency of BM25."""
    count = min(count, total)
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def _score(documents: Sequence[tuple[Mapping[str, int], int]], weights: Mapping[str, float]) -> list[float]:
    """Return the score of each document by BM25."""
    average = sum(length for _, length in documents) / max(len(documents), 1) or 1.0
    return [
        sum(
            weights[term] * times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * length / average))
            for term, times in counts.items()
        )
        for counts, length in documents
    ]


def fuse_ranks(orders: Sequence[tuple[float, Sequence[KeyT]]]) -> list[tuple[KeyT, float]]:
    """Return the keys of several orders by their weighted reciprocal ranks, with scores from 0 to 1.

    Each order has a weight. A key that is the first one in each order has the score 1.
    """
    most = sum(weight for weight, _ in orders) / (_FUSION_K + 1)
    scores: dict[KeyT, float] = {}
    for weight, order in orders:
        for place, key in enumerate(order, 1):
            scores[key] = scores.get(key, 0.0) + weight / (_FUSION_K + place)
    ranked = sorted(scores.items(), key=lambda one: -one[1])
    return [(key, score / most) for key, score in ranked]


def measure_likeness(one: str, other: str) -> float:
    """Return the share of the words of two texts that both have, from 0 to 1."""
    stems = [{find_stem(word) for word in list_parts(text)} for text in (one, other)]
    return len(stems[0] & stems[1]) / max(len(stems[0] | stems[1]), 1)
