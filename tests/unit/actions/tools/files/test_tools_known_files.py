"""A file is read again unless it surely did not change."""

import time
from pathlib import Path

from sandbur.actions.workspace.content_cache import ContentCache, digest_of
from sandbur.actions.workspace.paths import FileStat
from sandbur.actions.workspace.snapshot import KnownFile, snapshot_files


def no_secret(content: bytes) -> bool:
    return False


def test_a_file_that_is_read_right_after_a_change_is_read_again(tmp_path: Path):
    top, path, contents = f"{tmp_path}/", tmp_path / "a", ContentCache(tmp_path / "cache")
    path.write_text("old")
    statuses = {"a": FileStat.of(path.lstat())}
    early = KnownFile(statuses["a"], contents.put(b"wrong"), is_settled=False)
    late = KnownFile(statuses["a"], contents.put(b"known"), is_settled=True)
    assert snapshot_files(top, statuses, {"a": early}, contents, no_secret)["a"].digest == digest_of(b"old")
    assert snapshot_files(top, statuses, {"a": late}, contents, no_secret) == {"a": late}
    while not (seen := snapshot_files(top, statuses, {}, contents, no_secret)["a"]).is_settled:
        assert time.time_ns() < statuses["a"].changed_ns + 5_000_000_000
    assert time.time_ns() > seen.status.changed_ns + 20_000_000
