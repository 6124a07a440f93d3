"""What is said while a run goes on is in the history exactly once, wherever the process dies."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.command import Ended
from support.stores.databases import DATABASES, empty_url
from support.victims.victims import run_victim

from sandbur.testing import assert_replays

POINTS = (
    "inbox_before_commit",
    "inbox_before_commit:2",
    "inbox_after_commit:2",
    "inbox_withdraw_before_commit",
    "inbox_withdraw_after_commit",
    # Taken, and not recorded; asked with it; answered, and not recorded.
    "inbox_taken",
    "request_before_send:2",
    "reply_before_commit:2",
    # The turn of the message that was queued: before and after the step that takes it in, and after that.
    "request_before_send:3",
    "reply_before_commit:3",
    *(f"store_{when}_commit:{number}" for number in (3, 5, 7) for when in ("before", "after")),
)


OBSERVE_POINTS = (
    "inbox_before_commit",
    "inbox_after_commit",
    "inbox_after_commit:2",
    "inbox_after_commit:3",
    "inbox_taken",
    "inbox_taken:2",
    "inbox_taken:3",
    # The messages that are observed as a list: stored, taken, and in the history.
    "inbox_before_commit:4",
    "inbox_after_commit:4",
    "inbox_taken:4",
    "reply_before_commit",
    "request_before_send:2",
    "reply_before_commit:2",
    *(f"store_{when}_commit:{number}" for number in range(1, 8) for when in ("before", "after")),
)
BATCH = ["first", "second", "third"]


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_url(request.param, tmp_path) as url:
        yield url


def run(url: str, folder: Path, point: str = "", victim: str = "inbox_victim") -> Ended:
    return run_victim(victim, url, str(folder), point=point)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("point", POINTS)
def test_what_was_said_is_heard_once_wherever_the_process_dies(url: str, tmp_path: Path, point: str) -> None:
    died = run(url, tmp_path, point)
    assert died.code == -signal.SIGKILL, died.err
    acknowledged = (tmp_path / "told").read_text().split() if (tmp_path / "told").exists() else []
    resumed = run(url, tmp_path)
    assert resumed.code == 0, resumed.err
    told = json.loads(resumed.out)
    assert told["left"] == []
    said = told["said"]
    # What was acknowledged is heard once; what was not, never or once.
    assert said.count("begin") == 1
    for text in ("steered", "queued"):
        assert said.count(text) == 1 or (text not in acknowledged and not said.count(text))
    assert said.count("withdrawn") == (point == "inbox_withdraw_before_commit")


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("point", OBSERVE_POINTS)
def test_an_observed_message_is_recorded_once_wherever_the_process_dies(
    url: str, tmp_path: Path, point: str
) -> None:
    died = run(url, tmp_path, point, "observe_victim")
    assert died.code == -signal.SIGKILL, died.err
    marks = tmp_path / "acknowledged"
    acknowledged = marks.read_text().split() if marks.exists() else []
    resumed = run(url, tmp_path, victim="observe_victim")
    assert resumed.code == 0, resumed.err
    found = json.loads(resumed.out)
    assert found["left"] == 0
    observed = found["observed"]
    assert observed.count("begin") == 1
    # A message that was not acknowledged is observed a second time: it may have been stored before.
    for text in ("before", "during", "after"):
        assert observed.count(text) == 1 or (text not in acknowledged and observed.count(text) == 2)
    order = [observed.index(text) for text in ("before", "begin", "during", "after", *BATCH)]
    assert order == sorted(order)
    batch = [text for text in observed if text in BATCH]
    assert batch == BATCH or (batch == BATCH * 2 and "first" not in acknowledged)
    assert_replays("s1", store=url)
