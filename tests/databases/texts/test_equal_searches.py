"""Large collections: every database finds the same documents, and a search reads a bounded number of rows."""

import random
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.stores.databases import DATABASES, SERVERS, fresh_url
from support.stores.old_stores import STORES, write_old_store
from support.waiting import wait_for

from sandbur.state.databases.database import Database, open_database
from sandbur.state.databases.sqlite.sqlite_database import SqliteDatabase
from sandbur.state.search.documents import DocumentIndex, IndexedText

DOCUMENTS = 3000
MOST_ROWS = 3000
"""The most rows that a search reads, whatever the query and however many documents there are."""
COMMON = ("system", "error", "user", "server", "request", "failed", "connection", "login")
QUERIES = (
    "system", "error user server", " ".join(COMMON), "needle7 needle11", "connection needle7", "the and of",
    "failed login of a user", "parse_config_file", "onfig", "yste", "用户登录失败", "登录 system", "失",
    "requests failing unknownword", " ".join(f"w{n}" for n in range(300)), "Login-Failed", "only nothing",
)  # fmt: skip


def make_texts() -> Iterator[IndexedText]:
    """Yield texts in which most words of a query are in a third of all of them."""
    chance = random.Random(5)
    for number in range(DOCUMENTS):
        words = [word for word in COMMON if chance.random() < 0.35]
        words += [f"w{int(chance.paretovariate(0.6)) % 5000}" for _ in range(8)]
        words += [f"needle{number % 500}", "parse_config_file" if number % 9 == 0 else "plain"]
        words += ["用户登录失败"] * (number % 7 == 0)
        chance.shuffle(words)
        yield IndexedText(f"d{number}", " ".join(words), f"page {number % 50}")


def fill(database: Database) -> DocumentIndex:
    index = DocumentIndex(database)
    statements: list[Any] = []
    for document in make_texts():
        statements += index.put("a", document)
        if len(statements) > 1000:
            database.commit(statements)
            statements = []
    database.commit(statements)
    return index


class CountingDatabase(SqliteDatabase):
    """A database that counts the rows it returns."""

    rows = 0

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        found = super().query(sql, parameters)
        self.rows += len(found)
        return found


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CountingDatabase, DocumentIndex]]:
    database = CountingDatabase(tmp_path_factory.mktemp("counting") / "store.db")
    yield database, fill(database)
    database.close()


def require_equal(index: DocumentIndex, expected: DocumentIndex, query: str) -> None:
    """Check that two indexes find the same.

    While MariaDB writes many new words from its memory into the index, a search can miss some of them.
    """
    wanted = expected.search(query, ["a"])
    wait_for(
        lambda: index.search(query, ["a"]) == wanted, lambda: (query, index.search(query, ["a"]), wanted)
    )


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_finds_what_sqlite_finds(
    kind: str, tmp_path: Path, counting: tuple[CountingDatabase, DocumentIndex]
) -> None:
    with fresh_url(kind, tmp_path) as url:
        database = open_database(url)
        index = fill(database)
        for query in QUERIES:
            require_equal(index, counting[1], query)
        database.close()


def take_samples_out(terms: str) -> str:
    """Return terms as version 9 wrote them: without those of samples, which have a digit after the space."""
    return " ".join(term for term in terms.split() if not term[4].isdigit())


def make_older(kind: str, folder: Path, url: str, source: Database) -> str:
    """Write the documents of `source` into a store of version 9; return its URL."""
    rows = source.query("SELECT id, collection, words, terms FROM documents")
    older = [(*row[:3], take_samples_out(row[3])) for row in rows]
    sql = "INSERT INTO documents (id, collection, words, terms) VALUES (?, ?, ?, ?)"
    if kind == "sqlite":
        path = write_old_store(STORES[8], folder)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executemany(sql, older)
        return f"sqlite:///{path}"
    database = open_database(url)
    DocumentIndex(database).prepare()
    database.commit([*((sql, row) for row in older), OF_VERSION_9])
    database.close()
    return url


OF_VERSION_9 = ("UPDATE meta SET value = '9' WHERE name = 'schema'", ())


