"""Ranks documents by the words and the parts of words that they share with a query."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple, TypeVar

from .words import find_stem, list_parts

KeyT = TypeVar("KeyT")
_ARTICLES = ("a", "an", "the", "this", "that", "it", "i", "me", "my", "we", "you", "your", "s", "t")
_VERBS = ("are", "be", "can", "could", "do", "does", "is", "was", "will", "would")
_OTHERS = ("and", "as", "at", "by", "for", "from", "in", "of", "on", "or", "please", "to", "with")
_QUESTIONS = ("how", "what", "when", "where", "which", "who", "why")
STOP_WORDS = frozenset((*_ARTICLES, *_VERBS, *_OTHERS, *_QUESTIONS))
"""Words that are left out of a query, if it has others."""
_WORD_K1, _GRAM_K1, _B = 1.2, 2.0, 0.75
"""The constants of BM25. They and the weights were chosen with questions of BFCL that no bench asks."""
_TITLE_WEIGHT = 2
_GRAM_WEIGHT = 2.0
"""The weight of parts of words beside that of whole words."""
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
    """From 0 to 1, where 1 is a document that is the best one both by its words and by their parts."""
    coverage: float
    """The share of the query's words that the document has, weighted by their rarity, from 0 to 1."""


class Matches(NamedTuple):
    """What one document shares with a query, with the number of times."""

    key: object
    words: Mapping[str, int]
    grams: Mapping[str, int]
    pairs: Mapping[tuple[str, str], int]
    """Stems that follow each other in the query and in the document."""
    length: int
    """The number of its words."""


class PartCounts(NamedTuple):
    """How many of some documents have each part of a query's words."""

    shared: Mapping[str, int]
    documents: int


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
    """Return the parts of a word of four characters, with a space before and after the word."""
    padded = f" {word} "
    return frozenset(padded[at : at + _GRAM_CHARS] for at in range(max(1, len(padded) - _GRAM_CHARS + 1)))


