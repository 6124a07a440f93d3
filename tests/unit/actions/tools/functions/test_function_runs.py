"""Functions as tools of an agent: what they need is closed with the run, what goes wrong is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import pytest
from support.models.scripted import ScriptedModel

from sandbur import Agent, Depends, RunContext, ToolError, tool
from sandbur.actions.ports.events import Event, Notice, RunFinished, ToolFinished, ToolOutput
from sandbur.actions.tools.functions.injection import overrides


def agent_of(folder: Path, model: Any, *tools: Any, **options: Any) -> Agent[str]:
    return Agent(
        model,
        tools=tools,
        store=f"sqlite:///{folder}/runs.db",
        cwd=folder,
        env={"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")},
        **{"mode": "yolo", **options},
    )


def results(events: list[Event]) -> list[tuple[str, str]]:
    return [(one.outcome, one.content) for one in events if isinstance(one, ToolFinished)]


async def events_of(agent: Agent[str], text: str = "go") -> list[Event]:
    return [event async for event in agent.stream(text)]


async def test_what_tools_share_is_closed_when_the_run_ends(tmp_path: Path):
    log: list[str] = []

    async def get_db() -> AsyncIterator[str]:
        log.append("open")
        yield "db"
        log.append("close")

    @tool
    async def find(name: str, db: Annotated[str, Depends(get_db)]) -> str:
        log.append(f"find {name}")
        return f"{name} in {db}"

    twice = [("find", {"name": "a"}), ("find", {"name": "b"})]
    model = ScriptedModel(twice, [("find", {"name": "c"})], "found", twice, "found")
    agent = agent_of(tmp_path, model, find)
    async with agent, agent.session() as session:
        assert (await session.run("find")).status == "done"
        assert log == ["open", "find a", "find b", "find c", "close"]
        await session.run("once more")
    assert log[5:] == ["open", "find a", "find b", "close"]


async def test_what_cannot_be_closed_is_told_before_the_run_ends(tmp_path: Path):
    async def get_db() -> AsyncIterator[str]:
        yield "db"
        raise OSError("disk full")

    @tool
    async def find(db: Annotated[str, Depends(get_db)]) -> str:
        return db

    events = await events_of(agent_of(tmp_path, ScriptedModel([("find", {})], "found"), find))
    assert results(events) == [("ok", "db")]
    (notice,) = [event.message for event in events if isinstance(event, Notice)]
    assert notice.endswith("get_db failed when it was closed: OSError: disk full")
    assert isinstance(events[-1], RunFinished)
    assert events[-1].status == "done"


async def test_an_interrupted_run_closes_what_it_opened(tmp_path: Path):
    log: list[str] = []
    working = asyncio.Event()

    async def get_db() -> AsyncIterator[str]:
        yield "db"
        log.append("close")

    @tool
    async def work(db: Annotated[str, Depends(get_db)]) -> str:
        working.set()
        await asyncio.sleep(600)
        return db

    agent = agent_of(tmp_path, ScriptedModel([("work", {})]), work)
    async with agent.session() as session:
        running = asyncio.create_task(session.run("work"))
        await working.wait()
        await session.interrupt()
        assert (await running).status == "interrupted"
        assert log == ["close"]


async def test_failures_are_for_the_model_and_the_run_goes_on(tmp_path: Path):
    @tool
    def broken() -> None:
        raise ValueError("no such thing")

    @tool
    def refusing() -> None:
        raise ToolError("Ask for the order number first.")

    @tool
    def opaque() -> object:
        return object()

    async def connect() -> AsyncIterator[str]:
        raise OSError("refused")
        yield "never"

    def repository(of: Annotated[str, Depends(connect)]) -> str:
        return of

    @tool
    def search(of: Annotated[str, Depends(repository)]) -> None: ...

    model = ScriptedModel([("broken", {}), ("refusing", {}), ("opaque", {}), ("search", {})], "sorry")
    found = results(await events_of(agent_of(tmp_path, model, broken, refusing, opaque, search)))
    assert found[:2] == [
        ("error", "broken failed: ValueError: no such thing"),
        ("error", "Ask for the order number first."),
    ]
    assert found[2][1].startswith("opaque ran to its end, but what it returned, an object, is not JSON")
    where = f"in the provider {connect.__qualname__}"
    assert found[3] == ("error", f"search failed ({where}): OSError: refused")


async def test_a_stream_is_seen_live(tmp_path: Path):
    @tool
    async def count() -> AsyncIterator[str]:
        yield "one "
        yield "two"

    @tool
    def report(run: RunContext) -> str:
        run.emit("half way")
        return f"{run.workspace.name} {run.session_id}"

    model = ScriptedModel([("count", {}), ("report", {})], "counted")
    agent = agent_of(tmp_path, model, count, report)
    events = [event async for event in agent.stream("go", session_id="s9")]
    shown = [event.chunk for event in events if isinstance(event, ToolOutput)]
    assert "".join(shown) == "one twohalf way"
    assert results(events) == [("ok", "one two"), ("ok", f"{tmp_path.name} s9")]


async def test_overrides_hold_for_the_runs_that_begin_within(tmp_path: Path):
    def get_db() -> str:
        raise AssertionError("a test reaches no database")

    @tool
    def find(db: Annotated[str, Depends(get_db)]) -> str:
        return db

    agent = agent_of(tmp_path, ScriptedModel([("find", {})], "found"), find)
    with overrides({get_db: lambda: "fake"}):
        assert results(await events_of(agent)) == [("ok", "fake")]


@pytest.mark.parametrize(("effect", "waits"), [("read", False), ("effect", True), ("idempotent", True)])
async def test_only_what_reads_runs_unasked(tmp_path: Path, effect: Any, waits: bool):
    @tool(effect=effect)
    def act() -> str:
        return "acted"

    model = ScriptedModel([("act", {})], "done")
    async with agent_of(tmp_path, model, act, mode="interactive").session() as session:
        assert ((await session.run("act")).status == "needs_approval") is waits


async def test_a_run_that_nobody_follows_any_more_closes_what_it_opened(tmp_path: Path):
    log: list[str] = []

    async def get_db() -> AsyncIterator[str]:
        yield "db"
        log.append("close")

    @tool
    async def work(db: Annotated[str, Depends(get_db)], run: RunContext) -> str:
        run.emit("working\n")
        await asyncio.sleep(600)
        return db

    agent = agent_of(tmp_path, ScriptedModel([("work", {})]), work)
    async with agent.session() as session, aclosing(session.stream("work")) as events:
        async for event in events:
            if isinstance(event, ToolOutput):
                break
    assert log == ["close"]
