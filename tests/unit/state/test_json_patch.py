"""A difference brings the old value to exactly the new one, and is as small as what is new."""

import json
import random
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest

from sandbur.state.burr.json_diff import apply, diff, is_same


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def size(old: Any, new: Any) -> int:
    return len(json.dumps(diff(old, new)))


def value(chance: random.Random, depth: int = 0) -> Any:
    match chance.randrange(9 if depth < 3 else 6):
        case 0:
            return chance.choice([None, True, False, 0.0, -0.0, 1.0, float("nan")])
        case 1 | 2:
            return chance.choice([0, 1, -1, 10**20])
        case 6:
            return {chance.choice("abcdef"): value(chance, depth + 1) for _ in range(chance.randrange(5))}
        case 7 | 8:
            return [value(chance, depth + 1) for _ in range(chance.randrange(7))]
        case _:
            return "".join(chance.choice('ab\0é\ud800"') for _ in range(chance.randrange(6)))


def changed(chance: random.Random, old: Any) -> Any:
    new = as_json(old)
    if isinstance(new, dict) and new:
        name = chance.choice(list(new))
        changes: list[Callable[[], Any]] = [
            lambda: new.pop(name),
            lambda: new.update({name: changed(chance, new[name])}),
            lambda: new.update({name: new.pop(name)}),
            lambda: new.update({chance.choice("ghij"): value(chance, 2)}),
        ]
    elif isinstance(new, list) and new:
        place = chance.randrange(len(new))
        changes = [
            lambda: new.append(value(chance, 2)),
            lambda: new.insert(place, value(chance, 2)),
            lambda: new.pop(place),
            lambda: new.__delitem__(slice(0, place)),
            lambda: new.__setitem__(place, changed(chance, new[place])),
        ]
    else:
        return value(chance, 1)
    for change in chance.sample(changes, chance.randrange(1, 3)):
        if new and (isinstance(new, dict) or place < len(new)):
            with_name = not isinstance(new, dict) or name in new
            change() if with_name else None
    return new


@pytest.mark.parametrize("seed", range(8))
def test_a_difference_leads_to_exactly_the_new_value(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2000):
        old = value(chance)
        new = changed(chance, old) if chance.random() < 0.8 else value(chance)
        change = diff(old, new)
        result = as_json(old) if change is None else apply(as_json(old), as_json(change))
        assert json.dumps(result) == json.dumps(new)
        assert (change is None) == (json.dumps(old) == json.dumps(new))


@pytest.mark.parametrize(
    "others",
    [(1, True), (1, 1.0), (0, False), (0.0, -0.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ("1", 1), ([], {})],
)
def test_what_json_tells_apart_is_not_the_same(others: tuple[Any, Any]) -> None:
    assert not is_same(*others)
    assert not is_same([others[0]], [others[1]])
    assert diff({"a": others[0]}, {"a": others[1]}) is not None


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize("new", [(1, 2), {1: "a"}, Colour.RED, {"a": (1, {2: Colour.RED})}])
def test_what_json_makes_the_same_is_no_difference(new: Any) -> None:
    assert diff(as_json(new), new) is None
    assert diff([as_json(new)], [new]) is None


MESSAGES = [{"role": "user", "content": f"message {n} " * 100} for n in range(50)]
NEW = {"role": "user", "content": "x" * 100}


@pytest.mark.parametrize(
    "new",
    [
        [*MESSAGES, NEW],
        [NEW, *MESSAGES],
        [*MESSAGES[:20], NEW, *MESSAGES[20:]],
        [*MESSAGES[:20], *MESSAGES[21:]],
        [*MESSAGES[1:], NEW],
        [*MESSAGES[3:], NEW, NEW],
        [{**MESSAGES[0], "read": True}, *MESSAGES[1:], NEW],
        [{**message, "read": True} for message in MESSAGES[:5]] + MESSAGES[5:],
        [*MESSAGES[:-1], {**MESSAGES[-1], "content": MESSAGES[-1]["content"] + "more"}],
        MESSAGES[:10],
        [],
    ],
)
def test_a_history_costs_what_changed(new: list[Any]) -> None:
    assert size(MESSAGES, new) < 500
    assert size({"chat": {"history": MESSAGES}}, {"chat": {"history": new}}) < 550


@pytest.mark.parametrize("change", [["?"], [], ["[", 0, 9, {}, [], 0], ["[", 0, 0, {"5": ["=", 1]}, [], 0]])
def test_a_difference_that_does_not_fit_is_an_error(change: list[Any]) -> None:
    with pytest.raises((ValueError, LookupError)):
        apply([1, 2], change)
