"""What the store costs: a step's commit against a bare transaction, opening a long session against a new one.

python tests/bench/store_commits.py [ROUNDS]
"""

import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "support"), str(TESTS.parent)]

from scripted import Recorder, ScriptedModel, collect, open_session  # noqa: E402

from sandbur.state.application import ApplicationState  # noqa: E402
from sandbur.state.databases.chain import Entry  # noqa: E402
from sandbur.state.messages import person_said  # noqa: E402
from sandbur.state.session import SessionSettings  # noqa: E402
from sandbur.state.store.lease import new_runner  # noqa: E402
from sandbur.state.store.store import Store  # noqa: E402

TURNS, RESULT_BYTES, STEPS = 800, 2000, 400


class Bare:
    """One table, one row a transaction, as durable as the store."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("CREATE TABLE rows (n INTEGER PRIMARY KEY, body TEXT)")

    def write(self, body: str) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT INTO rows (body) VALUES (?)", (body,))
        self.connection.execute("COMMIT")


async def commits(folder: Path) -> tuple[float, float]:
    """Return the median milliseconds of a step's commit and of a bare one with as many bytes."""
    store = Store.open(f"sqlite:///{folder}/store.db")
    settings = SessionSettings(model="m", cwd="/")
    store.index.create("s1", settings)
    writer = store.writer("s1")
    writer.claim = await store.index.claim(
        "s1", new_runner(), (writer.chain.records, writer.chain.digest), settings, ""
    )
    bare = Bare(folder / "bare.db")
    state = ApplicationState()
    ours: list[float] = []
    theirs: list[float] = []
    for seq in range(STEPS):
        message = person_said("x" * RESULT_BYTES)
        state = state.model_copy(update={"chat_history": state.chat_history.append(message)})
        began = time.perf_counter()
        writer.queue(Entry("calls", (seq, f"c{seq}", "finished", "2026-01-01", '{"outcome":"ok"}')))
        await writer.save(seq, "execute_tools", dict(state))
        middle = time.perf_counter()
        bare.write("x" * (RESULT_BYTES + 400))
        ended = time.perf_counter()
        ours.append(middle - began)
        theirs.append(ended - middle)
    store.close()
    bare.connection.close()
    return statistics.median(ours) * 1000, statistics.median(theirs) * 1000


async def long_session(folder: Path) -> str:
    store = Store.open(f"sqlite:///{folder}/long.db")
    turns: list[Any] = [[("act", {"text": "y" * RESULT_BYTES})]] * TURNS
    session = await open_session(store, ScriptedModel(*turns, "end", context_window=10**7), Recorder())
    await collect(session.send("go"))
    store.close()
    return f"sqlite:///{folder}/long.db"


async def opened(url: str, session_id: str) -> float:
    """Return the milliseconds from nothing to a session that takes the next message."""
    began = time.perf_counter()
    store = Store.open(url)
    if store.index.exists(session_id):
        store.heal(session_id)
    await open_session(store, ScriptedModel(), Recorder(), session_id=session_id)
    took = time.perf_counter() - began
    store.close()
    return took * 1000


def command(url: str, *words: str) -> float:
    """Return the milliseconds of the whole command `sandbur`, answered by the demo model."""
    env = {**os.environ, "PYTHONPATH": str(TESTS.parent), "SANDBUR_STORE": url}
    line = [sys.executable, "-m", "sandbur.ui.cli", "-p", *words, "/mode yolo", "-m", "demo"]
    began = time.perf_counter()
    subprocess.run(line, env=env, check=True, capture_output=True, cwd="/")
    return (time.perf_counter() - began) * 1000


def best(measure: Callable[[], float], rounds: int) -> float:
    return min(measure() for _ in range(rounds))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["SANDBUR_HOME"] = f"{folder}/home"
        ours, bare = asyncio.run(commits(folder))
        ratio = f"ratio {ours / bare:.2f} (limit 1.5)"
        print(f"a step's commit {ours:.3f} ms, bare transaction {bare:.3f} ms: {ratio}")
        url = asyncio.run(long_session(folder))
        empty = f"sqlite:///{folder}/empty.db"
        asyncio.run(opened(empty, "new"))
        long_ms = best(lambda: asyncio.run(opened(url, "s1")), rounds)
        new_ms = best(lambda: asyncio.run(opened(empty, "new")), rounds)
        print(f"opening in a running process: {TURNS} turns {long_ms:.1f} ms, a new session {new_ms:.1f} ms")
        long_ms = best(lambda: command(url, "-r", "s1"), rounds)
        new_ms = best(lambda: command(empty), rounds)
        print(
            f"command to the next turn: {TURNS} turns {long_ms:.0f} ms, a new session {new_ms:.0f} ms:"
            f" ratio {long_ms / new_ms:.2f} (limit 1.5)"
        )


main()
