"""Several processes at one store: one of them runs a session, the others are told, and readers never wait."""

import json
import os
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.crash.checks import check_journal, check_requests, check_world
from support.crash.place import Ended, Place
from support.crash.scenarios import SCENARIOS
from support.models.server import ModelServer

EFFECTS = SCENARIOS["effects"]
FULL = bool(os.environ.get("SANDBUR_FULL"))
ROUNDS = 10 if FULL else 1


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ModelServer(EFFECTS.responder()) as server:
        yield Place(tmp_path / "run", server)


@pytest.mark.parametrize("crash", ["store_after_commit:1", "started_after_commit:1", "mid:one", "tool_ran:2"])
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_of_three_that_resume_at_once_one_goes_on(place: Place, crash: str, turn: int) -> None:
    assert place.begin(crash=crash).code == -9
    with ThreadPoolExecutor(3) as pool:
        ended = list(pool.map(lambda _: place.resume(), range(3)))
    winners = [one for one in ended if one.code == 0]
    losers = [one for one in ended if one.code != 0]
    assert winners, [one.err for one in ended]
    assert all(one.result["result"] == "both are written" for one in winners)
    for one in losers:
        assert one.code == 1, one.err
        assert one.result["error"]["code"] in ("session_held", "session_moved", "store"), one.out
        assert "in process" in one.err or "another process" in one.err, one.err
    assert [*check_world(place, EFFECTS, 1, "honest"), *check_journal(place, place.session_id)] == []
    assert place.server.rejections == []


def test_many_processes_share_a_store_and_nobody_is_turned_away(place: Place) -> None:
    count = 20 if FULL else 8

    def run(number: int) -> Ended:
        words = ("-p", f"run echo {number} >> all.txt", "-m", "demo", "-y", "--output-format", "json")
        return place.run(*words, "--session-id", str(uuid.uuid4()))

    with ThreadPoolExecutor(count) as pool:
        ended = list(pool.map(run, range(count)))
    assert [one.err for one in ended if one.code] == []
    written = (place.workspace / "all.txt").read_text().split()
    assert sorted(written, key=int) == [str(number) for number in range(count)]
    listed = place.run("sessions", "list", "--json")
    assert len(listed.out.splitlines()) == count


def test_readers_see_a_running_session_and_do_not_disturb_it(place: Place) -> None:
    (place.folder / "hook").write_text('[ "$1" = two ] || while [ ! -e ../go ]; do sleep 0.05; done\n')
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(place.begin)
        end = time.monotonic() + 120
        while not place.effects and time.monotonic() < end:
            time.sleep(0.02)
        shown = place.run("sessions", "show", place.session_id, "--json")
        exported = place.run("sessions", "export", place.session_id)
        listed = place.run("sessions", "list", "--json")
        examined = place.run("doctor")
        (place.folder / "go").touch()
        ended = run.result()
    assert [shown.code, exported.code, listed.code] == [0, 0, 0]
    assert "Traceback" not in shown.err + exported.err + listed.err + examined.err
    assert '"started"' in exported.out
    assert json.loads(listed.out)["status"] == "running"
    assert (ended.code, ended.result["result"]) == (0, "both are written")
    assert place.effects == ["one", "one-end", "two", "two-end"]
    assert [*check_requests(place, ["do it"])] == []
