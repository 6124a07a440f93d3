"""Histories of clients and workers under faults, checked afterwards.

tests/matrix --history                 an hour, on every store
tests/matrix --history --seconds 600 --seed 7 --store postgresql
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.crash.fleet.history_worker import NAME, make_agent
from support.crash.fleet.own_postgres import OwnPostgres, own_postgres
from support.crash.fleet.rules import AtRest, Event, History, Kind, Violation, check
from support.network.proxy import Proxy
from support.places import PYTHONPATH, SUPPORT
from support.stores.databases import fresh_place

from sandbur.agent.session.decisions import make_decision
from sandbur.state.calls import CallDecision, PendingCall
from sandbur.state.errors import SandburError
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.sessions.inbox import DIED
from sandbur.state.store.store import Store
from sandbur.ui.server.answers import RequestRefused
from sandbur.ui.server.session_runner import SessionRunner

KINDS = ("sqlite", "postgresql", "mysql")
WORKER = SUPPORT / "crash/fleet/history_worker.py"
LEASE_S = 1.5
BOUND_S = 120.0
_ROUND_S = 60.0
_ASKS = ("needs_approval", "needs_decision")
_LIFTED = ("parked", "failed")
_IDLE = ("new", "done", "interrupted")
_QUEUED = 0.15
"""The share of messages that are sent whatever the session does."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens: the seed decides everything but the timing of the machine."""

    kind: str
    seconds: float
    seed: int
    clients: int = 3
    workers: int = 3
    sessions: int = 6


@dataclass(slots=True)
class _Recorder:
    events: list[Event] = field(default_factory=list[Event])

    def add(self, kind: Kind, session: str, what: str, began: float, **more: object) -> None:
        self.events.append(Event(kind, session, what, began, time.monotonic(), **more))  # type: ignore[arg-type]


class _Client:
    """Sends, decides and stops as clients of a server do; an answer that does not come is no answer."""

    def __init__(self, url: str, log: Path, dice: random.Random, recorder: _Recorder) -> None:
        self._store = Store.open(url)
        self._dice, self._recorder = dice, recorder
        self._runner = SessionRunner(
            self._store, {NAME: make_agent(log)}, lambda session_id, event: None, 1, lambda text: None, False
        )

    async def create(self, session_id: str) -> None:
        await self._runner.create(self._store, NAME, session_id, {})

    async def send(self, session_id: str, text: str) -> None:
        await self._record("send", session_id, text, self._runner.send(self._store, session_id, text))

    async def stop(self, session_id: str) -> None:
        await self._record("stop", session_id, "", self._runner.cancel(self._store, session_id))

    async def decide(self, session_id: str) -> None:
        """Approve the calls that wait, and settle those whose outcome is unknown as done."""
        with suppress(SandburError):
            status = (await asyncio.to_thread(self._store.index.summary, session_id)).status
            if status not in _ASKS:
                return
            view = await asyncio.to_thread(self._store.show, session_id)
            decisions: list[CallDecision] = []
            began = time.monotonic()
            for call in view.state.calls_to_decide:
                is_unknown = call.kind == "outcome_unknown"
                kind: Kind = "settle" if is_unknown else "approve"
                self._recorder.add(kind, session_id, _read_item(call), began)
                decisions.append(make_decision(call.call_id, "done" if is_unknown else "approve"))
            if decisions:
                await self._runner.decide(self._store, session_id, decisions)

    async def lift(self, session_id: str) -> None:
        with suppress(SandburError, RequestRefused):
            if (await asyncio.to_thread(self._store.index.summary, session_id)).status in _LIFTED:
                await self._runner.go_on(self._store, session_id)

    async def work(self, names: Sequence[str], number: int, is_over: threading.Event) -> None:
        """Do one thing after the other until it is over."""
        count = 0
        while not is_over.is_set():
            name = self._dice.choice(names)
            what = self._dice.choices(("send", "decide", "stop"), (3, 8, 1))[0]
            if what == "send":
                # Few messages wait at the end, so that the last wait is one for a recovery and not for work.
                if self._dice.random() < _QUEUED or await self._is_idle(name):
                    count += 1
                    await self.send(name, f"{name}.{number}.{count}")
            elif what == "decide":
                await self.decide(name)
            else:
                await self.stop(name)
            await asyncio.sleep(self._dice.uniform(0.02, 0.2))

    def close(self) -> None:
        self._store.close()

    async def _is_idle(self, session_id: str) -> bool:
        with suppress(SandburError):
            return (await asyncio.to_thread(self._store.index.summary, session_id)).status in _IDLE
        return False

    async def _record(self, kind: Kind, session_id: str, what: str, work: object) -> None:
        began = time.monotonic()
        acknowledged = False
        try:
            await work  # type: ignore[misc]
            acknowledged = True
        except (SandburError, RequestRefused):
            pass
        finally:
            self._recorder.add(kind, session_id, what, began, acknowledged=acknowledged)


