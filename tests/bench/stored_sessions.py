"""Measures the time to find one session among many in a store, compared with a store of twenty.

Each figure is the whole command: how many times the processor and the peak memory it takes of what the same
command takes in the small store.
"""

import json
import os
import sqlite3
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.figures import Rounds, tell
from support.places import ROOT

from sandbur.agent.history.reports.read_report import read_account
from sandbur.agent.history.sub_agents import list_children, read_sub_agents
from sandbur.state.databases.chain import insert_row
from sandbur.state.databases.database import update
from sandbur.state.session import SessionSettings, SpawnedBy
from sandbur.state.store.sessions.family import FamilyFilter, count_descendants
from sandbur.state.store.sessions.listing import FolderFilter, LabelFilter
from sandbur.state.store.store import Store

ROUNDS = 7
FEW = 20
PROMPT = "You are an agent. " * 200
MESSAGES, MESSAGE = 4, '{"role":"user","blocks":[{"kind":"text","text":"%s"}]}' % ("word " * 400)
FOLDERS = 100
LIMIT_MS, LIMIT_MB, LIMIT_RATIO = 20, 5, 1.1
SEARCH_LIMIT_MS, INDEX_LIMIT_MS, FIRST_LIMIT_S = 100, 2, 3
DOCTOR_LIMIT_RATIO = 10
QUERIES = {"a rare word": "needle", "two common words": "w1 w2", "a word that is nowhere": "absent"}


class Cost(NamedTuple):
    cpu_ms: float
    peak_mb: float


