"""Clients and workers under faults keep every rule, and the checker finds each rule that is broken."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from support.crash.fleet.rules import AtRest, Event, History, check
from support.crash.fleet.run import Plan, describe, run_history
from support.network.tls_servers import only_with
from support.stores.databases import ON_MYSQL

pytestmark = pytest.mark.slow

SECONDS = 12.0
SOUND = History(
    events=(
        Event("send", "s1", "s1.1", 1.0, 1.1),
        Event("send", "s1", "s1.2", 1.2, 1.3),
        Event("send", "s1", "s1.lost", 1.3, 1.4, acknowledged=False),
        Event("owner", "s1", "alpha", 2.0, epoch=1),
        Event("effect", "s1", "s1.1.free", 2.1),
        Event("fault", "", "kill", 2.2, 2.3),
        Event("owner", "s1", "beta", 2.5, epoch=2),
        Event("approve", "s1", "s1.1.asked", 3.0, 3.1),
        Event("effect", "s1", "s1.1.asked", 3.05),
        Event("owner", "s1", "", 4.0, epoch=2),
        Event("heal", "", "", 5.0, 5.0),
    ),
    rest={"s1": AtRest("done", ["s1.1", "s1.2"], rested_at=6.0)},
    needs_approval=frozenset({"s1.1.asked", "s1.2.asked"}),
    bound_s=10.0,
)

EARLY = Event("effect", "s1", "s1.2.asked", 2.0)


def add(*events: Event) -> History:
    return dataclasses.replace(SOUND, events=(*SOUND.events, *events))


def leave(**changes: object) -> History:
    return dataclasses.replace(SOUND, rest={"s1": dataclasses.replace(SOUND.rest["s1"], **changes)})  # type: ignore[arg-type]


def without(kind: str) -> History:
    events = tuple(event for event in SOUND.events if event.kind != kind)
    return dataclasses.replace(SOUND, events=events)


def test_a_sound_history_breaks_no_rule() -> None:
    assert check(SOUND) == []
    assert check(leave(messages=["s1.1", "s1.2", "s1.lost"])) == [], "what was not answered may have happened"
    assert check(leave(messages=["s1.1"], waiting=["s1.2"])) == [], "a message may wait"


@pytest.mark.parametrize(
    ("rule", "plant"),
    [
        ("one owner", lambda: add(Event("owner", "s1", "gamma", 2.6, epoch=2))),
        ("one owner", lambda: add(Event("owner", "s1", "alpha", 2.6, epoch=1))),
        ("one owner", lambda: leave(breaches=1)),
        ("no message lost", lambda: leave(messages=["s1.1"])),
        ("no message lost", lambda: leave(messages=["s1.1", "s1.2", "s1.2"])),
        ("no message lost", lambda: leave(waiting=["s1.2"])),
        ("no message lost", lambda: leave(messages=["s1.1", "s1.2", "s1.3"])),
        ("no message lost", lambda: add(Event("send", "s2", "s2.1", 1.0, 1.1))),
        ("no effect twice", lambda: add(Event("effect", "s1", "s1.1.free", 2.9))),
        ("none unapproved", lambda: without("approve")),
        ("none unapproved", lambda: add(EARLY, Event("approve", "s1", "s1.2.asked", 2.1))),
        ("bounded recovery", lambda: leave(rested_at=0.0)),
        ("bounded recovery", lambda: leave(rested_at=15.1)),
        ("bounded recovery", lambda: leave(deaths=3)),
    ],
)  # fmt: skip
def test_the_checker_finds_each_rule_that_is_broken_and_no_other(
    rule: str, plant: Callable[[], History]
) -> None:
    assert {found.rule for found in check(plant())} == {rule}


@pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        pytest.param("postgresql", marks=only_with("postgresql")),
        pytest.param("mysql", marks=ON_MYSQL),
    ],
)
def test_clients_and_workers_under_faults_keep_every_rule(tmp_path: Path, kind: str) -> None:
    plan = Plan(kind, SECONDS, seed=4)
    history = run_history(plan, tmp_path)
    found = check(history)
    assert found == [], (describe(plan, history, found), (tmp_path / "workers.err").read_text()[-3000:])
    kinds = {event.kind for event in history.events}
    assert {"send", "approve", "effect", "owner", "fault", "heal"} <= kinds, describe(plan, history, found)
