"""`/undo` and `/rewind` take back what memory calls did, unless somebody else changed it since."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import ScriptedModel as SimpleModel
from support.screens.slash_desk import slash_desk
from support.stores.databases import DATABASES, UrlOf

from sandbur import Agent
from sandbur.agent.history.time_travel.rewinds import apply_rewinds, preview_rewinds
from sandbur.agent.knowledge.memory.memories import open_facts
from sandbur.state.memory.fact_changes import Author
from sandbur.state.memory.fact_store import FactStore, NewFact
from sandbur.state.memory.facts import Fact, FactScope
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

PORT, NET = "/memories/project/port.md", "/memories/project/net.md"


def call(command: str, **arguments: Any) -> ToolCall:
    return ToolCall("memory", command=command, **arguments)


CREATE = call("create", path=PORT, file_text="The port is 8080")
CORRECT = call("str_replace", path=PORT, old_str="8080", new_str="9090")
AGAIN = call("str_replace", path=PORT, old_str="9090", new_str="9191")
MOVE = call("rename", old_path=PORT, new_path=NET)
DELETE = call("delete", path=PORT)


class Desk:
    """Runs a turn of a session `s1` and takes it back."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.store = Store.open(url)
        self.facts: FactStore = open_facts(self.store)
        self.scope = FactScope(kind="project", key=str(folder.resolve()))

    def add(self, text: str, path: str = "", source: Fact | None = None) -> Fact:
        stored = path.replace("/project", "")
        sources = () if source is None else (source.id,)
        return self.facts.add(NewFact(text, self.scope, path=stored, derived_from=sources)).fact

    async def run(self, *turns: ToolCall) -> None:
        model = ScriptedModel([*turns, "Done."])
        agent = Agent(model, memory="agent", cwd=self.folder, store=self.url, allow=["memory"])
        async with agent.session("s1") as session:
            assert (await session.run("Go")).status == "done"

    async def take_back(self) -> tuple[str, ...]:
        expected = await preview_rewinds(self.store, "s1", 0)
        done = await apply_rewinds(self.store, "s1", 0)
        assert done.lines == expected.lines
        assert (await apply_rewinds(self.store, "s1", 0)).done == ()
        assert self.store.database.find_problems() == []
        return done.lines

    def read(self) -> dict[str, str]:
        """Return path -> text of the valid facts."""
        return {fact.path: fact.text for fact in self.facts.list_facts([self.scope])}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncGenerator[Desk]:
    made = Desk(f"sqlite:///{tmp_path}/memory.db", tmp_path)
    yield made
    made.store.close()


BEFORE = {"/memories/port.md": "The port is 8080"}
CHAINS = [
    ((), (CREATE,), {}),
    ((), (CREATE, CORRECT, MOVE), {}),
    ((), (CREATE, DELETE), {}),
    ((PORT,), (CORRECT,), BEFORE),
    ((PORT,), (CORRECT, AGAIN), BEFORE),
    ((PORT,), (DELETE,), BEFORE),
    ((PORT,), (DELETE, call("create", path=PORT, file_text="Other")), BEFORE),
    ((PORT,), (MOVE,), BEFORE),
    ((PORT,), (CORRECT, MOVE), BEFORE),
    ((PORT,), (MOVE, call("str_replace", path=NET, old_str="8080", new_str="9090")), BEFORE),
    ((PORT,), (MOVE, call("create", path=PORT, file_text="Other")), BEFORE),
]


@pytest.mark.parametrize(("there", "calls", "after"), CHAINS)
async def test_a_turn_is_taken_back(
    desk: Desk, there: tuple[str, ...], calls: tuple[ToolCall, ...], after: dict[str, str]
) -> None:
    for path in there:
        desk.add("The port is 8080", path)
    await desk.run(*calls)
    await desk.take_back()
    assert desk.read() == after


@pytest.mark.parametrize("kind", DATABASES)
async def test_memory_is_taken_back_on_every_database(kind: str, url_of: UrlOf, tmp_path: Path) -> None:
    desk = Desk(await asyncio.to_thread(url_of, kind, tmp_path), tmp_path)
    try:
        leaf = desk.add("Clients dial 8080", source=desk.add("The port is 8080", PORT))
        await desk.run(CORRECT, call("create", path="/memories/user/a.md", file_text="Speak German"))
        assert sorted(await desk.take_back()) == [
            "forgotten: /memories/project/port.md",
            "forgotten: /memories/user/a.md",
            f"restored: /memories/project/{leaf.id}",
            "restored: /memories/project/port.md",
        ]
        assert desk.read() == {"": "Clients dial 8080", **BEFORE}
        gone = next(fact for fact in desk.facts.trace("s1") if "9090" in fact.text)
        assert desk.facts.history(gone.id)[-1].reason == "session s1 was taken back to step 0"
        desk.facts.restore(gone.id, Author("person"))
        assert desk.read() == {"/memories/port.md": "The port is 9090"}
    finally:
        desk.store.close()


async def test_what_somebody_else_changed_since_is_kept_and_named(desk: Desk) -> None:
    desk.add("The port is 8080", PORT)
    await desk.run(CORRECT, call("create", path=NET, file_text="The net is slow"))
    mine = next(fact for fact in desk.facts.list_facts([desk.scope]) if "9090" in fact.text)
    desk.facts.correct(mine.id, "The port is 7070", Author("another session"))
    assert sorted(await desk.take_back()) == [
        f"forgotten: {NET}",
        "unchanged: /memories/port.md: somebody else changed it since",
    ]
    assert desk.read() == {"/memories/port.md": "The port is 7070"}


async def test_a_text_that_is_elsewhere_by_now_is_not_brought_back_twice(desk: Desk) -> None:
    desk.add("The port is 8080", PORT)
    await desk.run(DELETE)
    other = desk.add("The port is 8080", NET)
    (line,) = await desk.take_back()
    assert line == f"unchanged: /memories/port.md: fact {other.id[:8]} has its earlier text by now"


async def test_a_fork_takes_nothing_back(desk: Desk) -> None:
    await desk.run(CREATE)
    desk.store.fork("s1", "s2", 0)
    assert desk.read() == BEFORE


async def test_undo_shows_what_memory_loses_and_takes_it_back(tmp_path: Path) -> None:
    model = SimpleModel([("memory", {"command": "create", "path": PORT, "file_text": "A is B"})], "Done.")
    async with slash_desk(tmp_path, model) as desk:
        await desk.send("Remember it")
        desk.read_output()
        picks: list[Any] = desk.picks
        picks.append("y")
        await desk.type("/undo")
        shown = desk.read_output()
        assert "memory was changed:" in shown
        assert f"forgotten: {PORT}" in shown
        assert "/memory restore " in shown
        await desk.type("/memory")
        assert "Nothing is remembered here." in desk.read_output()
        assert PORT in [*desk.session.state.chat_history][-1].text
