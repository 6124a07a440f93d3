"""The texts of collections in the database, found by their words and by fragments of words."""

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..databases.database import Database, Statement
from ..databases.schema import make_index_key
from .ranking import Matches, Ranked, Ranker, list_query_words, make_words, weigh
from .words import (
    digest_text,
    find_stem,
    list_parts,
    make_fragment_term,
    make_space,
    make_stem_term,
    make_terms,
)

MOST_QUERY_CHARS = 5_000
"""Later characters of a query are ignored."""
_MOST_QUERY_WORDS, _MOST_RANKED_WORDS = 12, 40
"""Of a longer query, the longest words are searched for, and some more count for the rank: they are the
rarest ones.
"""
SCORED_WHOLLY = 128
"""A collection of up to so many documents is compared with the query document by document."""
_MOST_OF_A_WORD = 256
"""A word with more documents is common. Of those, only such that have another word, too, are compared."""
_MOST_COUNTED, _MOST_TOTAL = 2000, 10_000
_MOST_COMPARED = 128
_MOST_COMMON = 4
_MOST_AT_ONCE = 500


class IndexedText(NamedTuple):
    """A text to search for."""

    id: str
    """Up to 64 characters, unique in the store."""
    text: str
    title: str = ""
    """Words that count twice, such as a path, a name or a heading."""
    has_word_ends: bool = True
    """Whether a fragment inside of a word finds the text. Without, the start of a word does, and the entry
    in the index is a third as long.
    """


class TextHit(NamedTuple):
    """A document that was found."""

    id: str
    score: float
    """From 0 to 1: by the places in the orders that were fused, so comparable within one search only."""
    coverage: float
    """The share of the query's words in the document, weighted by their rarity, from 0 to 1."""


