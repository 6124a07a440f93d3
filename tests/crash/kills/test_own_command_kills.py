"""What a person typed behind a `!` runs at most once and is told exactly once, wherever the process dies."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Ended
from support.stores.databases import DATABASES, empty_url
from support.victims.victims import run_victim

from sandbur.agent.history.replay.replay import replay
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store

POINTS = (
    "started_before_commit",
    "started_after_commit",
    "spawned",
    "effect_mid",
    "tool_ran",
    "request_before_send",
    *(f"store_{when}_commit:{number}" for number in (1, 2, 3, 4) for when in ("before", "after")),
)


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_url(request.param, tmp_path) as url:
        yield url


def run(url: str, folder: Path, point: str = "") -> Ended:
    return run_victim("own_command_victim", url, str(folder), point=point, SANDBUR_LEASE_S="1")


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("point", POINTS)
def test_it_is_done_at_most_once_and_told_once_wherever_the_process_dies(
    url: str, tmp_path: Path, point: str
) -> None:
    died = run(url, tmp_path, point)
    assert died.code == -signal.SIGKILL, died.err
    resumed = run(url, tmp_path)
    assert resumed.code == 0, resumed.err
    found: dict[str, Any] = json.loads(resumed.out)
    was_unknown = "outcome_unknown" in found["asked"]
    assert len(found["effects"]) == 1 or (was_unknown and not found["effects"])
    assert len(found["ran"]) == 1
    assert ("The user says that it was done" if was_unknown else "\nsaid by it\n") in found["ran"][0]
    assert found["told"][:-1] == found["ran"]


def test_what_a_kill_left_verifies_and_replays(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    assert run(url, tmp_path, "effect_mid").code == -signal.SIGKILL
    assert run(url, tmp_path).code == 0
    store = Store.open(url)
    assert not audit(store.database, ["s1"]).breaches
    assert asyncio.run(replay(store, "s1")).divergence is None
    store.close()