def _read_item(call: PendingCall) -> str:
    return str(json.loads(call.arguments)["item"])


class _Fleet:
    """The worker processes, and what happens to them."""

    def __init__(self, url: str, folder: Path, count: int) -> None:
        self._url, self._folder = url, folder
        self._processes = [self._start() for _ in range(count)]

    def _start(self) -> subprocess.Popen[bytes]:
        env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_LEASE_S": f"{LEASE_S}"}
        words = [sys.executable, str(WORKER), self._url, str(self._folder / "log")]
        with (self._folder / "workers.err").open("ab") as errors:
            return subprocess.Popen(words, env=env, stdout=errors, stderr=errors)

    def kill(self, number: int) -> None:
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = self._start()

    def pause(self, number: int, seconds: float) -> None:
        self._processes[number].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._processes[number].send_signal(signal.SIGCONT)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


class _Observer:
    """Reads the owners of all sessions again and again, past the proxy."""

    def __init__(self, url: str, recorder: _Recorder) -> None:
        self._url, self._recorder = url, recorder
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._observe, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _observe(self) -> None:
        known: dict[str, tuple[str, int]] = {}
        store = Store.open(self._url)
        while not self._is_over.wait(0.03):
            began = time.monotonic()
            with suppress(SandburError):
                for name, owner, epoch in store.database.query("SELECT session_id, owner, epoch FROM heads"):
                    if known.get(name) != (owner, int(epoch)):
                        known[name] = (owner, int(epoch))
                        self._recorder.add("owner", name, owner, began, epoch=int(epoch))
        store.close()


@dataclass(frozen=True, slots=True)
class _World:
    direct: str
    """The URL for who observes."""
    used: str
    """The URL for clients and workers: through the proxy, if there is one."""
    proxy: Proxy | None = None
    server: OwnPostgres | None = None


@contextmanager
def _open_world(kind: str, folder: Path) -> Generator[_World]:
    with ExitStack() as stack:
        if kind == "sqlite":
            url = f"sqlite:///{folder}/store.db"
            yield _World(url, url)
        elif kind == "postgresql":
            server = stack.enter_context(own_postgres())
            proxy = stack.enter_context(Proxy("127.0.0.1", server.port))
            yield _World(server.url, server.url.replace(f":{server.port}/", f":{proxy.port}/"), proxy, server)
        else:
            place = stack.enter_context(fresh_place(kind))
            proxy = stack.enter_context(Proxy("127.0.0.1", place.port))
            yield _World(place.url, place.through(proxy.port), proxy)


def run_history(plan: Plan, folder: Path) -> History:
    """Let clients and workers work under faults, heal, wait until all is at rest, and return the history."""
    dice, recorder = random.Random(plan.seed), _Recorder()
    names = [f"s{number}" for number in range(plan.sessions)]
    (folder / "log").touch()
    with _open_world(plan.kind, folder) as world, ExitStack() as stack:
        first = _Client(world.direct, folder / "log", random.Random(plan.seed), recorder)
        stack.callback(first.close)
        asyncio.run(_create_all(first, names))
        fleet = _Fleet(world.used, folder, plan.workers)
        stack.callback(fleet.close)
        observer = _Observer(world.direct, recorder)
        stack.callback(observer.close)
        _let_work(
            plan, world, names, folder, recorder, lambda: _break_things(plan, world, fleet, dice, recorder)
        )
        recorder.add("heal", "", "", time.monotonic())
        rested = asyncio.run(_wait_for_rest(first, world.direct, names))
        rest = _read_rest(world.direct, names, rested)
    effects = [_read_effect(line) for line in (folder / "log").read_text().splitlines()]
    asked = frozenset(event.what for event in effects if event.what.endswith(".asked"))
    return History([*recorder.events, *effects], rest, asked, BOUND_S)


async def _create_all(client: _Client, names: Sequence[str]) -> None:
    for name in names:
        await client.create(name)


