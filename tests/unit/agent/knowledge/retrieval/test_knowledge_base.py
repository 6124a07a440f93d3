"""Programs keep knowledge bases, search them, and give them to agents."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.models.scripted import ScriptedModel

import sandbur
from sandbur import Agent, KnowledgeBase, Passage, SandburError


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data")}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = (tmp_path / "docs").resolve()
    folder.mkdir()
    (folder / "install.md").write_text("# Install\nUse the zebra package.\n")
    (folder / "run.md").write_text("# Run\nStart the zebra program with care.\n")
    return folder


def name(passages: Sequence[Passage]) -> list[str]:
    return [Path(one.path).name for one in passages]


async def test_files_and_texts_are_added_searched_updated_and_removed(
    env: dict[str, str], docs: Path
) -> None:
    async with KnowledgeBase("docs", env=env) as base:
        assert (await base.add(docs)).added == 2
        await base.add(text="# Note\nThe okapi is new.\n", name="note.md")
        (found,) = await base.search("okapi")
        assert found.cite(docs) == "[text:note.md:1-2]"
        assert sorted(name(await base.search("zebra"))) == ["install.md", "run.md"]
        await base.add(text="The lemur is new.", name="note.md")
        assert await base.search("okapi") == []
        (docs / "run.md").unlink()
        assert (await base.update()).removed == 1
        assert await base.remove(docs) == 1
        assert name(await base.search("zebra lemur")) == ["text:note.md"]
    async with KnowledgeBase("docs", env=env) as again:
        assert await again.remove() == 1
        with pytest.raises(SandburError, match="The knowledge base 'docs' is empty"):
            await again.search("zebra")


async def test_a_threshold_leaves_weak_passages_out(env: dict[str, str], docs: Path) -> None:
    async with KnowledgeBase("docs", threshold=0.9, env=env) as base:
        await base.add(docs)
        assert name(await base.search("zebra package")) == ["install.md"]
        assert len(await base.search("zebra package", threshold=0.1)) == 2
        assert len(await base.search("zebra package", threshold=0, limit=1)) == 1


async def test_queries_are_rewritten_and_passages_reranked(env: dict[str, str], docs: Path) -> None:
    asked: list[str] = []

    def rewrite(query: str) -> list[str]:
        asked.append(query)
        return ["package", "program care"]

    async def rerank(query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        asked.append(query)
        return sorted(passages, key=lambda one: one.path, reverse=True)

    async with KnowledgeBase("docs", rewrite=rewrite, rerank=rerank, env=env) as base:
        await base.add(docs)
        assert name(await base.search("what?")) == ["run.md", "install.md"]
        assert asked == ["what?", "what?"]
        assert name(await base.search("what?", limit=1)) == ["run.md"]


async def test_an_agent_searches_its_bases_and_cites_them(env: dict[str, str], docs: Path) -> None:
    async with KnowledgeBase("docs", env=env) as base, KnowledgeBase("notes", env=env) as notes:
        await base.add(docs)
        await notes.add(text="The zebra note.", name="note.txt")
        model = ScriptedModel(
            [("retrieve", {"query": "zebra package"})],
            [("retrieve", {"query": "zebra", "base": "notes"})],
            "Use it [install.md:1-2].",
        )
        agent = Agent(model, knowledge=[base, notes], cwd=docs, env=env, store="memory:")
        result = await agent.run("Which package?")
        assert result.output == "Use it [install.md:1-2]."
        texts = [
            block.content for message in model.requests[-1].histories[0] for block in message.tool_results
        ]
        assert texts[0].startswith("[install.md:1-2] Install (sha256 ")
        assert texts[1].startswith("[text:note.txt:1] (sha256 ")
        (first, *_) = model.requests
        assert "square brackets" in first.system
        assert "retrieve" in [tool.name for tool in first.tools]


async def test_an_agent_without_bases_has_no_tool(env: dict[str, str]) -> None:
    model = ScriptedModel("hello")
    await Agent(model, env=env, store="memory:").run("hi")
    assert not model.requests[0].tools
    assert "retrieve" not in model.requests[0].system


async def test_a_removed_base_is_an_error_that_the_model_reads(env: dict[str, str], docs: Path) -> None:
    async with KnowledgeBase("docs", env=env) as base:
        model = ScriptedModel([("retrieve", {"query": "zebra"})], "I cannot.")
        await Agent(model, knowledge=[base], cwd=docs, env=env, store="memory:").run("?")
        (block,) = [block for message in model.requests[-1].histories[0] for block in message.tool_results]
        assert (block.outcome, block.content[:42]) == ("error", "The knowledge base 'docs' is empty. Add fi")


async def test_wrong_arguments_name_themselves(env: dict[str, str]) -> None:
    with pytest.raises(SandburError, match="knowledge"):
        Agent("demo", knowledge=["docs"])  # type: ignore[list-item]
    with pytest.raises(SandburError, match="threshold=2 is not from 0 to 1"):
        KnowledgeBase("docs", threshold=2)
    async with KnowledgeBase("docs", env=env) as base:
        with pytest.raises(SandburError, match="either a source or a text"):
            await base.add()
        with pytest.raises(SandburError, match="A text needs a name"):
            await base.add(text="x")
        with pytest.raises(SandburError, match="it is not text"):
            await base.add(text="\0" * 9, name="a.md")
        with pytest.raises(SandburError, match="and the limit is"):
            await base.add(text="word " * 1_100_000, name="a.md")
        assert (await base.add(text="lone \ud800 walrus", name="a.md")).added == 1
        assert len(await base.search("walrus")) == 1


def test_the_names_are_public() -> None:
    assert {"KnowledgeBase", "Passage", "Embedder"} <= {*sandbur.__all__}
