"""A cache that anything may be missing from, and that never grows without end."""

import os
import threading
from pathlib import Path

from sandbur.actions.workspace.content_cache import ContentCache, write_whole


def test_the_cache_is_bounded_and_keeps_what_is_used(tmp_path: Path):
    cache = ContentCache(tmp_path, max_bytes=1000)
    digests = [cache.put(bytes([number]) * 100) for number in range(20)]
    for age, name in enumerate(digests):
        next(tmp_path.rglob(f"{name}*")).touch()
        os.utime(next(tmp_path.rglob(f"{name}*")), (age, age))
    cache.prune({digests[0]})
    again = ContentCache(tmp_path, max_bytes=1000)
    kept = [digests.index(name) for name in digests if name in again]
    assert kept == [0, *range(20 - len(kept) + 1, 20)]
    assert 500 <= len(kept) * 100 <= 1000


def test_a_content_that_is_half_there_is_not_there(tmp_path: Path):
    cache = ContentCache(tmp_path)
    digest = cache.put(b"whole")
    next(tmp_path.rglob(f"{digest}*")).write_bytes(b"who")
    assert ContentCache(tmp_path).get(digest) is None
    assert digest not in ContentCache(tmp_path)
    assert ContentCache(tmp_path).get("0" * 64) is None


def test_a_reader_never_sees_a_part_of_a_file(tmp_path: Path):
    path = tmp_path / "index"
    write_whole(path, b"a" * 100_000)
    is_over = threading.Event()
    seen: set[bytes] = set()

    def watch() -> None:
        while not is_over.is_set():
            seen.add(path.read_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(50):
        write_whole(path, b"ab"[number % 2 : number % 2 + 1] * 100_000)
    is_over.set()
    watcher.join()
    assert seen <= {b"a" * 100_000, b"b" * 100_000}
    assert list(tmp_path.iterdir()) == [path]
