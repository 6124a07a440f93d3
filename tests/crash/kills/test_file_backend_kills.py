"""A write to session memory or to the store happens once, wherever the process dies, and settles itself."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.stores.databases import DATABASES, empty_url
from support.victims.victims import run_victim

POINTS = (
    # Between the intent and the write, within the write, and between the write and its result; of the
    # write of a new file and of the edit that follows it.
    "started_before_commit",
    "started_after_commit",
    "tool_ran",
    "store_before_commit:3",
    "store_after_commit:3",
    "started_after_commit:2",
    "tool_ran:2",
)
OF_THE_STORE = (
    "shared_file_before_commit",
    "shared_file_after_commit",
    "shared_file_before_commit:2",
    "shared_file_after_commit:2",
)


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_url(request.param, tmp_path) as url:
        yield url


def check(place: str, url: str, folder: Path, point: str) -> list[Any]:
    died = run_victim("file_victim", place, url, str(folder), point=point)
    assert died.code == -signal.SIGKILL, died.err
    resumed = run_victim("file_victim", place, url, str(folder))
    assert resumed.code == 0, resumed.err
    told = json.loads(resumed.out)
    assert told["status"] == "done"
    assert [outcome for outcome, _ in told["results"]] == ["ok", "ok", "ok"]
    # Had the edit happened twice it would be `one two two`; had it not, `one`.
    assert told["results"][-1][1] == "     1\tone two"
    return told["results"]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("place", ["memory", "store"])
def test_wherever_the_process_dies_the_files_are_as_they_were_to_become(
    place: str, url: str, tmp_path: Path, point: str
) -> None:
    check(place, url, tmp_path, point)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("point", OF_THE_STORE)
def test_a_shared_file_that_was_written_is_not_written_again(url: str, tmp_path: Path, point: str) -> None:
    results = check("store", url, tmp_path, point)
    was_done = [content.startswith("It had been done when") for _, content in results]
    number = int(point.endswith(":2"))
    assert was_done[number] == ("after" in point)
