"""Texts of collections are found by their words and fragments, in every kind of database alike."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stores.databases import EVERY_STORE, fresh_url

from sandbur.state.databases.database import Database, open_database
from sandbur.state.databases.sqlite.sqlite_database import SqliteDatabase
from sandbur.state.search import documents
from sandbur.state.search.documents import DocumentIndex, IndexedText

TEXTS = {
    "config": "Why does parse_config_file() fail in foo-bar? The file is there.",
    "camel": "The method parseConfigFile of the class FileReader was removed.",
    "login": "登录失败，请检查 the login of a.b(c)",
    "user": "用户登录 works.",
    "syntax": 'The AND of col:val NEAR(x) has "quotes", OR 100% signs*.',
    "umlaut": "Über-strict rules are updated by Zoë.",
    "emoji": "A smile: \N{GRINNING FACE}\N{ZERO WIDTH JOINER} and NUL",
}


@pytest.fixture(params=EVERY_STORE)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with fresh_url(request.param, tmp_path) as url:
        opened = open_database(url)
        yield opened
        opened.close()


def fill(database: Database, collection: str, texts: dict[str, str]) -> DocumentIndex:
    index = DocumentIndex(database)
    statements = [index.put(collection, IndexedText(id, text)) for id, text in texts.items()]
    database.commit([one for several in statements for one in several])
    return index


def found(index: DocumentIndex, text: str, *collections: str) -> list[str]:
    return [hit.id for hit in index.search(text, collections or ("a",))]


def crowd(count: int) -> dict[str, str]:
    """Return texts that make words common: `system` in all of them, `even` in the half of them."""
    return {f"n{n}": f"the system has the number{n} {'even' if n % 2 == 0 else 'odd'}" for n in range(count)}


@pytest.mark.parametrize("others", [0, documents.SCORED_WHOLLY + 200])
def test_words_identifiers_fragments_and_chinese_are_found(database: Database, others: int) -> None:
    index = fill(database, "a", TEXTS | crowd(others))
    assert set(found(index, "parse_config_file")[:2]) == {"config", "camel"}
    assert set(found(index, "config_fi")[:2]) == {"config", "camel"}
    assert set(found(index, "onfig")) == {"config", "camel"}
    assert found(index, "登录失败")[0] == "login"
    assert set(found(index, "登录")) == {"login", "user"}
    assert found(index, "foo-bar") == ["config"]
    assert found(index, "col:val")[0] == "syntax"
    assert found(index, "uber update")[0] == "umlaut"
    assert found(index, "zoe") == ["umlaut"]
    assert found(index, "nothing-of-that-kind") == []
    if others:
        assert found(index, f"the system with number{others - 1}")[0] == f"n{others - 1}"
        assert len(found(index, "the system")) == 10
        assert found(index, "system even odd") != []


@pytest.mark.parametrize(
    "query",
    [
        "", " ", "AND", "OR NOT", '"', "'", "'); DROP TABLE documents; --", "a* b", "NEAR(a b)", "-", "%",
        "_", "\\",
        "\0", "\ud800", "(", "col:val", "\N{GRINNING FACE}", "+a -b ~c <d >e @4 *", "x" * 10_000,
        "many different words " * 500, " ".join(f"w{n}" for n in range(2000)), "登" * 3000, "?", "%s",
    ],
)  # fmt: skip
def test_any_text_is_a_query(database: Database, query: str) -> None:
    index = fill(database, "a", TEXTS | crowd(documents.SCORED_WHOLLY))
    assert len(found(index, query)) <= 10


def test_any_text_is_a_document(database: Database) -> None:
    texts = {
        "nul": "a\0b zebra",
        "half": "\ud800 zebra",
        "long": "zebra " * 3000,
        "word": f"zebra {'x' * 9000}",
    }
    index = fill(database, "a", texts)
    assert set(found(index, "zebra")) == set(texts)


def test_a_search_sees_only_the_collections_that_it_names(database: Database) -> None:
    fill(database, "b", {"other": "zebra two"} | crowd(documents.SCORED_WHOLLY))
    index = fill(database, "a", {"mine": "zebra one"})
    assert found(index, "zebra", "a") == ["mine"]
    assert found(index, "zebra", "b") == ["other"]
    assert set(found(index, "zebra", "a", "b")) == {"mine", "other"}
    assert found(index, "zebra", "c") == []
    assert index.search("zebra", []) == []


def test_a_replaced_text_is_found_by_its_new_words_only(database: Database) -> None:
    index = fill(database, "a", {"one": "zebra", "two": "lion"})
    database.commit(index.put("a", IndexedText("one", "tiger")))
    assert (found(index, "zebra"), found(index, "tiger")) == ([], ["one"])
    database.commit(index.remove("a", ["one", "two"]))
    assert found(index, "tiger lion") == []


class WithoutIndex(SqliteDatabase):
    """A database of somebody else, which has no full-text index."""

    document_search = None


def test_a_database_without_an_index_is_searched_text_by_text(tmp_path: Path) -> None:
    database = WithoutIndex(tmp_path / "store.db")
    index = fill(database, "a", TEXTS | crowd(documents.SCORED_WHOLLY + 100))
    assert set(found(index, "config_fi")[:2]) == {"config", "camel"}
    assert set(found(index, "登录")) == {"login", "user"}
    assert found(index, "system number7")[0] == "n7"
    database.close()


def test_words_of_a_title_count_more(database: Database) -> None:
    index = DocumentIndex(database)
    one, two = IndexedText("text", "zebra here", "page"), IndexedText("title", "page here", "zebra")
    database.commit([*index.put("a", one), *index.put("a", two)])
    assert found(index, "zebra") == ["title", "text"]


def test_the_score_and_the_coverage_say_how_much_matches(database: Database) -> None:
    index = fill(database, "a", {"both": "zebra lion", "one": "zebra crossing"})
    both, one = index.search("zebra lion", ["a"])
    assert (both.id, both.coverage, both.score) == ("both", 1.0, 1.0)
    assert 0 < one.coverage < 1
    assert 0 < one.score < 1
