"""A store for one test, and surroundings in which nothing of the person who runs it counts."""

import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class TemporaryStore:
    url: str
    """For `Agent(store=...)`."""
    env: Mapping[str, str]
    """For `Agent(env=...)`: the environment of the process, with data and configuration in the folder."""
    folder: Path


@contextmanager
def temporary_store() -> Generator[TemporaryStore]:
    """Lend an empty store, in memory where the system keeps files there; everything is gone afterwards."""
    place = _IN_MEMORY if _IN_MEMORY.is_dir() and os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sandbur-test-", dir=place) as name:
        folder = Path(name)
        url = f"sqlite:///{folder / 'sandbur.db'}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SANDBUR_")}
        own = {"SANDBUR_HOME": str(folder / "data"), "XDG_CONFIG_HOME": str(folder / "config")}
        yield TemporaryStore(url, {**kept, **own, "SANDBUR_STORE": url}, folder)