def _let_work(
    plan: Plan,
    world: _World,
    names: Sequence[str],
    folder: Path,
    recorder: _Recorder,
    meanwhile: Callable[[], None],
) -> None:
    is_over = threading.Event()

    def work(number: int) -> None:
        client = _Client(world.used, folder / "log", random.Random(f"{plan.seed}.{number}"), recorder)
        asyncio.run(client.work(names, number, is_over))
        client.close()

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(plan.clients)]
    for thread in threads:
        thread.start()
    try:
        meanwhile()
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def _break_things(plan: Plan, world: _World, fleet: _Fleet, dice: random.Random, recorder: _Recorder) -> None:
    """Do one thing of the seed after the other, for the time of the plan."""
    faults = ["kill", "pause"] + (["cut"] if world.proxy else []) + (["restart"] if world.server else [])
    ends_at = time.monotonic() + plan.seconds
    while time.monotonic() < ends_at:
        time.sleep(dice.uniform(0.3, 1.5))
        fault, number = dice.choice(faults), dice.randrange(plan.workers)
        seconds = dice.uniform(0.2, 3 * LEASE_S)
        began = time.monotonic()
        if fault == "kill":
            fleet.kill(number)
        elif fault == "pause":
            fleet.pause(number, seconds)
        elif fault == "cut" and world.proxy is not None:
            world.proxy.break_lines()
        elif world.server is not None:
            world.server.stop()
            time.sleep(seconds / 4)
            world.server.start()
        recorder.add("fault", "", fault, began)


async def _wait_for_rest(client: _Client, url: str, names: Sequence[str]) -> dict[str, float]:
    """Decide what waits until every session is at rest; return when each came to rest."""
    store, rested = Store.open(url), dict[str, float]()
    deadline = time.monotonic() + 1.5 * BOUND_S
    sql = "SELECT session_id, status FROM heads WHERE owner = '' AND wake_at = ''"
    while time.monotonic() < deadline and len(rested) < len(names):
        heads: dict[str, str] = {}
        with suppress(SandburError):
            heads = {str(name): str(status) for name, status in store.database.query(sql)}
        await asyncio.gather(*(client.decide(name) for name in heads if heads[name] in _ASKS))
        await asyncio.gather(*(client.lift(name) for name in heads if heads[name] in _LIFTED))
        for name in (name for name in heads if heads[name] not in (*_ASKS, *_LIFTED, "running")):
            rested.setdefault(name, time.monotonic())
        for name in rested.keys() - {name for name, status in heads.items() if status not in _ASKS}:
            del rested[name]
        await asyncio.sleep(0.1)
    store.close()
    return rested


def _read_rest(url: str, names: Sequence[str], rested: dict[str, float]) -> dict[str, AtRest]:
    store = Store.open(url)
    found: dict[str, AtRest] = {}
    for name in names:
        view = store.show(name)
        history = view.state.chat_history
        messages = [one.text for one in history if one.role == "user" and one.origin == "person" and one.text]
        waiting = [one.text for one in store.inbox(name).load(view.state.inbox_taken)]
        breaches = len(audit(store.database, [name]).breaches)
        deaths = store.database.query(
            "SELECT COUNT(*) FROM inbox WHERE session_id = ? AND kind = ?", (name, DIED)
        )
        found[name] = AtRest(
            view.summary.status, messages, waiting, breaches, int(deaths[0][0]), rested.get(name, 0.0)
        )
    store.close()
    return found


def _read_effect(line: str) -> Event:
    item, at = line.split()
    return Event("effect", item.split(".")[0], item, float(at))


def describe(plan: Plan, history: History, found: Sequence[Violation]) -> str:
    """Return one line about a history."""
    counts = Counter(event.kind for event in history.events)
    faults = Counter(event.what for event in history.events if event.kind == "fault")
    lost = sum(event.kind == "send" and not event.acknowledged for event in history.events)
    what = ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
    return (
        f"{plan.kind:<11} seed {plan.seed:<6} {counts['send']} messages ({lost} without an answer),"
        f" {counts['effect']} effects, {counts['approve']} approvals, {counts['settle']} settled,"
        f" {counts['owner']} owners; {what}; {len(found)} violations"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long, without what is left to end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=KINDS, action="append", help="the stores; none: all of them")
    options = parser.parse_args()
    kinds, failures, seed = options.store or list(KINDS), 0, options.seed
    left_s = options.seconds
    while left_s > 0:
        plan = Plan(kinds[(seed - options.seed) % len(kinds)], min(_ROUND_S, left_s), seed)
        with tempfile.TemporaryDirectory() as folder:
            history = run_history(plan, Path(folder))
        found = check(history)
        print(describe(plan, history, found), flush=True)
        for one in found:
            print(f"  {one.rule}: {one.session}: {one.what}", flush=True)
        failures += len(found)
        left_s, seed = left_s - plan.seconds, seed + 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
