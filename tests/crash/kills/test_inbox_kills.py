"""What is said while a run goes on is in the history exactly once, wherever the process dies."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.command import Ended
from support.stores.databases import DATABASES, fresh_url
from support.victims.victims import run_victim

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


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with fresh_url(request.param, tmp_path) as url:
        yield url


def run(url: str, folder: Path, point: str = "") -> Ended:
    return run_victim("inbox_victim", url, str(folder), point=point)


@pytest.mark.slow
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
