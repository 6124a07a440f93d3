"""The feed of a session reads the store for its streams, and only if something may be new there."""

from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from sandbur import Agent
from sandbur.actions.ports.events import PlanResumed, TextDelta
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