class Place:
    """A home with a store of so many sessions; the newest of its working folder is a real one."""

    def __init__(self, root: Path, count: int) -> None:
        self.work = root / "work"
        self.work.mkdir(parents=True)
        self._env = {
            **os.environ, "HOME": str(root), "SANDBUR_HOME": str(root / "data"), "LC_ALL": "C.UTF-8",
            "SANDBUR_DURABILITY": "normal", "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        self.cost("-p", "hello", "-m", "demo")
        store = Store.open(f"sqlite:///{root}/data/sandbur.db", durability="normal")
        [self.real] = store.sessions()
        store.rename(self.real.id, "the one that is wanted")
        for number in range(count):
            self._fill(store, number)
        store.close()
        self.size_mb = (root / "data/sandbur.db").stat().st_size / 1e6

    def _fill(self, store: Store, number: int) -> None:
        session_id = str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128), version=4))
        folder = f"/srv/projects/{number % FOLDERS}"
        settings = SessionSettings(model="demo/demo", cwd=folder, system_prompt=PROMPT)
        store.index.create(session_id, settings, f"session number {number}")
        rows = (insert_row("messages", (session_id, 0, n, MESSAGE, n, "")) for n in range(MESSAGES))
        store.database.commit(list(rows))

    def cost(self, *words: str) -> Cost:
        """Run the command; return what it took."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        line = [sys.executable, "-m", "sandbur.ui.cli.main", *words]
        child = os.fork()
        if not child:
            os.chdir(self.work)
            for stream in range(3):
                os.dup2(nowhere, stream)
            os.execve(sys.executable, line, self._env)
        os.close(nowhere)
        _, status, usage = os.wait4(child, 0)
        if status:
            sys.exit(f"{words} ended with {status}")
        return Cost((usage.ru_utime + usage.ru_stime) * 1000, usage.ru_maxrss / 1024)


COMMANDS: dict[str, Callable[[Place], tuple[str, ...]]] = {
    "sessions list": lambda _: ("sessions", "list"),
    "sessions list --json": lambda _: ("sessions", "list", "--json"),
    "-p -c": lambda _: ("-p", "-c", "hello", "-m", "demo"),
    "-p -r PREFIX": lambda place: ("-p", "-r", place.real.id[:13], "hello", "-m", "demo"),
    "-p -r NAME": lambda place: ("-p", "-r", "the one that is wanted", "hello", "-m", "demo"),
}


def measure_search(folder: Path, sessions: int) -> None:
    """Search the words of sessions with four messages of forty words; each figure is CPU time."""
    store = Store.open(f"sqlite:///{folder}/search.db", durability="normal")
    for number in range(sessions):
        session_id = f"s{number:06}"
        store.index.create(session_id, SessionSettings.model_validate({"model": "m", "cwd": "/"}))
        words = (
            " ".join(f"w{(number * 7 + n * n) % (1 + n * 40)}" for n in range(40)) for _ in range(MESSAGES)
        )
        texts = [f"{text} needle" if number % 1000 == 0 else text for text in words]
        bodies = [json.dumps({"role": "user", "blocks": [{"kind": "text", "text": text}]}) for text in texts]
        rows = [insert_row("messages", (session_id, 0, n, body, n, "")) for n, body in enumerate(bodies)]
        grown = update("heads", {"records": MESSAGES}, {"session_id": session_id})
        store.database.commit([*rows, grown])
    began = time.process_time()
    store.find_text("needle")
    tell(f"the first search in {sessions:,} sessions", time.process_time() - began, FIRST_LIMIT_S, " s")
    store.index_words(lambda count: None)
    each_ms = (time.process_time() - began) * 1000 / sessions
    tell("indexing a session", each_ms, INDEX_LIMIT_MS, " ms")
    for what, text in QUERIES.items():
        times_ms: list[float] = []
        for _ in range(ROUNDS):
            began = time.process_time()
            list(islice(store.newest_sessions(LabelFilter(matching=store.find_text(text))), 50))
            times_ms.append((time.process_time() - began) * 1000)
        tell(f"a search for {what}", median(times_ms), SEARCH_LIMIT_MS, " ms")
    store.close()


def measure_doctor(folder: Path, sessions: int) -> None:
    """Check an installation with many sessions, as a ratio to one with few."""
    places = {"few": Place(folder / "few", FEW), "many": Place(folder / "many", sessions)}
    for place in places.values():
        # The texts of the filled sessions are in no chain.
        with closing(
            sqlite3.connect(place.work.parent / "data/sandbur.db", isolation_level=None)
        ) as database:
            database.execute("DELETE FROM messages WHERE session_id <> ?", (place.real.id,))
    rounds = Rounds(places, 3)
    for name in rounds:
        rounds.note(*places[name].cost("doctor"))
    few_ms = rounds.median("few")
    ratio = rounds.median("many") / few_ms
    tell(f"doctor, {sessions:,} sessions, CPU", ratio, DOCTOR_LIMIT_RATIO, against=f"{FEW}, {few_ms:.0f} ms")


def measure_children(folder: Path, children: int) -> None:
    """List a store whose newest sessions are sub-agents of one session; each figure is CPU time."""
    store = Store.open(f"sqlite:///{folder}/family.db", durability="normal")
    settings = SessionSettings(model="demo/demo", cwd="/srv", system_prompt=PROMPT)
    for number in range(FEW):
        store.index.create(f"root{number:02}", settings, "a title")
    by = SpawnedBy(session_id="root00", sequence=0, call_id="c", agents=("reader",))
    for number in range(children):
        store.index.create(f"child{number:06}", settings.model_copy(update={"spawned_by": by}), "a part")
    looks: dict[str, Callable[[], object]] = {
        "the list of all roots": lambda: list(store.roots()),
        "the newest session of a folder": lambda: next(store.roots(FolderFilter("/srv"))),
        "how many roots": store.count_roots,
        "how many sub-agents each root has": lambda: count_descendants(
            store.database, [f"root{number:02}" for number in range(FEW)]
        ),
        "50 sub-agents, oldest first": lambda: store.index.children_of("root00"),
        "50 sub-agents, newest first": lambda: list(
            islice(store.newest_sessions(FamilyFilter("root00")), 50)
        ),
        "every session": lambda: store.sessions(),
        "the state of the first 100 sub-agents": lambda: read_sub_agents(
            store, list_children(store, "root00")[:100]
        ),
        "the report of their parent": lambda: read_account(store, "root00"),
    }
    for what, look in looks.items():
        times_ms: list[float] = []
        for _ in range(ROUNDS):
            began = time.process_time()
            look()
            times_ms.append((time.process_time() - began) * 1000)
        reads_many = what.startswith(("every", "the state", "the report"))
        limit_ms = LIMIT_MS * children / 40 if reads_many else LIMIT_MS
        tell(f"{what}, {children} sub-agents", median(times_ms), limit_ms, " ms")
    store.close()


def measure(folder: Path, sessions: int) -> None:
    began = time.perf_counter()
    places = {"few": Place(folder / "few", FEW), "many": Place(folder / "many", sessions)}
    size_mb = places["many"].size_mb
    print(f"{sessions} sessions, {size_mb:.0f} MB, made in {time.perf_counter() - began:.0f} s")
    for what, words in COMMANDS.items():
        rounds = Rounds(places, ROUNDS)
        for name in rounds:
            rounds.note(*places[name].cost(*words(places[name])))
        small, large = (Cost(rounds.median(name), rounds.median(name, 1)) for name in places)
        tell(f"{what}, CPU more", large.cpu_ms - small.cpu_ms, LIMIT_MS, " ms", f"{small.cpu_ms:.0f} ms")
        tell(f"{what}, CPU", large.cpu_ms / small.cpu_ms, LIMIT_RATIO, against=f"{FEW} sessions")
        more_mb = large.peak_mb - small.peak_mb
        tell(f"{what}, memory more", more_mb, LIMIT_MB, " MB", f"{small.peak_mb:.0f} MB")
