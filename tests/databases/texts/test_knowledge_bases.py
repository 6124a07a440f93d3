"""Knowledge bases are the same on every database, and a killed process leaves them consistent."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stores.databases import DATABASES, empty_url
from support.victims.victims import run_victim

from sandbur.agent.knowledge.retrieval.library import Library
from sandbur.agent.session.secrets import masker_for
from sandbur.state.store.store import Store

POINTS = ("knowledge_before_commit", "store_in_transaction", "knowledge_committed")


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_url(request.param, tmp_path) as fresh:
        yield fresh


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = (tmp_path / "docs").resolve()
    folder.mkdir()
    for n in range(150):
        (folder / f"file{n}.md").write_text(
            f"# Part {n}\nThe animal{n} and the zebra. 登录失败\n\n## More\nEnd.\n"
        )
    return folder


async def look(url: str, docs: Path) -> tuple[int, int, int]:
    """Return how many files, chunks and texts for the search there are, which belong together."""
    store = Store.open(url)
    library = Library(store.database, "", masker_for({}, docs))
    bases = await library.list_bases()
    sources = [source for base in bases for source in library.rows.list_sources(base)]
    (chunks,) = store.database.query("SELECT COUNT(*) FROM knowledge_chunks")[0]
    (texts,) = store.database.query("SELECT COUNT(*) FROM documents")[0]
    assert sum(source.chunks for source in sources) == chunks == texts
    assert store.database.find_problems() == []
    store.close()
    return len(sources), int(chunks), int(texts)


async def test_files_are_found_on_every_database(url: str, docs: Path) -> None:
    store = Store.open(url)
    library = Library(store.database, "", masker_for({}, docs))
    base = await library.open_base("project", str(docs))
    assert (await library.add(base, docs)).chunks == 300
    for query, count in (("animal77", 1), ("nimal77", 1), ("登录", 8), ("zebra", 8), ("walrus", 0)):
        assert len(await library.search(query, [base])) == count, query
    (docs / "file77.md").write_text("# Walrus\n")
    assert (await library.update(base)).changed == 1
    assert await library.search("animal77", [base]) == []
    assert [one.first for one in await library.search("walrus", [base])] == [1]
    assert await library.remove(base) == 150
    assert await library.list_bases() == []
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
async def test_killed_indexing_goes_on_where_it_was(url: str, docs: Path, point: str) -> None:
    died = run_victim("agents/knowledge_victim", url, str(docs), "add", point=point)
    assert died.code == -signal.SIGKILL, died.err
    if point != "store_in_transaction":
        files, _, _ = await look(url, docs)
        assert files == (64 if point == "knowledge_committed" else 0)
    again = run_victim("agents/knowledge_victim", url, str(docs), "add")
    assert again.code == 0, again.err
    assert await look(url, docs) == (150, 300, 300)
    for n in range(100):
        (docs / f"file{n}.md").unlink()
    died = run_victim("agents/knowledge_victim", url, str(docs), "update", point=point)
    assert died.code == -signal.SIGKILL, died.err
    await look(url, docs)
    assert run_victim("agents/knowledge_victim", url, str(docs), "update").code == 0
    assert await look(url, docs) == (50, 100, 100)


@pytest.mark.slow
async def test_a_killed_removal_is_completed_by_the_next_one(url: str, docs: Path) -> None:
    assert run_victim("agents/knowledge_victim", url, str(docs), "add").code == 0
    died = run_victim("agents/knowledge_victim", url, str(docs), "remove", point="knowledge_committed")
    assert died.code == -signal.SIGKILL, died.err
    files, _, _ = await look(url, docs)
    assert files in (0, 150)
    assert run_victim("agents/knowledge_victim", url, str(docs), "remove").code == 0
    assert await look(url, docs) == (0, 0, 0)
