"""Measures the store: commits and bytes of a turn, a step against a bare commit, opening a long session."""

import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.figures import tell
from bench.sessions import LATE_RESULT, Answer, open_scripted
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.places import ROOT

from sandbur.state.application import ApplicationState
from sandbur.state.calls import Effect
from sandbur.state.conversation.messages import person_message
from sandbur.state.databases.chain import Entry
from sandbur.state.process.identity import make_runner_name
from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store

TURNS, RESULT_BYTES, STEPS = 800, len(LATE_RESULT), 400
COUNTED_TURNS = 100
EFFECTS: tuple[Effect, ...] = ("effect", "read")
SESSION = "5f2b9c1e-7d40-4c2a-9f6e-0d1c2b3a4f5e"


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


class Written(NamedTuple):
    """The commits and bytes that some turns wrote."""

    commits: int
    log_pages: int
    """Of the write-ahead log; 0 where it was brought into the file on the way."""
    written_bytes: int
    disk_bytes: int


def _bytes_written() -> int:
    """Return how many bytes this process has handed to the system."""
    facts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(facts["wchar"])


@contextmanager
def counted(connection: sqlite3.Connection, path: Path, keeps_log: bool) -> Generator[list[Written]]:
    """Count what is written through a connection within; `keeps_log`: and the pages of its log."""
    found: list[Written] = []
    commits = 0

    def count_commit(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if keeps_log:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.set_trace_callback(count_commit)
    before = _bytes_written()
    yield found
    connection.set_trace_callback(None)
    log_bytes = path.with_name(f"{path.name}-wal").stat().st_size
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = log_bytes // (page_bytes + 24) if keeps_log else 0
    found.append(Written(commits, pages, _bytes_written() - before, path.stat().st_size))


async def turns_written(folder: Path, turns: int, effect: Effect, keeps_log: bool) -> Written:
    """Return what tool turns of a session write."""
    path = folder / f"{effect}-{turns}.db"
    store = Store.open(f"sqlite:///{path}", home=folder / "home")
    tool = Answer(LATE_RESULT, effect=effect)
    session = await open_scripted(store, turns, tool, session_id=SESSION, text="turn")
    connection: sqlite3.Connection = store.database._connection  # pyright: ignore
    with counted(connection, path, keeps_log) as found:
        await collect(session.send("go"))
    store.close()
    return found[0]


def bare_written(folder: Path, turns: int, keeps_log: bool) -> Written:
    """Return what a bare log writes that takes what was asked and what came of it in two commits."""
    path = folder / f"bare-{turns}.db"
    bare = Bare(path)
    with counted(bare.connection, path, keeps_log) as found:
        for _ in range(turns):
            bare.write("x" * 600)
            bare.write("r" * (RESULT_BYTES + 200))
    bare.connection.close()
    return found[0]


def tell_written(folder: Path) -> None:
    bare = bare_written(folder, COUNTED_TURNS, keeps_log=True)
    for effect in EFFECTS:
        ours = asyncio.run(turns_written(folder, COUNTED_TURNS, effect, keeps_log=True))
        tell(f"commits of a turn, tool of class {effect}", ours.commits / COUNTED_TURNS, 2.1)
        pages, theirs = ours.log_pages / COUNTED_TURNS, bare.log_pages / COUNTED_TURNS
        print(f"  pages in the log: {pages:.1f} of 1 KB; a bare log of two rows a turn: {theirs:.1f} of 4 KB")
    ours = asyncio.run(turns_written(folder, TURNS, "effect", keeps_log=False))
    bare = bare_written(folder, TURNS, keeps_log=False)
    against = f"{bare.written_bytes / 1e6:.0f} MB bare"
    tell(f"MB written in {TURNS} turns with {RESULT_BYTES} bytes", ours.written_bytes / 1e6, 32, "", against)
    tell(
        f"MB on disk after {TURNS} turns",
        ours.disk_bytes / 1e6,
        4,
        "",
        f"{bare.disk_bytes / 1e6:.1f} MB bare",
    )


async def commits(folder: Path) -> tuple[float, float]:
    """Return the median milliseconds of a step's commit and of a bare one with as many bytes."""
    store = Store.open(f"sqlite:///{folder}/store.db")
    settings = SessionSettings(model="m", cwd="/")
    store.index.create("s1", settings)
    writer = store.writer("s1")
    writer.claim = await store.index.claim(
        "s1", make_runner_name(), (writer.chain.records, writer.chain.digest), settings, ""
    )
    bare = Bare(folder / "bare.db")
    state = ApplicationState()
    ours: list[float] = []
    theirs: list[float] = []
    for seq in range(STEPS):
        message = person_message("x" * RESULT_BYTES)
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
    store = Store.open(f"sqlite:///{folder}/long.db", home=folder / "home")
    session = await open_scripted(store, TURNS, Recorder(), text="y" * RESULT_BYTES)
    await collect(session.send("go"))
    store.close()
    return f"sqlite:///{folder}/long.db"


async def opened(url: str, session_id: str, home: Path) -> float:
    """Return the milliseconds from nothing to a session that takes the next message."""
    began = time.perf_counter()
    store = Store.open(url, home=home)
    if store.index.exists(session_id):
        store.quarantine_damage(session_id)
    await open_session(store, ScriptedModel(), Recorder(), session_id=session_id)
    took = time.perf_counter() - began
    store.close()
    return took * 1000


def command(url: str, *words: str) -> float:
    """Return the milliseconds of the whole command `sandbur`, answered by the demo model."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SANDBUR_STORE": url}
    line = [sys.executable, "-m", "sandbur.ui.cli.main", "-p", *words, "/mode plan", "-m", "demo"]
    began = time.perf_counter()
    subprocess.run(line, env=env, check=True, capture_output=True, cwd="/")
    return (time.perf_counter() - began) * 1000


def best(measure: Callable[[], float], rounds: int) -> float:
    return min(measure() for _ in range(rounds))


def measure(folder: Path, rounds: int) -> None:
    os.environ["SANDBUR_HOME"] = f"{folder}/home"
    ours, bare = asyncio.run(commits(folder))
    tell("a step's commit, over a bare transaction", ours / bare, 1.8, "", f"{bare:.3f} ms")
    tell_written(folder)
    url = asyncio.run(long_session(folder))
    empty = f"sqlite:///{folder}/empty.db"
    asyncio.run(opened(empty, "new", folder / "home"))
    long_ms = best(lambda: asyncio.run(opened(url, "s1", folder / "home")), rounds)
    new_ms = best(lambda: asyncio.run(opened(empty, "new", folder / "home")), rounds)
    print(f"opening in a running process: {TURNS} turns {long_ms:.1f} ms, a new session {new_ms:.1f} ms")
    tell(f"reopening {TURNS} turns", long_ms, 40, " ms")
    long_ms = best(lambda: command(url, "-r", "s1"), rounds)
    new_ms = best(lambda: command(empty), rounds)
    against = f"{new_ms:.0f} ms"
    tell(f"command after {TURNS} turns, over one of a new session", long_ms / new_ms, 1.5, "", against)
