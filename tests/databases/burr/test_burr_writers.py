"""Threads, processes and broken connections: no saved state gets lost or mixed up."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from burr.core import State
from support.places import ROOT
from support.stores.burr_persisters import Subject, save, value
from support.stores.databases import DATABASES, SERVERS, fresh_place, fresh_url

from sandbur.state.burr.persister import AsyncSandburPersister, SandburPersister
from sandbur.state.errors import StoreError


@pytest.mark.parametrize("kind", DATABASES)
def test_of_many_writers_of_one_step_exactly_one_wins(kind: str, tmp_path: Path) -> None:
    outcomes: list[str] = []

    def write(persister: SandburPersister, name: str) -> None:
        persister.initialize()
        for seq in range(4):
            try:
                persister.save(None, "app", seq, "act", State({"by": name}), "completed")
                outcomes.append(f"{seq} {name}")
            except StoreError as error:
                assert f"another step {seq} already" in error.message  # noqa: PT017

    with fresh_url(kind, tmp_path) as place:
        persisters = [SandburPersister.from_url(place) for _ in range(6)]
        threads = [threading.Thread(target=write, args=(each, str(n))) for n, each in enumerate(persisters)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        saved = [persisters[0].load(None, "app", seq) for seq in range(4)]
        assert sorted(outcomes) == [
            f"{seq} {found['state']['by']}" for seq, found in enumerate(saved) if found
        ]
        for persister in persisters:
            persister.cleanup()


async def test_a_writer_that_missed_steps_spoils_nothing(runs: Subject) -> None:
    first, second = await runs.open(), await runs.open()
    long = "x" * 5000
    for seq in range(3):
        await save(first, seq, {"n": seq, "long": long})
    await save(second, 3, {"n": 3, "long": long + "y"})
    await save(first, 4, {"n": 4, "long": long})
    await save(second, 5, {"n": 5, "long": long + "y"})
    expected = [long, long, long, long + "y", long, long + "y"]
    for seq, text in enumerate(expected):
        assert await value(first, "app", seq) == {"n": seq, "long": text}


def test_threads_share_a_persister(persister: SandburPersister) -> None:
    failures: list[Exception] = []

    def work(app: str) -> None:
        try:
            for seq in range(25):
                persister.save(None, app, seq, "act", State({"n": list(range(seq))}), "completed")
                assert persister.load(None, app)["state"]["n"] == list(range(seq))  # type: ignore[index]
        except (StoreError, AssertionError, TypeError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"app {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(persister.list_app_ids()) == 8


FORKING = """
import os, sys
from burr.core import State
from sandbur.state.burr.persister import SandburPersister
persister = SandburPersister.from_url(sys.argv[1])
persister.initialize()
for seq in range(3):  # the child saves the step in the middle
    child = os.fork() if seq == 1 else None
    if not child:
        persister.save(None, "app", seq, "act", State({"n": seq}), "completed")
    if child == 0:
        sys.exit(0)
    if child:
        assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_process_goes_on(persister: SandburPersister, url: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", FORKING, url], check=True, cwd=ROOT)
    assert [found["state"]["n"] for seq in range(3) if (found := persister.load(None, "app", seq))] == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize("kind", SERVERS)
async def test_lost_connections_lose_no_step(kind: str) -> None:
    with fresh_place(kind) as place:
        async with AsyncSandburPersister.from_url(place.url) as persister:
            await persister.initialize()
            for seq in range(6):
                await save(persister, seq, {"n": seq})
                assert place.kill() >= 1
            assert [(await value(persister, "app", seq))["n"] for seq in range(6)] == list(range(6))


async def test_a_cancelled_save_has_happened_or_not(runs: Subject) -> None:
    if not runs.is_async:
        return
    persister = await runs.open()
    saved = 0
    for pause in range(30):
        task = asyncio.create_task(
            persister.save(None, "app", saved, "act", State({"n": saved}), "completed")
        )
        for _ in range(pause % 6):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        found = await value(persister, "app")
        assert found in ({"n": saved}, {"n": saved - 1} if saved else None)
        saved += found == {"n": saved}
    await save(persister, saved, {"n": "end"})
    assert await value(persister, "app") == {"n": "end"}