class DocumentIndex:
    """Searches in collections and makes the statements that change them.

    Statements are made rather than run, so that a document changes in the transaction of what it describes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_prepared = False

    def prepare(self) -> None:
        """Create the full-text index if it is missing. The statements of this class rely on it."""
        if not self._is_prepared:
            self._database.create_document_search()
            self._is_prepared = True

    def put(self, collection: str, document: IndexedText) -> list[Statement]:
        """Return the statements that add a document, or replace the one with its id.

        If its text has changed, its vector is removed.
        """
        self.prepare()
        key = make_index_key(collection)
        space = make_space(collection)
        both = list_parts(f"{document.title}\n{document.text}", with_single=True)
        words = make_words(document.title, document.text)
        terms = make_terms(space, both, with_ends=document.has_word_ends)
        row = (document.id, key, words, terms)
        sql = (
            "INSERT INTO documents (id, collection, words, terms) VALUES (?, ?, ?, ?) ON CONFLICT (id)"
            " DO UPDATE SET collection = excluded.collection, words = excluded.words, terms = excluded.terms"
        )
        outdated = (key, document.id, digest_text(document.text))
        return [(sql, row), ("DELETE FROM vectors WHERE collection = ? AND id = ? AND digest <> ?", outdated)]

    def remove(self, collection: str, ids: Sequence[str]) -> list[Statement]:
        """Return the statements that remove documents and their vectors."""
        self.prepare()
        key = make_index_key(collection)
        deletions = [
            (f"DELETE FROM {table} WHERE collection = ? AND id IN ({_mark(some)})", (key, *some))
            for some in _split(ids)
            for table in ("documents", "vectors")
        ]
        # Processes that have loaded the vectors see that they have changed.
        changed = "UPDATE vectors SET digest = ? WHERE collection = ? AND id = ''"
        return [*deletions, (changed, (secrets.token_hex(16), key))]

    def search(self, text: str, collections: Sequence[str], limit: int = 10) -> list[TextHit]:
        """Return the documents of collections that match a text best, the best one first.

        Any text is a query. A word of it is found with English endings, as a part of an identifier, and, if
        no document has it, as a fragment of words. The time is bounded, whatever the words are.
        """
        words = list_query_words(text[:MOST_QUERY_CHARS])
        words = sorted(words, key=_measure, reverse=True)[:_MOST_RANKED_WORDS]
        if not words or not collections or limit < 1:
            return []
        self.prepare()
        ranker = Ranker(words)
        keys = list(dict.fromkeys(map(make_index_key, collections)))
        rows = self._load_small(keys)
        if rows is not None:
            found = _compare_all(ranker, rows)
            ranked = ranker.rank(found, {}, len(found))
        else:
            ranked = _Candidates(self._database, ranker, collections).rank(keys)
        return [TextHit(str(one.key), one.score, one.coverage) for one in ranked[:limit]]

    def weigh_words(self, words: Sequence[str], collections: Sequence[str]) -> dict[str, float]:
        """Return the weight of each word, the higher the rarer it is in collections. Counts are bounded.

        `words` are as `list_query_words` returns them.
        """
        self.prepare()
        words = [*words[:_MOST_RANKED_WORDS]]
        keys = list(dict.fromkeys(map(make_index_key, collections)))
        rows = self._load_small(keys)
        if rows is None:
            return _Candidates(self._database, Ranker(words), collections).weigh(words, keys)
        found = Ranker(words).compare([(row[0], row[1]) for row in rows])
        counts = Counter(stem for one in found for stem in one.words)
        return {word: weigh(counts[find_stem(word)], len(found)) for word in words}

    def _load_small(self, keys: Sequence[str]) -> list[tuple[Any, ...]] | None:
        """Return the id and the words of all documents, or None if they are many and have an index."""
        where = f"FROM documents WHERE collection IN ({_mark(keys)})"
        if self._database.document_search is not None:
            few = f"SELECT COUNT(*) FROM (SELECT 1 {where} LIMIT {SCORED_WHOLLY + 1}) AS q"
            if int(self._database.query(few, keys)[0][0]) > SCORED_WHOLLY:
                return None
        return self._database.query(f"SELECT id, words {where}", keys)


def _compare_all(ranker: Ranker, rows: Sequence[tuple[Any, ...]]) -> list[Matches]:
    """Compare documents with a query. Words of the query that are in no document are fragments."""
    documents = [(row[0], row[1]) for row in rows]
    found = ranker.compare(documents)
    known = {stem for one in found for stem in one.words}
    unknown = [word for word in ranker.words if find_stem(word) not in known]
    return ranker.compare(documents, unknown) if unknown else found


class _Candidates:
    """Finds the documents of large collections that are compared with a query."""

    def __init__(self, database: Database, ranker: Ranker, collections: Sequence[str]) -> None:
        assert database.document_search is not None
        self._database = database
        self._index = database.document_search
        self._ranker = ranker
        self._words = ranker.words[:_MOST_QUERY_WORDS]
        self._spaces = [*map(make_space, collections)]

    def rank(self, collections: Sequence[str]) -> list[Ranked]:
        terms = {word: self._list_stem_terms(word) for word in self._words}
        found = self._find_each(terms)
        unknown = [word for word in self._words if not found[word]]
        inside = {word: fragments for word in unknown if (fragments := self._list_fragment_terms(word))}
        found |= self._find_each(inside)
        terms |= inside
        common = [word for word, keys in found.items() if len(keys) > _MOST_OF_A_WORD]
        counts = {word: len(keys) for word, keys in found.items()} | self._count(common, terms)
        common = sorted(common, key=lambda word: counts[word])[:_MOST_COMMON]
        chosen = self._choose(found, counts, [terms[word] for word in common], common)
        rows = self._load(chosen, collections)
        total = self._count_total(collections)
        by_stem = {find_stem(word): count for word, count in counts.items()}
        return self._ranker.rank(self._ranker.compare(rows, unknown), by_stem, total)

    def weigh(self, words: Sequence[str], collections: Sequence[str]) -> dict[str, float]:
        """Return the weight of each word by the number of documents with it."""
        counts = self._count(words, {word: self._list_stem_terms(word) for word in words})
        total = self._count_total(collections)
        return {word: weigh(counts.get(word, 0), total) for word in words}

    def _list_stem_terms(self, word: str) -> list[str]:
        return [self._index.term.format(make_stem_term(space, word)) for space in self._spaces]

    def _list_fragment_terms(self, word: str) -> list[str]:
        starts = [make_fragment_term(space, word) for space in self._spaces]
        if self._index.prefix:
            return [*map(self._index.prefix.format, starts)]
        rows = (self._database.query(self._index.expand, (start, f"{start}~")) for start in starts)
        return [self._index.term.format(row[0]) for several in rows for row in several]

    def _find_each(self, terms: Mapping[str, Sequence[str]]) -> dict[str, list[Any]]:
        """Return the keys of documents with one of the terms of each word: all, or the first ones."""
        found: dict[str, list[Any]] = {word: [] for word in terms}
        if not terms:
            return found
        words = list(terms)
        limit = _MOST_OF_A_WORD + 1
        parts = [
            f"SELECT {at} AS word, q.* FROM ({self._index.find} LIMIT {limit}) AS q"
            for at in range(len(words))
        ]
        values = [self._index.match([terms[word]]) for word in words]
        for at, key in self._database.query(" UNION ALL ".join(parts), values):
            found[words[int(at)]].append(key)
        return found

    def _count(self, words: Sequence[str], terms: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Return the number of documents with each word, up to a limit."""
        if not words:
            return {}
        parts = [
            f"SELECT {at} AS word, COUNT(*) FROM ({self._index.find} LIMIT {_MOST_COUNTED}) AS q"
            for at in range(len(words))
        ]
        values = [self._index.match([terms[word]]) for word in words]
        rows = self._database.query(" UNION ALL ".join(parts), values)
        return {words[int(at)]: int(count) for at, count in rows}

    def _choose(
        self,
        found: Mapping[str, Sequence[Any]],
        counts: Mapping[str, int],
        groups: Sequence[Sequence[str]],
        common: Sequence[str],
    ) -> list[Any]:
        """Return the keys to compare: those with the rarest words, and those with all common words."""
        scores: dict[Any, float] = {}
        for word, keys in found.items():
            if len(keys) <= _MOST_OF_A_WORD:
                for key in keys:
                    scores[key] = scores.get(key, 0.0) + 1 / (1 + counts[word])
        rare = sorted(scores, key=lambda key: -scores[key])[:_MOST_COMPARED]
        together: dict[Any, None] = {}
        for size in range(len(groups), 1, -1):
            if len(together) >= _MOST_COMPARED // 2:
                break
            sql = f"{self._index.find} LIMIT {_MOST_COMPARED // 2}"
            rows = self._database.query(sql, (self._index.match(groups[:size]),))
            together |= dict.fromkeys(row[0] for row in rows)
        if not rare and not together and common:
            together |= dict.fromkeys(found[common[0]][: _MOST_COMPARED // 2])
        return list(dict.fromkeys([*rare, *together]))

    def _load(self, keys: Sequence[Any], collections: Sequence[str]) -> list[tuple[object, str]]:
        """Return the id and the words of documents, if they are in one of the collections."""
        rows: list[tuple[object, str]] = []
        for some in _split(keys):
            # A condition on the collection would make SQLite read the whole collection.
            sql = f"SELECT id, words, collection FROM documents WHERE {self._index.key} IN ({_mark(some)})"
            found = self._database.query(sql, some)
            rows += ((row[0], row[1]) for row in found if row[2] in collections)
        return rows

    def _count_total(self, collections: Sequence[str]) -> int:
        where = f"collection IN ({_mark(collections)}) LIMIT {_MOST_TOTAL}"
        counted = f"SELECT COUNT(*) FROM (SELECT 1 FROM documents WHERE {where}) AS q"
        return int(self._database.query(counted, collections)[0][0])


def _measure(word: str) -> int:
    """Return the bytes of a word. One of two Chinese characters is as long as one of six letters."""
    return len(word.encode("utf-8", "replace"))


def _mark(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _split(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the values in groups that fit into one statement."""
    for begin in range(0, len(values), _MOST_AT_ONCE):
        yield values[begin : begin + _MOST_AT_ONCE]