@pytest.mark.parametrize("kind", DATABASES)
def test_documents_of_an_older_store_are_found_like_new_ones(
    kind: str, tmp_path: Path, counting: tuple[CountingDatabase, DocumentIndex]
) -> None:
    source, expected = counting
    by_id = "SELECT id, terms FROM documents WHERE collection = 'a' ORDER BY id"
    with fresh_url(kind, tmp_path) as fresh:
        url = make_older(kind, tmp_path, fresh, source)
        both = [threading.Thread(target=lambda: open_database(url).close()) for _ in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        database = open_database(url)
        assert sorted(database.query(by_id)) == sorted(source.query(by_id))
        index = DocumentIndex(database)
        for query in QUERIES:
            require_equal(index, expected, query)
        database.close()


@pytest.mark.parametrize("kind", SERVERS)
def test_an_update_of_documents_that_was_broken_off_goes_on(
    kind: str, tmp_path: Path, counting: tuple[CountingDatabase, DocumentIndex]
) -> None:
    by_id = "SELECT id, terms FROM documents ORDER BY id"
    with fresh_url(kind, tmp_path) as url:
        database = open_database(make_older(kind, tmp_path, url, counting[0]))
        whole = database.query(by_id)
        half = [
            ("UPDATE documents SET terms = ? WHERE id = ?", (take_samples_out(terms), id))
            for id, terms in whole[: len(whole) // 2]
        ]
        database.commit([*half, OF_VERSION_9])
        database.close()
        database = open_database(url)
        assert database.query(by_id) == whole
        database.close()


ANY_CHARACTER = st.characters()
CONTROL = st.characters(categories=("Cc", "Cf", "Cs"))
PUNCTUATION = st.characters(categories=("Pc", "Pd", "Ps", "Pe", "Po", "Sm"))
CHINESE = st.characters(min_codepoint=0x4E00, max_codepoint=0x4E20)
WORD = st.sampled_from((*COMMON, "needle7", "onfig", "登录", "the", "of", "AND", "NEAR(", '"', "'", "*"))
QUERY = st.one_of(
    st.text(ANY_CHARACTER),
    st.text(CONTROL),
    st.text(PUNCTUATION),
    st.text(CHINESE | st.characters(codec="ascii")),
    st.lists(WORD, max_size=60).map(" ".join),
    st.lists(WORD | st.text(ANY_CHARACTER), max_size=40).map("".join),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(QUERY)
@example(" ".join(COMMON))
@example("needle7 " * 125_000)
@example(" ".join(f"{word}{n}" for n in range(20_000) for word in COMMON))
@example("登录" * 500_000)
@example("the of and to")
@example("?!.,;:-()[]{}")
@example("system\0error")
def test_a_search_reads_a_bounded_number_of_rows(
    counting: tuple[CountingDatabase, DocumentIndex], query: str
) -> None:
    database, index = counting
    before = database.rows
    hits = index.search(query, ["a"])
    assert database.rows - before <= MOST_ROWS
    assert len({hit.id for hit in hits}) == len(hits) <= 10
    assert all(0 <= hit.coverage <= 1 + 1e-9 and 0 < hit.score <= 1 for hit in hits)


def test_a_word_beside_an_unknown_one_is_found(counting: tuple[CountingDatabase, DocumentIndex]) -> None:
    assert len(counting[1].search("system qqqqqq", ["a"])) == 10


def test_words_that_are_common_together_are_found_together(
    counting: tuple[CountingDatabase, DocumentIndex],
) -> None:
    texts = {one.id: one.text for one in make_texts()}
    for hit in counting[1].search("system error", ["a"], 5):
        assert {"system", "error"} <= {*texts[hit.id].split()}


def test_rare_words_beside_common_ones_are_found_in_every_document(
    counting: tuple[CountingDatabase, DocumentIndex],
) -> None:
    found = {hit.id for hit in counting[1].search("needle77 system error user", ["a"], 10)}
    assert {f"d{number}" for number in range(77, DOCUMENTS, 500)} <= found
