"""Vectors of knowledge bases on every database: killed while they are made, and made once per text."""

import asyncio
import json
import signal
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.network.web_site import Seen, WebSite, page
from support.stores.databases import DATABASES, empty_url
from support.victims.victims import run_victim

from sandbur.agent.knowledge.retrieval.library import Library
from sandbur.agent.session.secrets import masker_for
from sandbur.state.errors import ModelError, SandburError
from sandbur.state.store.store import Store

pytest.importorskip("numpy")


def embed(text: str) -> list[float]:
    """Return a vector with a part for each word."""
    vector = [0.01] * 32
    for word in text.lower().split():
        vector[zlib.crc32(word.encode()) % 32] += 1
    return vector


class CountingModel:
    """Implements `Embedder`; keeps the texts that it gets, and fails after `most` calls."""

    dimensions = 32

    def __init__(self, name: str = "openai/small", most: int = 1000) -> None:
        self.name = name
        self.texts: list[str] = []
        self._left = most

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if not self._left:
            raise ModelError("The endpoint is down.")
        self._left -= 1
        self.texts += texts
        return [embed(text) for text in texts]


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_url(request.param, tmp_path) as fresh:
        yield fresh


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = (tmp_path / "docs").resolve()
    folder.mkdir()
    for n in range(150):
        (folder / f"file{n}.txt").write_text(f"animal{n} lives here")
    return folder


def opened(store: Store, docs: Path, model: CountingModel) -> Library:
    return Library(store.database, "", masker_for({}, docs), embedder=model)


def count_vectors(store: Store) -> int:
    return int(store.database.query("SELECT COUNT(*) FROM vectors WHERE id <> ''")[0][0])


async def test_a_text_is_embedded_once_in_all_files_and_bases(url: str, docs: Path) -> None:
    store = Store.open(url)
    (docs / "copy.txt").write_text("animal7 lives here")
    model = CountingModel()
    library = opened(store, docs, model)
    first, second = [await library.open_base(name, "") for name in ("first", "second")]
    for base in (first, second):
        await library.add(base, docs)
        await library.embed(base)
    assert len(model.texts) == 150
    assert count_vectors(store) == 302
    near = await library.search("animal7 lives here", await library.list_bases(), 4)
    assert {(one.base, Path(one.path).name) for one in near} == {
        (base, name) for base in ("first", "second") for name in ("file7.txt", "copy.txt")
    }
    model.texts.clear()
    await library.embed(second, is_new_model=True)
    assert len(model.texts) == 150  # as the person asked for new ones
    other = opened(store, docs, CountingModel("openai/large"))
    with pytest.raises(SandburError, match="cannot be compared"):
        await other.embed(first)
    assert count_vectors(store) == 302
    store.close()


async def test_a_failure_between_groups_keeps_the_groups_before_it(url: str, docs: Path) -> None:
    store = Store.open(url)
    failing = CountingModel(most=1)
    library = opened(store, docs, failing)
    base = await library.open_base("project", "")
    await library.add(base, docs)
    with pytest.raises(ModelError, match="The endpoint is down"):
        await library.embed(base)
    assert count_vectors(store) == len(failing.texts) == 128
    going_on = CountingModel()
    await opened(store, docs, going_on).embed(base)
    assert len(going_on.texts) == 22
    assert count_vectors(store) == 150
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["vectors_before_commit", "vectors_committed"])
async def test_killed_between_vectors_the_next_run_makes_the_rest(url: str, docs: Path, point: str) -> None:
    asked: list[str] = []

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        texts = json.loads(seen.body)["input"]
        asked.extend(texts)
        rows = [{"index": at, "embedding": embed(text)} for at, text in enumerate(texts)]
        writer.write(page(json.dumps({"data": rows}), "application/json"))

    async with WebSite({"/v1/embeddings": answer}) as site:
        settings = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": f"{site.url}/v1"}

        async def run(operation: str, at: str = "") -> int:
            words = ("agents/knowledge_victim", url, str(docs), operation)
            return (await asyncio.to_thread(run_victim, *words, point=at, **settings)).code

        assert await run("add") == 0
        assert await run("embed", point) == -signal.SIGKILL
        kept = 128 if point == "vectors_committed" else 0
        store = Store.open(url)
        assert count_vectors(store) == kept
        assert len(asked) == 128
        assert await run("embed") == 0
        assert len(asked) == 128 + 150 - kept
        assert count_vectors(store) == 150
        assert store.database.find_problems() == []
        store.close()
