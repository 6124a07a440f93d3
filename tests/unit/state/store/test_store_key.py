"""The key outside of the store: one for all processes, whole or not there, and nobody else's to read."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sandbur.state.errors import StoreError
from sandbur.state.store.seals import KEY_BYTES, find_key, key_path, load_or_make_key

MAKE = "import sys, pathlib; from sandbur.state.store.seals import load_or_make_key;" \
    " print(load_or_make_key(pathlib.Path(sys.argv[1])).hex())"  # fmt: skip


def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    home = tmp_path / "data"
    assert find_key(home) is None
    key = load_or_make_key(home)
    assert len(key) == KEY_BYTES
    assert load_or_make_key(home) == find_key(home) == key
    assert stat.S_IMODE(key_path(home).stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [path.name for path in home.iterdir()] == [key_path(home).name]


def test_two_data_folders_have_two_keys(tmp_path: Path) -> None:
    assert load_or_make_key(tmp_path / "a") != load_or_make_key(tmp_path / "b")


def test_processes_that_start_together_agree_on_one_key(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKE, str(tmp_path / "data")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(6)]
    assert len({process.communicate(timeout=60)[0] for process in processes}) == 1


def test_a_process_that_is_killed_while_it_makes_the_key_leaves_none(tmp_path: Path) -> None:
    env = {**os.environ, "SANDBUR_CRASH_AT": "key_written"}
    command = [sys.executable, "-c", MAKE, str(tmp_path)]
    ended = subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert find_key(tmp_path) is None
    assert len(load_or_make_key(tmp_path)) == KEY_BYTES


def test_the_rights_of_others_are_taken_from_the_key(tmp_path: Path) -> None:
    key = load_or_make_key(tmp_path)
    key_path(tmp_path).chmod(0o644)
    assert load_or_make_key(tmp_path) == key
    assert stat.S_IMODE(key_path(tmp_path).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"00ff\n", b"\xff" * 64, b"0" * 66])
def test_a_file_that_holds_no_key_is_named_and_not_replaced(tmp_path: Path, content: bytes) -> None:
    key_path(tmp_path).write_bytes(content)
    with pytest.raises(StoreError, match=r"store\.key does not contain a key") as raised:
        load_or_make_key(tmp_path)
    assert "Restore it from a backup" in raised.value.hint
    assert key_path(tmp_path).read_bytes() == content


def test_a_link_in_the_place_of_the_key_is_not_followed(tmp_path: Path) -> None:
    load_or_make_key(tmp_path / "other")
    key_path(tmp_path).symlink_to(key_path(tmp_path / "other"))
    with pytest.raises(StoreError, match="cannot be read"):
        load_or_make_key(tmp_path)


def test_a_pipe_in_the_place_of_the_key_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(key_path(tmp_path))
    with pytest.raises(StoreError, match="is not a regular file"):
        load_or_make_key(tmp_path)
