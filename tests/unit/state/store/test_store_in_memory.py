"""A store in memory works as one in a file, leaves nothing on disk, and ends with its process."""

import asyncio
import os
import re
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.commands.command import Command
from support.stores.databases import make_memory_url

from sandbur import Agent, SessionNotFound, tool
from sandbur.state.session import SessionSettings
from sandbur.state.store.sessions.listing import LabelFilter
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

SETTINGS = SessionSettings(model="m", cwd="/", tags=("t",))


@pytest.fixture
def env(tmp_path: Path) -> Mapping[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}


async def test_agents_of_a_process_share_the_store(env: Mapping[str, str], tmp_path: Path) -> None:
    done: list[str] = []

    @tool(subject="order")
    def ship(order: str) -> str:
        """Ship an order."""
        done.append(order)
        return "shipped"

    url = make_memory_url()
    first = Agent(ScriptedModel([ToolCall("ship", order="7")]), tools=[ship], store=url, env=env)
    asked = await first.run("Ship it.")
    second = Agent(ScriptedModel(["Shipped."]), tools=[ship], store=url, env=env)
    approved = await second.approve(asked.session_id, asked.pending[0].call_id)
    assert (asked.status, approved.output, done) == ("needs_approval", "Shipped.", ["7"])
    await second.observe(asked.session_id, "It has arrived.")
    other = Agent(ScriptedModel(["Hi."]), store=make_memory_url(), env=env)
    assert [info.id async for info in other.sessions()] == []
    await second.delete(asked.session_id)
    with pytest.raises(SessionNotFound, match="is in the memory of one process and ends with it"):
        await second.approve(asked.session_id, "c1")
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "store.key"]
    assert written == []


def use_at_once(url: str, threads: int, sessions: int) -> list[int]:
    """Write and list sessions in several threads, each with a store of its own; return what each counted."""
    start = threading.Barrier(threads)

    def use(thread: int) -> int:
        start.wait()
        store = Store.open(url)
        for number in range(sessions):
            name = f"{thread}.{number}"
            store.index.create(name, SETTINGS, f"title {name}")
            asyncio.run(store.inbox(name).add_from_outside("observe", name))
            assert {one.id for one in store.newest_sessions(LabelFilter(tags=("t",)))} >= {name}
            assert name in {one.id for one in store.sessions()}
            assert store.find(f"title {name}") == name
            assert store.database.find_problems() == []
        store.close()
        return store.count_sessions()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(use, range(threads)))


def test_threads_that_open_a_store_at_once_share_its_sessions() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(30):
            url = make_memory_url()
            assert max(use_at_once(url, threads=6, sessions=2)) == 12
            assert Store.open(url).count_sessions() == 12
    finally:
        sys.setswitchinterval(interval)


def test_a_command_works_and_another_process_is_told_that_the_session_is_gone(command: Command) -> None:
    first = command.run("-p", "hello", "-m", "demo", "--store", "memory:", "--output-format", "json")
    assert first.code == 0, first.err
    again = command.run("-p", "-r", "11111111-2222", "more", "-m", "demo", "--store", "memory:")
    assert again.code != 0
    assert "the store memory: is in the memory of one process and ends with it" in again.err
    assert list(Path(command.env["SANDBUR_HOME"]).glob("*.db")) == []


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_no_command_is_named_for_a_session_that_ends_with_the_process(command: Command, output: str) -> None:
    words = ("-p", "run touch made", "-m", "demo", "--store", "memory:", "--output-format", output)
    waits = command.run(*words)
    assert waits.code == 3
    assert "    asks: writes files" in waits.err
    assert waits.err.endswith("The session ends with this process, because its store is in memory.\n")
    failed = command.run("-p", "hello", "-m", "openai/m", "--store", "memory:", "--output-format", output)
    assert failed.code == 41
    for ended in (waits, failed):
        assert not re.search("resume|sandbur -r|sandbur approve|sandbur deny", ended.err + ended.out, re.I)
