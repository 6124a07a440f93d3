"""Checks that a store can be written and that its disk has room, without leaving anything."""

import os
from pathlib import Path
from tempfile import TemporaryFile

from ..store.store import Store

_ROOM_BYTES = 256 * 1024
"""The size of a test write: about what a few steps of a run need."""
_FILE_URL = "sqlite:///"


def try_room(store: Store) -> None:
    """Write a temporary file without a name beside a store that is a file. Raises `OSError`."""
    if store.database.is_volatile or not store.url.startswith(_FILE_URL):
        return
    with TemporaryFile(dir=Path(store.url.removeprefix(_FILE_URL)).parent) as file:
        file.write(bytes(_ROOM_BYTES))
        file.flush()
        os.fsync(file.fileno())


def check_writing(store: Store) -> None:
    """Write and delete a row, and use some room. Raises `StoreError` or `OSError`."""
    store.try_writing()
    try_room(store)
