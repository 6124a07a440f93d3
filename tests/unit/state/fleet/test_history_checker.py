"""The checker of histories finds each kind of violation, and none in a history that is right."""

from dataclasses import replace

import pytest
from support.history.checker import Ownership, StoredCall, StoredSession, check_history, list_rules
from support.history.log import Event, Kind, Phase

ACT, ASKING, LOOK = StoredCall("a", starts=1, outcome="ok"), StoredCall("b", True, False, 1, "ok"), "c"
RIGHT = StoredSession(
    messages=("m1", "m2"),
    calls=(ACT, ASKING, StoredCall(LOOK, is_read=True, starts=3, outcome="ok")),
    owners=(Ownership(1, "x", 4), Ownership(1, "", 5), Ownership(2, "y", 9)),
)


def at(time: int, kind: Kind, text: str, phase: Phase = "ok", process: str = "p", **more: str) -> Event:
    return Event(kind, time, process, "s", text, phase, more)


HISTORY = [
    at(1, "send", "m1", "asked"),
    at(2, "send", "m1"),
    at(3, "effect", "a"),
    at(4, "approve", "b", "asked"),
    at(5, "effect", "b"),
    at(6, "effect", LOOK),
    at(7, "effect", LOOK),
    at(8, "send", "m2", "asked"),
    at(9, "send", "m2"),
]


def test_a_right_history_has_no_violation() -> None:
    assert check_history(HISTORY, {"s": RIGHT}, deaths=2) == []


def test_a_request_without_a_known_end_may_or_may_not_have_taken_effect() -> None:
    asked = [*HISTORY, at(10, "send", "m3", "asked"), at(11, "send", "m4", "unknown")]
    assert check_history(asked, {"s": RIGHT}, deaths=2) == []
    with_both = replace(RIGHT, messages=("m1", "m2", "m4", "m3"))
    assert check_history(asked, {"s": with_both}, deaths=2) == []


def test_a_call_that_a_person_lets_run_again_may_take_effect_again() -> None:
    rerun = [*HISTORY, at(10, "settle", "a", "asked", outcome="rerun"), at(11, "effect", "a")]
    again = replace(RIGHT, calls=(replace(ACT, starts=2), *RIGHT.calls[1:]))
    assert check_history(rerun, {"s": again}, deaths=2) == []


@pytest.mark.parametrize(
    ("more", "session", "rule"),
    [
        ([], {"messages": ("m2",)}, "message m1 was acknowledged and is lost"),
        ([], {"messages": ("m1", "m2", "m1")}, "message m1 is there 2 times"),
        ([], {"messages": ("m2", "m1")}, "message m2 came before m1, which was acknowledged earlier"),
        ([], {"messages": ("m1", "m2", "m9")}, "nobody sent message m9 there"),
        ([at(10, "send", "m3", "refused")], {"messages": ("m1", "m2", "m3")}, "nobody sent message m3 there"),
        ([at(10, "effect", "a")], {}, "call a took effect 2 times"),
        ([at(10, "effect", "z")], {}, "call z took effect, and its start is not in the store"),
        ([], {"calls": (replace(ACT, outcome="denied"),)}, "call a took effect, and the store says denied"),
        ([], {"calls": (*RIGHT.calls, StoredCall("d", starts=1, outcome="ok"))},
         "call d is done in the store, and never took effect"),
        ([], {"calls": (replace(ACT, starts=2), *RIGHT.calls[1:])}, "call a was started 2 times"),
        ([], {"calls": (*RIGHT.calls[:2], StoredCall(LOOK, is_read=True, starts=4, outcome="ok"))},
         "call c was started 4 times after 2 deaths"),
        ([], {"is_at_rest": False}, "the session never came to rest"),
        ([], {"is_deadly": True, "status": "running"},
         "the session kills its process and is not parked, but running"),
        ([], {"is_deadly": True, "status": "parked", "calls": (StoredCall(LOOK, is_read=True, starts=4),)},
         "call c was started 4 times after 2 deaths"),
        ([], {"owners": (Ownership(2, "x", 1), Ownership(1, "y", 2))}, "epoch 1 after 2"),
        ([], {"owners": (Ownership(2, "x", 1), Ownership(2, "y", 2))}, "two owners in epoch 2: x and y"),
        ([], {"owners": (Ownership(1, "x", 5), Ownership(2, "y", 4))}, "4 records after 5"),
    ],
)  # fmt: skip
def test_a_violation_is_found(more: list[Event], session: dict[str, object], rule: str) -> None:
    found = check_history([*HISTORY, *more], {"s": replace(RIGHT, **session)}, deaths=2)  # type: ignore[arg-type]
    assert rule in list_rules(found)


def test_an_effect_before_its_approval_is_found() -> None:
    early = [event for event in HISTORY if event.kind != "approve"]
    found = check_history([*early, at(20, "approve", "b", "asked")], {"s": RIGHT}, deaths=2)
    assert list_rules(found) == {"call b took effect before a person approved it"}


def test_a_session_that_is_gone_is_found() -> None:
    assert "the session is lost" in list_rules(check_history(HISTORY, {}, deaths=2))
