"""A model keeps facts in files below `/memories`, corrects them and forgets them; each is one call."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbur import Agent, RunResult, tool
from sandbur.agent.knowledge.memory.memories import open_facts
from sandbur.state.memory.fact_store import FactStore, NewFact
from sandbur.state.memory.facts import Fact, FactScope
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

PORT = "/memories/project/port.md"
CREATE = ToolCall("memory", command="create", path=PORT, file_text="The port is 8080")
CORRECT = ToolCall("memory", command="str_replace", path=PORT, old_str="8080", new_str="9090")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


@pytest.fixture
def facts(url: str) -> Iterator[FactStore]:
    store = Store.open(url)
    yield open_facts(store)
    store.close()


def make_agent(tmp_path: Path, url: str, *turns: Any, **more: Any) -> Agent[str]:
    return Agent(ScriptedModel([*turns, "Done."]), memory="agent", cwd=tmp_path, store=url, **more)


async def run(tmp_path: Path, url: str, *turns: Any, **more: Any) -> RunResult[str]:
    return await make_agent(tmp_path, url, *turns, **more).run("The port is 8080, and later 9090.")


async def results(tmp_path: Path, url: str, *turns: Any, **more: Any) -> list[str]:
    """Return the results of the calls, as the model reads them."""
    model = ScriptedModel([*turns, "Done."])
    agent = Agent(model, memory="agent", cwd=tmp_path, store=url, **more)
    result = await agent.run("The port is 8080, and later 9090.")
    assert result.status == "done"
    return [one.content for message in model.requests[-1].messages for one in message.tool_results]


def everything(facts: FactStore, tmp_path: Path) -> dict[str, Fact]:
    scope = FactScope(kind="project", key=str(tmp_path))
    return {one.text: one for one in facts.list_facts([scope], ("valid", "superseded", "forgotten"))}


async def test_a_fact_is_written_and_read_in_a_later_session(
    tmp_path: Path, url: str, facts: FactStore
) -> None:
    (kept,) = await results(tmp_path, url, CREATE)
    assert kept == f"Remembered in {PORT}."
    fact = everything(facts, tmp_path)["The port is 8080"]
    assert (fact.path, fact.provenance.origin) == ("/memories/port.md", "model")
    assert fact.provenance.session_id and fact.provenance.call_id and fact.provenance.step is not None
    folder, file = await results(
        tmp_path, url, ToolCall("memory", command="view", path="/memories"),
        ToolCall("memory", command="view", path=PORT),
    )  # fmt: skip
    assert f"{PORT} ({fact.created_at[:10]}): The port is 8080" in folder
    assert file.startswith(f"{PORT}: written on {fact.created_at[:10]} by a model in session ")
    assert file.endswith("verify it before you rely on it.\n     1\tThe port is 8080")


async def test_a_corrected_fact_takes_the_place_of_the_wrong_one(
    tmp_path: Path, url: str, facts: FactStore
) -> None:
    corrected, found = await results(
        tmp_path, url, CREATE, CORRECT, ToolCall("memory", command="view", path=PORT)
    )[1:] if False else (await results(tmp_path, url, CREATE, CORRECT, ToolCall("memory", command="view", path=PORT)))[1:]
    assert corrected == f"Corrected {PORT}."
    assert "9090" in found and "8080" not in found
    old, new = (everything(facts, tmp_path)[f"The port is {port}"] for port in (8080, 9090))
    assert (old.state, old.superseded_by, new.path) == ("superseded", new.id, "/memories/port.md")
    assert [hit.fact.id for hit in facts.search("port", [new.scope])] == [new.id]
