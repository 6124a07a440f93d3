"""Lets workers and clients work on one store, and does them harm that a seed chooses."""

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from support.history.checker import StoredCall, StoredSession, check_history
from support.history.databases import HistoryDatabase
from support.history.log import HistoryLog, read_history
from support.history.program import DEADLY, SESSIONS, Client, create_sessions, make_agent, open_store
from support.network.proxy import Proxy
from support.places import PYTHONPATH
from support.waiting import wait_for

from sandbur.agent.history.reports.recorded_calls import read_recorded_calls
from sandbur.state.errors import StoreError
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.recording import list_messages
from sandbur.state.store.store import Store

WORKERS, CLIENTS = 3, 3
LEASE_S = 2
_CALM_S = (0.0, 0.3)
_LEAST_DEEDS_BYTES = 3000
"""About twenty events."""
_REST_S = 240.0
_LEAST_PAUSE_S = LEASE_S + 0.5
_MESSAGE = re.compile(r"m-\w+-\d+-\d+")
_LOOK_S = 0.2

Fault = Literal["kill", "pause", "cut", "freeze", "restart"]


@dataclass
class Actor:
    """A worker or a client, started again whenever it is killed, with a line to the database of its own."""

    name: str
    start: Callable[[], "subprocess.Popen[bytes]"]
    proxy: Proxy | None
    process: "subprocess.Popen[bytes] | None" = None

    def restart(self) -> None:
        self.end()
        self.process = self.start()

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class History:
    """One run: its actors, its faults, and what came of it."""

    def __init__(self, database: HistoryDatabase, folder: Path, seed: int) -> None:
        self.database, self.folder, self.seed = database, folder, seed
        self.path = folder / "history"
        self.deaths = 0
        """How many workers were killed or slept past their lease, and how often the server died under all."""
        self._log = HistoryLog(self.path, "chaos")
        self._chance = random.Random(seed)
        self._store = open_store(database.url)
        agent = make_agent(HistoryLog(self.path, "end"), folder / "home")
        asyncio.run(create_sessions(self._store, agent))
        self._last = Client(self._store, agent, HistoryLog(self.path, "end"), "end", seed)
        database.note_owners(self._store)
        asyncio.run(self._last.send_deadly())

    def run(self, faults: int, seconds: float = 0.0) -> list[str]:
        """Run with at least so many faults and for so long, then without faults until every session rests.

        Return the violations.
        """
        with self._run_actors() as (workers, clients):
            ends_at = time.monotonic() + seconds
            while faults > 0 or time.monotonic() < ends_at:
                self._wait_for_deeds([*workers, *clients])
                time.sleep(self._chance.uniform(*_CALM_S))
                self._harm(self._chance.choice([*workers, *workers, *clients]))
                faults -= 1
            for client in clients:
                client.end()
            rests = asyncio.run(self._wait_for_rest(workers))
        return self._check(rests)

    def _wait_for_deeds(self, actors: Sequence[Actor]) -> None:
        """Wait until the actors have done something since the last fault, on any machine."""
        before = self.path.stat().st_size

        def has_grown() -> bool:
            self._revive(actors)
            return self.path.stat().st_size > before + _LEAST_DEEDS_BYTES

        wait_for(has_grown)

    def _revive(self, actors: Sequence[Actor]) -> None:
        """Start the actors again that ended by themselves."""
        for actor in actors:
            if actor.process is not None and actor.process.poll() is not None:
                self.deaths += 1
                actor.restart()

    @contextmanager
    def _run_actors(self) -> Generator[tuple[list[Actor], list[Actor]]]:
        with ExitStack() as stack:
            groups: list[list[Actor]] = []
            for how, count in (("work", WORKERS), ("use", CLIENTS)):
                actors = [self._make_actor(stack, how, number) for number in range(count)]
                for actor in actors:
                    stack.callback(actor.end)
                    actor.restart()
                groups.append(actors)
            yield groups[0], groups[1]

    def _make_actor(self, stack: ExitStack, how: str, number: int) -> Actor:
        name = f"{how}{number}"
        proxy = None
        if self.database.address is not None:
            proxy = stack.enter_context(Proxy(*self.database.address))
        url = self.database.url if proxy is None else self.database.through(proxy.port)

        def start() -> "subprocess.Popen[bytes]":
            seed = str(self._chance.randrange(1 << 30))
            line = [sys.executable, "-m", "support.history.program", how, url, str(self.path), name, seed]
            env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_LEASE_S": str(LEASE_S)}
            env["SANDBUR_HOME"] = str(self.folder / "home")
            with (self.folder / f"{name}.log").open("ab") as printed:
                return subprocess.Popen(line, env=env, stdout=printed, stderr=printed, cwd=self.folder)

        return Actor(name, start, proxy)

    def _harm(self, actor: Actor) -> None:
        faults: list[Fault] = ["kill", "kill", "pause"]
        if actor.proxy is not None:
            faults += ["cut", "freeze"]
        if self.database.server is not None and self._chance.random() < 0.3:
            faults.append("restart")
        fault = self._chance.choice(faults)
        self._log.add("fault", text=f"{fault} {actor.name}")
        self._do_harm(fault, actor)

    def _do_harm(self, fault: Fault, actor: Actor) -> None:
        assert actor.process is not None
        if fault in ("kill", "pause", "restart"):
            self.deaths += 1
        match fault:
            case "kill":
                actor.restart()
            case "pause":
                actor.process.send_signal(signal.SIGSTOP)
                time.sleep(_LEAST_PAUSE_S)
                actor.process.send_signal(signal.SIGCONT)
            case "cut":
                assert actor.proxy is not None
                actor.proxy.break_lines()
            case "freeze":
                assert actor.proxy is not None
                actor.proxy.freeze_lines()
                time.sleep(_LEAST_PAUSE_S)
                actor.proxy.break_lines()
                self.deaths += 1  # its lease ended meanwhile
            case "restart":
                assert self.database.server is not None
                self.database.server.crash()
                self.database.server.start()

    async def _wait_for_rest(self, workers: Sequence[Actor]) -> bool:
        """Decide what waits for a person until every session rests; return False if that never comes."""
        ends_at = time.monotonic() + _REST_S
        while time.monotonic() < ends_at:
            self._revive(workers)
            with suppress(StoreError):
                for number in range(SESSIONS):
                    await self._last.decide(f"s{number}")
                if not self._count_restless():
                    return True
            await asyncio.sleep(_LOOK_S)
        return False

    def _count_restless(self) -> int:
        sql = (
            "SELECT COUNT(*) FROM heads WHERE owner <> '' OR wake_at <> ''"
            " OR status IN ('running', 'needs_approval', 'needs_decision')"
        )
        return int(self._store.database.query(sql)[0][0])

    def _check(self, rests: bool) -> list[str]:
        owners = self.database.read_owners(self._store)
        names = [*(f"s{number}" for number in range(SESSIONS)), DEADLY]
        sessions = {name: read_session(self._store, name) for name in names}
        found = {
            name: replace(one, is_at_rest=rests, owners=owners.get(name, ()), is_deadly=name == DEADLY)
            for name, one in sessions.items()
        }
        broken = [f"{one.session_id}: {one.problem}" for one in audit(self._store.database, names).breaches]
        self._store.close()
        return [*check_history(read_history(self.path), found, self.deaths), *broken]

    def describe(self) -> str:
        """Return what happened, in numbers."""
        history = read_history(self.path)
        acknowledged = sum(event.kind in ("send", "steer") and event.phase == "ok" for event in history)
        effects = sum(event.kind == "effect" for event in history)
        decided = sum(
            event.kind in ("approve", "deny", "settle") and event.phase == "ok" for event in history
        )
        faults = sum(event.kind == "fault" for event in history)
        return (
            f"{self.database.kind}, seed {self.seed}: {faults} faults, {acknowledged} messages acknowledged,"
            f" {decided} decisions, {effects} effects"
        )


def read_session(store: Store, name: str) -> StoredSession:
    """Return the messages and calls that a store kept of a session."""
    inbox = store.inbox(name)
    texts = [
        one.message.text
        for one in list_messages(store.database, name)
        if one.message is not None and one.message.role == "user"
    ]
    waiting = [one.text for one in inbox.load(inbox.load_taken())]
    messages = [text for one in (*texts, *waiting) for text in _MESSAGE.findall(one)]
    calls = [
        StoredCall(
            one.call_id,
            one.title.startswith("ask_first"),
            one.title.startswith(("look", "die")),
            one.starts,
            one.outcome,
        )
        for one in read_recorded_calls(store, name)
    ]
    return StoredSession(messages=messages, calls=calls, status=store.index.head(name).status)