class Ranker:
    """Compares documents with one query."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words` are as `list_query_words` returns them, in the order of the query."""
        self.words = words
        stems = [find_stem(word) for word in words]
        self._stems = {*stems}
        self._pairs = frozenset(pairwise(stems))
        self._grams = frozenset[str]().union(*map(_list_grams, words))

    def compare(
        self, documents: Iterable[tuple[object, str]], fragments: Iterable[str] = ()
    ) -> list[Matches]:
        """Return what documents, as `make_words` returns them, share with the query.

        Words of the query that are in `fragments` also match the words that contain them.
        """
        split = [(key, words.split()) for key, words in documents]
        known = self._match(set[str]().union(*(words for _, words in split)), [*fragments])
        return [self._count(key, words, known) for key, words in split]

    def count_parts(self, documents: Iterable[tuple[object, str]]) -> PartCounts:
        """Count the documents with each part of the query's words."""
        split = [{*words.split()} for _, words in documents]
        known = self._match(set[str]().union(*split), ())
        shared: dict[str, int] = {}
        for words in split:
            for part in frozenset[str]().union(*(known[word].grams for word in words & known.keys())):
                shared[part] = shared.get(part, 0) + 1
        return PartCounts(shared, len(split))

    def _match(self, words: Iterable[str], fragments: Sequence[str]) -> dict[str, _Match]:
        """Return the words that share something with the query."""
        known: dict[str, _Match] = {TITLE_END: _Match((), frozenset())}
        for word in words:
            own, stem = _list_grams(word), find_stem(word)
            stems = {stem} if stem in self._stems else set[str]()
            stems |= {find_stem(part) for part in fragments if part in word}
            # Most words share nothing with the query.
            if stems or not self._grams.isdisjoint(own):
                known[word] = _Match((*stems,), self._grams & own)
        return known

    def rank(
        self,
        found: Sequence[Matches],
        counts: Mapping[str, int],
        total: int,
        parts: PartCounts | None = None,
    ) -> list[Ranked]:
        """Return the documents with enough in common with the query, the best one first.

        `counts` maps stems to the number of documents with them, of `total`. Stems that are not in it are
        counted in `found`. `parts` are counted in documents that were not chosen by the query; without it,
        in `found`.
        """
        counted = Counter(stem for one in found for stem in one.words)
        weights = {stem: weigh(counts.get(stem, counted[stem]), total) for stem in self._stems}
        norms = _normalize_lengths([one.length for one in found])
        by_words = _score([one.words for one in found], norms, weights, _WORD_K1)
        adjacent = Counter(pair for one in found for pair in one.pairs)
        pairs = {pair: weigh(adjacent[pair], total) for pair in self._pairs}
        by_pairs = _score([one.pairs for one in found], norms, pairs, _WORD_K1)
        if parts is None or not parts.documents:
            parts = PartCounts(Counter(gram for one in found for gram in one.grams), len(found))
        rarity = {gram: weigh(parts.shared.get(gram, 0), parts.documents) for gram in self._grams}
        by_grams = _score([one.grams for one in found], norms, rarity, _GRAM_K1)
        scores = _sum_scores(
            [by_word + by_pair for by_word, by_pair in zip(by_words, by_pairs, strict=True)], by_grams
        )
        whole, all_parts = sum(weights.values()) or 1.0, sum(rarity.values()) or 1.0
        hits = [
            at
            for at, one in enumerate(found)
            if one.words or sum(rarity[gram] for gram in one.grams) >= _LEAST_LIKENESS * all_parts
        ]
        order = sorted(hits, key=lambda at: (-scores[at], str(found[at].key)))
        return [
            Ranked(found[at].key, scores[at], sum(weights[stem] for stem in found[at].words) / whole)
            for at in order
        ]

    def _count(self, key: object, words: Sequence[str], known: Mapping[str, _Match]) -> Matches:
        """Return what a document shares with the query. `known` has the words that share something."""
        shared = [(at, word) for at, word in enumerate(words) if word in known]
        times: dict[str, int] = {}
        weight = _TITLE_WEIGHT
        for _, word in shared:
            if word == TITLE_END:
                weight = 1
            times[word] = times.get(word, 0) + weight
        stems: dict[str, int] = {}
        grams: dict[str, int] = {}
        for word, count in times.items():
            match = known[word]
            for stem in match.stems:
                stems[stem] = stems.get(stem, 0) + count
            for gram in match.grams:
                grams[gram] = grams.get(gram, 0) + count
        pairs = self._count_pairs(shared, known) if len(stems) > 1 else {}
        return Matches(key, stems, grams, pairs, len(words))

    def _count_pairs(
        self, shared: Sequence[tuple[int, str]], known: Mapping[str, _Match]
    ) -> dict[tuple[str, str], int]:
        """Return how often stems follow each other as in the query. `shared` has the places of words."""
        pairs: dict[tuple[str, str], int] = {}
        weight = _TITLE_WEIGHT
        for (at, word), (next_at, next_word) in pairwise(shared):
            if word == TITLE_END:
                weight = 1
            if next_at == at + 1:
                for pair in product(known[word].stems, known[next_word].stems):
                    if pair in self._pairs:
                        pairs[pair] = pairs.get(pair, 0) + weight
        return pairs


def weigh(count: int, total: int) -> float:
    """Return the inverse document frequency of BM25."""
    count = min(count, total)
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def _normalize_lengths(lengths: Sequence[int]) -> list[float]:
    """Return how much the length of each document lowers its score, where 1 is that of an average one."""
    average = sum(lengths) / max(len(lengths), 1) or 1.0
    return [1 - _B + _B * length / average for length in lengths]


def _score(
    documents: Sequence[Mapping[KeyT, int]], norms: Sequence[float], weights: Mapping[KeyT, float], k1: float
) -> list[float]:
    """Return the score of each document by BM25."""
    scores: list[float] = []
    for counts, norm in zip(documents, norms, strict=True):
        if not counts:
            scores.append(0.0)
            continue
        half = k1 * norm
        parts = [weights[term] * times / (times + half) for term, times in counts.items()]
        scores.append((k1 + 1) * sum(parts))
    return scores


def _sum_scores(by_words: Sequence[float], by_grams: Sequence[float]) -> list[float]:
    """Return the weighted sums of two scores, each as a share of its highest value, from 0 to 1."""
    most, most_grams = max(by_words, default=0.0) or 1.0, max(by_grams, default=0.0) or 1.0
    return [
        (by_word / most + _GRAM_WEIGHT * by_gram / most_grams) / (1 + _GRAM_WEIGHT)
        for by_word, by_gram in zip(by_words, by_grams, strict=True)
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
