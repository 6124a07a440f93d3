"""Measures the time to save a growing history, compared with Burr's own persister."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import BaseStatePersister, SQLitePersister

from sandbur.state.burr.persister import SandburPersister

MESSAGE = 2000


@action(reads=["chat_history"], writes=["chat_history"])
def say(state: State[Any]) -> State[Any]:
    return state.append(chat_history={"role": "user", "content": os.urandom(MESSAGE // 2).hex()})


class Timed(BaseStatePersister):
    """Notes how long each save takes."""

    def __init__(self, persister: Any) -> None:
        self._persister = persister
        self.seconds: list[float] = []
        self.load, self.list_app_ids = persister.load, persister.list_app_ids

    def is_initialized(self) -> bool:
        return True

    def load(self, *args: Any, **kwargs: Any) -> Any: ...

    def list_app_ids(self, *args: Any, **kwargs: Any) -> Any: ...

    def save(self, *args: Any, **kwargs: Any) -> None:
        began = time.perf_counter()
        self._persister.save(*args, **kwargs)
        self.seconds.append(time.perf_counter() - began)


def run(persister: Any, steps: int) -> list[float]:
    persister.initialize()
    timed = Timed(persister)
    builder = ApplicationBuilder().with_actions(say).with_transitions(("say", "say")).with_entrypoint("say")
    builder = builder.with_state(chat_history=[]).with_state_persister(timed).with_identifiers(app_id="chat")
    app = builder.build()
    for _ in range(steps):
        app.step()
    return timed.seconds


@contextmanager
def ours(path: Path) -> Iterator[Any]:
    with SandburPersister.from_url(f"sqlite:///{path}") as persister:
        yield persister


@contextmanager
def theirs(path: Path) -> Iterator[Any]:
    with SQLitePersister(str(path)) as persister:
        yield persister


def measure_one(
    name: str, opened: Callable[[Path], Any], folder: Path, steps: int
) -> tuple[int, float, float]:
    path = folder / name / "runs.db"
    path.parent.mkdir()
    with opened(path) as persister:
        seconds = run(persister, steps)
    on_disk = sum(file.stat().st_size for file in path.parent.iterdir())
    with opened(path) as persister:
        began = time.perf_counter()
        assert len(persister.load(None, "chat")["state"]["chat_history"]) == steps
        load_ms = (time.perf_counter() - began) * 1000
    early, late, mean = median(seconds[1:21]), median(seconds[-20:]), sum(seconds) / steps
    print(
        f"{name:8} {on_disk:>12,} bytes; a save: mean {mean * 1000:.2f} ms, first 20 {early * 1000:.2f} ms,"
        f" last 20 {late * 1000:.2f} ms; a load {load_ms:.1f} ms"
    )
    return on_disk, mean, late


def measure(folder: Path, steps: int) -> None:
    print(f"{steps} steps, each adds a message of {MESSAGE} bytes: {steps * MESSAGE:,} bytes of content")
    mine = measure_one("sandbur", ours, folder, steps)
    burr = measure_one("burr", theirs, folder, steps)
    bytes_ratio, mean_ratio, late_ratio = (a / b for a, b in zip(mine, burr, strict=True))
    print(f"sandbur / burr: bytes {bytes_ratio:.4f}, mean save {mean_ratio:.2f}, late save {late_ratio:.2f}")
    print(f"sandbur: {mine[0] / (steps * MESSAGE):.2f} bytes on disk for a byte of content")
