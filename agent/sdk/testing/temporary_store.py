"""A store for one test, and an environment without the settings of the user who runs the test."""

import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ....state.lazy_dataclass import dataclass
from ....state.process.temporaries import make_prefix

_IN_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class TemporaryStore:
    """An empty store for one test."""

    url: str
    """The value for `Agent(store=...)`."""
    env: Mapping[str, str]
    """The value for `Agent(env=...)`: the process environment, with data and configuration in this folder."""
    folder: Path


@contextmanager
def temporary_store() -> Generator[TemporaryStore]:
    """Open an empty store, in a file system in memory if there is one. It is deleted at the end of the
    block."""
    place = _IN_MEMORY if _IN_MEMORY.is_dir() and os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=make_prefix("test", place), dir=place) as name:
        folder = Path(name)
        url = f"sqlite:///{folder / 'sandbur.db'}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SANDBUR_")}
        own = {"SANDBUR_HOME": str(folder / "data"), "XDG_CONFIG_HOME": str(folder / "config")}
        yield TemporaryStore(url, {**kept, **own, "SANDBUR_STORE": url}, folder)
