"""Vectors of documents: the nearest ones are found, models are not mixed, and changes are seen."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT
from support.stores.databases import EVERY_STORE, fresh_url

from sandbur.state.databases.database import Database, open_database
from sandbur.state.errors import UsageError
from sandbur.state.search.documents import DocumentIndex, IndexedText
from sandbur.state.search.vectors import StoredVector, VectorIndex, VectorModel

MODEL = VectorModel("small", 48)


@pytest.fixture(params=EVERY_STORE)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with fresh_url(request.param, tmp_path) as url:
        opened = open_database(url)
        yield opened
        opened.close()


def make_vectors(count: int, seed: int = 1) -> list[StoredVector]:
    chance = random.Random(seed)
    return [
        StoredVector(f"v{n}", f"text {n}", [chance.gauss(0, 1) for _ in range(MODEL.dimensions)])
        for n in range(count)
    ]


def test_the_nearest_vectors_are_found_with_their_cosine(database: Database) -> None:
    index = VectorIndex(database, "a", MODEL)
    vectors = make_vectors(600)
    database.commit(index.put(vectors))
    wanted = vectors[123]
    nearly = [value + 0.05 for value in wanted.values]
    first, second = index.search(nearly, 2)
    assert first.id == "v123"
    assert 0.99 < first.similarity <= 1.001
    assert second.similarity < first.similarity
    assert len(index.search(nearly, 1000)) == 600
    assert VectorIndex(database, "empty", MODEL).search(nearly) == []


def test_vectors_of_another_model_and_wrong_ones_are_refused(database: Database) -> None:
    index = VectorIndex(database, "a", MODEL)
    (one,) = make_vectors(1)
    database.commit(index.put([one]))
    for other in (VectorModel("large", 48), VectorModel("small", 3)):
        with pytest.raises(UsageError, match="vectors of the model small with 48 dimensions"):
            VectorIndex(database, "a", other).search([1.0] * other.dimensions)
    for wrong in ([1.0], [0.0] * 48, [float("nan")] * 48, [float("inf")] * 48):
        with pytest.raises(UsageError, match="48 finite numbers"):
            index.put([StoredVector("x", "x", wrong)])
    with pytest.raises(UsageError, match="dimensions"):
        VectorIndex(database, "a", VectorModel("none", 0))


def test_other_processes_see_what_was_added_replaced_and_removed(database: Database) -> None:
    writer, reader = (VectorIndex(database, "a", MODEL) for _ in range(2))
    texts = DocumentIndex(database)
    one, two = make_vectors(2)
    database.commit([*texts.put("a", IndexedText("v0", one.text)), *writer.put([one])])
    assert [near.id for near in reader.search(one.values)] == ["v0"]
    database.commit(writer.put([two]))
    assert [near.id for near in reader.search(two.values)] == ["v1", "v0"]
    assert set(reader.list_digests()) == {"v0", "v1"}
    database.commit(texts.put("a", IndexedText("v0", one.text, "another title")))
    assert set(reader.list_digests()) == {"v0", "v1"}
    database.commit(texts.put("a", IndexedText("v0", "another text")))
    assert set(reader.list_digests()) == {"v1"}
    database.commit(texts.remove("a", ["v0", "v1"]))
    assert reader.search(one.values) == []


def test_without_numpy_vectors_are_refused_with_one_sentence() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from sandbur.state.databases.database import open_database\n"
        "from sandbur.state.search.vectors import VectorIndex, VectorModel\n"
        "from sandbur.state.errors import UsageError\n"
        "try: VectorIndex(open_database('memory:'), 'a', VectorModel('m', 3))\n"
        "except UsageError as error: print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ended.stdout.startswith("Vectors need numpy 2 or newer. Install it: ")
    assert "[embeddings]" in ended.stdout
