"""The feed of a session reads the store for its streams, and only if something may be new there."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from sandbur import Agent
from sandbur.actions.ports.events import PlanResumed, SubAgent, SubAgentEvent, TextDelta, ToolOutput
from sandbur.state.databases.sqlite.sqlite_database import SqliteDatabase
from sandbur.ui.server.streams.event_stream import BEFORE_ALL
from sandbur.ui.server.streams.session_feed import EventStreamQueue, SessionFeed, SessionFeeds

STORED = PlanResumed(())
"""An event of a kind that the stream takes from the store."""


class CountingDatabase(SqliteDatabase):
    """A database that counts queries."""

    queries = 0

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.queries += 1
        return super().query(sql, parameters)


async def may_go_on() -> bool:
    return True


async def test_a_feed_reads_again_only_after_a_commit_of_this_process(tmp_path: Path) -> None:
    agent = Agent("demo", store=f"sqlite:///{tmp_path}/sandbur.db")
    await agent.run("hi", session_id="s")
    database = CountingDatabase(tmp_path / "sandbur.db")
    feed = SessionFeed(database, "s")
    stream = EventStreamQueue(SessionFeeds(database), "s", BEFORE_ALL)
    feed.streams.add(stream)

    async with agent, aclosing(stream.frames(may_go_on)) as frames:

        async def read_until(text: str) -> list[bytes]:
            found: list[bytes] = []
            async for frame in frames:
                found.append(frame)
                if text.encode() in frame:
                    break
            return found

        await read_until('"type": "result"')
        feed.publish(TextDelta("first piece"))
        await read_until("first piece")

        before = database.queries
        for number in range(9):
            feed.publish(STORED)
            feed.publish(TextDelta(f"piece {number}"))
        assert len(await read_until("piece 8")) == 9
        assert database.queries == before

        await agent.run("what is new", session_id="s")
        feed.publish(STORED)
        feed.publish(TextDelta("last piece"))
        found = b"".join(await read_until("last piece"))
        assert found.index(b"what is new") < found.index(b'"type": "result"') < found.index(b"last piece")

        feed.publish(STORED)
        feed.hint()
        before = database.queries
        feed.publish(TextDelta("after a hint"))
        await read_until("after a hint")
        assert database.queries > before
    await feed.close()
    database.close()


async def test_a_slow_client_loses_output_of_calls_and_nothing_else(tmp_path: Path) -> None:
    agent = Agent("demo", store=f"sqlite:///{tmp_path}/sandbur.db")
    await agent.run("hi", session_id="s")
    database = SqliteDatabase(tmp_path / "sandbur.db")
    feed = SessionFeed(database, "s")
    stream = EventStreamQueue(SessionFeeds(database), "s", BEFORE_ALL)
    feed.streams.add(stream)

    async with agent, aclosing(stream.frames(may_go_on)) as frames:
        async for frame in frames:
            if b'"type": "result"' in frame:
                break
        for number in range(1000):
            feed.publish(ToolOutput("c1", f"{number} " + "\U0001f600" * (10 if number else 1_000_000)))
            feed.publish(TextDelta(f"[{number}]"))
            # The feed works on while nothing is read from the stream.
            await asyncio.sleep(0)
        feed.publish(TextDelta("the end"))
        found: list[bytes] = []
        async for frame in frames:
            found.append(frame)
            if b"the end" in frame:
                break
    outputs = [frame for frame in found if b'"type": "tool_output"' in frame]
    assert sum(map(len, outputs)) <= 128 * 1024
    assert b"characters" in outputs[0]
    assert not [frame for frame in outputs if b"id: " in frame or b"seq" in frame]
    texts = b"".join(found)
    assert [number for number in range(1000) if b"[%d]" % number not in texts] == []
    await feed.close()
    database.close()


async def test_output_of_a_sub_agent_comes_in_the_stream_of_its_own_session(tmp_path: Path) -> None:
    agent = Agent("demo", store=f"sqlite:///{tmp_path}/sandbur.db")
    await agent.run("hi", session_id="child")
    await agent.run("hi", session_id="parent")
    database = SqliteDatabase(tmp_path / "sandbur.db")
    feeds = SessionFeeds(database)
    streams = {name: feeds.join(name, BEFORE_ALL) for name in ("child", "parent")}
    found = {name: b"" for name in streams}
    async with agent:
        for name, stream in streams.items():
            async with aclosing(stream.frames(may_go_on)) as frames:
                async for frame in frames:
                    if b'"type": "result"' in frame:
                        break
                child = SubAgent("child", "parent", "c1", "reader")
                feeds.publish("parent", SubAgentEvent(child, ToolOutput("c2", "written by the child")))
                feeds.publish(name, TextDelta("the end"))
                async for frame in frames:
                    found[name] += frame
                    if b"the end" in frame:
                        break
            await feeds.leave(name, stream)
    assert b"written by the child" in found["child"]
    assert b"written by the child" not in found["parent"]
    await feeds.aclose()
    database.close()
