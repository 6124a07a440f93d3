"""The texts of collections in the database, found by their words and by fragments of words."""

import secrets
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..databases.database import Database, Statement
from ..databases.sampling import add_samples
from ..databases.schema import make_index_key
from .candidates import Candidates, mark, split
from .ranking import Matches, Ranker, list_query_words, make_words, weigh
from .words import digest_text, find_stem, list_parts, make_space, make_terms, measure_bytes

MOST_QUERY_CHARS = 5_000
"""Later characters of a query are ignored."""
_MOST_RANKED_WORDS = 32
"""In a longer query, only the longest words count for the rank."""
SCORED_WHOLLY = 128
"""A collection of up to so many documents is compared with the query document by document."""


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
    """From 0 to 1: the share of the highest score, so comparable within one search only."""
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
        row = (document.id, key, words, add_samples(document.id, terms))
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
            (f"DELETE FROM {table} WHERE collection = ? AND id IN ({mark(some)})", (key, *some))
            for some in split(ids)
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
        ranked_words = {*sorted(words, key=measure_bytes, reverse=True)[:_MOST_RANKED_WORDS]}
        words = [word for word in words if word in ranked_words]
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
            ranked = Candidates(self._database, ranker, collections).rank(keys)
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
            return Candidates(self._database, Ranker(words), collections).weigh(words)
        found = Ranker(words).compare([(row[0], row[1]) for row in rows])
        counts = Counter(stem for one in found for stem in one.words)
        return {word: weigh(counts[find_stem(word)], len(found)) for word in words}

    def _load_small(self, keys: Sequence[str]) -> list[tuple[Any, ...]] | None:
        """Return the id and the words of all documents, or None if they are many and have an index."""
        where = f"FROM documents WHERE collection IN ({mark(keys)})"
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
