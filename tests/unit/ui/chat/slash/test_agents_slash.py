"""`/agents` and `/back` without a screen: which sub-agents there are, and which one is meant."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from support.screens.slash_desk import SlashDesk, slash_desk

from sandbur.state.session import SpawnedBy
from sandbur.ui.chat.slash.table import completions


@asynccontextmanager
async def family_desk(folder: Path, **children: str) -> AsyncGenerator[SlashDesk]:
    """Open a session with sub-agents; `children` are their ids and names."""
    async with slash_desk(folder) as desk:
        await desk.send("hi")
        for number, (child, name) in enumerate(children.items()):
            by = SpawnedBy(
                session_id=desk.session.id, sequence=0, call_id=f"c{number}", agents=(name,),
                description=f"part\x1b {number}",
            )  # fmt: skip
            settings = desk.session.settings.model_copy(update={"spawned_by": by})
            desk.runtime.store.index.create(child, settings, f"title {number}")
        desk.read_output()
        yield desk


def test_the_sub_agents_are_listed_those_that_wait_first(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with family_desk(tmp_path, aa1="reader", bb1="writer", bb2="reader") as desk:
            desk.runtime.store.database.commit(
                [("UPDATE heads SET status = 'needs_approval' WHERE session_id = 'bb1'", ())]
            )
            await desk.type("/agents")
            return desk.read_output().splitlines()

    first, second, third, last = asyncio.run(run())
    assert first.split() == ["1", *["waits", "for", "you", "writer", "0", "tokens", "bb1", "part\\x1b", "1"]]
    assert [line.split()[5:] for line in (second, third)] == [
        ["bb2", "part\\x1b", "2"],
        ["aa1", "part\\x1b", "0"],
    ]
    assert last == "/agents N opens the session of one, and /back returns."


def test_a_number_an_id_and_a_name_enter_a_sub_agent_and_back_returns(tmp_path: Path) -> None:
    async def run() -> None:
        async with family_desk(tmp_path, aa1="reader", bb1="writer", bb2="reader") as desk:
            parent = desk.session.id
            for words, child in (("3", "aa1"), ("bb2", "bb2"), ("writer", "bb1"), ("a", "aa1")):
                await desk.type(f"/agents {words}")
                assert desk.session.id == child
                await desk.type("/agents ..")
                assert desk.session.id == parent
            await desk.type("/agents writer")
            await desk.type("/back")
            assert desk.session.id == parent

    asyncio.run(run())


def test_what_means_no_sub_agent_or_several_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async def run() -> list[str]:
        said: list[str] = []
        async with family_desk(tmp_path, bb1="reader", bb2="reader") as desk:
            for words in ("/agents reader", "/agents b", "/agents 3", "/agents x\x1b", "/back"):
                await desk.type(words)
                said.append(" ".join(desk.read_output().split()))
            await desk.type("/agents 1")
            desk.read_output()
            await desk.type("/agents")
            said.append(" ".join(desk.read_output().split()))
        return said

    named, begun, number, odd, back, none = asyncio.run(run())
    assert named.startswith("'reader' means 2 sub-agents: bb")
    assert begun.startswith("'b' means 2 sub-agents: bb")
    assert number == "There is no sub-agent '3' in this session. /agents lists them."
    assert "\x1b" not in odd
    assert back == "This session is not a sub-agent. /agents lists those that it started."
    assert none.startswith("This session has started no sub-agents. /back goes")


def test_a_sub_agent_whose_parent_was_deleted_has_no_way_back(tmp_path: Path) -> None:
    async def run() -> str:
        async with family_desk(tmp_path, aa1="reader") as desk:
            parent = desk.session.id
            await desk.type("/agents 1")
            desk.runtime.store.database.commit([("DELETE FROM sessions WHERE id = ?", (parent,))])
            desk.read_output()
            await desk.type("/back")
            return " ".join(desk.read_output().split())

    assert "that started this one was deleted" in asyncio.run(run())


def test_sub_agents_are_completed(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with family_desk(tmp_path, aa1="reader", bb1="writer") as desk:
            offered = [one.text for one, _ in completions("/agents ", desk)]
            await desk.type("/agents 1")
            return [*offered, *(one.text for one, _ in completions("/agents ", desk))]

    assert asyncio.run(run()) == ["bb1", "aa1", ".."]
