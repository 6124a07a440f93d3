"""What records cost that name their session by a number, next to records with the session's id.

Both stores are used in turns of one process, by the same statements. One has the tables of before schema 7,
which a store keeps where a damaged page does not let them be converted.
"""

import asyncio
import os
import sqlite3
import statistics
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.figures import tell
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session

from sandbur.state.application import ApplicationState
from sandbur.state.conversation.messages import person_message
from sandbur.state.databases.chain import Entry
from sandbur.state.databases.schema import COLUMNS, SCHEMA_VERSION, make_index_creations
from sandbur.state.databases.sqlite.keyed_tables import create_plain
from sandbur.state.process.identity import make_runner_name
from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store

TURNS, AT_ONCE = 50, 20
SESSION = "5f2b9c1e-7d40-4c2a-9f6e-0d1c2b3a4f5e"
MESSAGE, MOVE = "m" * 300, '{"outcome":"ok"}'


def make_plain(path: Path) -> None:
    """Create the tables of a store with the id in every row."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size = 1024")
        for creation in (*map(create_plain, COLUMNS), *make_index_creations("title")):
            connection.execute(creation)
        connection.execute("INSERT INTO meta (name, value) VALUES ('schema', ?)", (str(SCHEMA_VERSION),))


class Side:
    """One of the two stores, with a session whose chain grows."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path = path
        self.store = Store.open(f"sqlite:///{path}", home=home)
        self.state = ApplicationState()
        self.times_ms: list[float] = []
        self.written = 0

    async def begin(self) -> None:
        settings = SessionSettings(model="m", cwd="/")
        self.store.index.create(SESSION, settings)
        self.writer = self.store.writer(SESSION)
        known = self.writer.chain.records, self.writer.chain.digest
        self.writer.claim = await self.store.index.claim(SESSION, make_runner_name(), known, settings, "")

    async def write_steps(self, first: int) -> None:
        """Commit steps as a run does: a message, a move of a call, the step, and the new end of the chain."""
        before, began = _count_written(), time.process_time()
        for seq in range(first, first + AT_ONCE):
            history = self.state.chat_history.append(person_message(MESSAGE))
            self.state = self.state.model_copy(update={"chat_history": history})
            self.writer.queue(Entry("calls", (seq, f"c{seq}", "finished", "2026-01-01", MOVE)))
            await self.writer.save(seq, "execute_tools", dict(self.state))
        self.times_ms.append((time.process_time() - began) * 1000 / AT_ONCE)
        self.written += _count_written() - before

    async def run_turns(self) -> None:
        before = _count_written()
        script: list[Any] = [act(f"turn {n}") for n in range(TURNS)]
        model = ScriptedModel(*script, "end", context_window=10**9)
        session = await open_session(self.store, model, Recorder(), session_id=SESSION)
        await collect(session.send("go"))
        self.written += _count_written() - before

    def close(self) -> int:
        """Return the size of the file."""
        self.store.close()
        return self.path.stat().st_size


def _count_written() -> int:
    """Return how many bytes this process has handed to the system."""
    facts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(facts["wchar"])


def open_both(folder: Path) -> tuple[Side, Side]:
    folder.mkdir()
    make_plain(folder / "ids.db")
    return Side(folder / "ids.db", folder / "home"), Side(folder / "keys.db", folder / "home2")


def tell_sizes(what: str, ids: Side, keys: Side) -> None:
    written, disk = keys.written / ids.written, keys.close() / ids.close()
    tell(f"disk after {what}, of that with ids", disk, 0.92)
    tell(f"bytes written in {what}, of those with ids", written, 0.92)


async def write_in_turns(ids: Side, keys: Side, steps: int) -> None:
    for side in (ids, keys):
        await side.begin()
    for number, first in enumerate(range(0, steps, AT_ONCE)):
        for side in (ids, keys) if number % 2 else (keys, ids):
            await side.write_steps(first)


def measure(folder: Path, steps: int) -> None:
    os.environ["SANDBUR_HOME"] = f"{folder}/home"
    ids, keys = open_both(folder / "turns")
    for side in (ids, keys):
        asyncio.run(side.run_turns())
    tell_sizes(f"{TURNS} turns", ids, keys)
    ids, keys = open_both(folder / "steps")
    asyncio.run(write_in_turns(ids, keys, steps))
    ratios = [ours / theirs for ours, theirs in zip(keys.times_ms, ids.times_ms, strict=True)]
    against = f"{statistics.median(ids.times_ms):.3f} ms"
    tell("a step's commit, CPU of that with ids", statistics.median(ratios), 1.03, "", against)
    tell_sizes(f"{steps} steps", ids, keys)
