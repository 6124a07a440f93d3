"""Encodes the difference of two JSON values as a small JSON value, and applies it.

A difference is one of these:
    ["=", value]
    ["+", text to append]
    ["{", {key: difference}, [removed keys], order of all keys if it changed]
    ["[", number dropped at the start, number kept after it, {index: difference}, new elements,
     number kept at the end]
"""

import json
from collections.abc import Sequence
from typing import Any, cast

_Difference = list[Any]
_ARRAYS = (list, tuple)


def is_same(old: Any, new: Any) -> bool:
    """Compare two values as JSON: 1, 1.0 and true differ, and so do objects whose keys have another order."""
    kind = type(old)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        return type(new) is str and old == new
    if kind is dict:
        return type(new) is dict and _has_same_items(old, cast("dict[Any, Any]", new))
    if kind is list:
        return type(new) in _ARRAYS and len(old) == len(new) and all(map(is_same, old, new))
    if type(new) is not kind:
        return False
    return repr(old) == repr(new) if kind is float else old == new


def diff(old: Any, new: Any) -> _Difference | None:
    """Return the change from `old`, which is plain JSON, to `new`, or None if they are equal."""
    kind = type(old)  # pyright: ignore[reportUnknownVariableType]
    if kind is dict and _has_text_keys(new):
        return _diff_objects(old, new)
    if kind is list and type(new) in _ARRAYS:
        return _diff_lists(old, new)
    if is_same(old, new):
        return None
    plain = json.loads(json.dumps(new))
    if kind in (dict, list) and type(plain) is kind:
        return diff(old, plain)
    if is_same(old, plain):
        return None
    if kind is str and type(plain) is str and old and plain.startswith(old):
        return ["+", plain[len(old) :]]
    return ["=", plain]


def apply(old: Any, change: _Difference) -> Any:
    """Apply a change and return the new value. It may change `old` in place. Raises `ValueError` for an
    unknown change.
    """
    match change:
        case ["=", value]:
            return value
        case ["+", suffix]:
            return old + suffix
        case ["{", changes, gone, order]:
            return _apply_to_object(old, changes, gone, order)
        case ["[", dropped, kept, changes, added, tail]:
            return _apply_to_list(old, dropped, kept, changes, added, tail)
        case _:
            raise ValueError("unknown kind of difference")


def _has_same_items(old: dict[str, Any], new: dict[Any, Any]) -> bool:
    if len(old) != len(new):
        return False
    # This is a plain loop, because it runs for every message of a history in every step.
    for (name, before), (other, after) in zip(old.items(), new.items(), strict=True):
        if name != other or not is_same(before, after):
            return False
    return True


def _has_text_keys(value: Any) -> bool:
    return type(value) is dict and all(type(name) is str for name in cast("dict[Any, Any]", value))


def _diff_objects(old: dict[str, Any], new: dict[str, Any]) -> _Difference | None:
    changes: dict[str, _Difference] = {}
    for name, value in new.items():
        change = diff(old[name], value) if name in old else ["=", value]
        if change is not None:
            changes[name] = change
    gone = [name for name in old if name not in new]
    names = [name for name in old if name in new] + [name for name in new if name not in old]
    order = None if names == list(new) else list(new)
    return ["{", changes, gone, order] if changes or gone or order else None


def _diff_lists(old: list[Any], new: Sequence[Any]) -> _Difference | None:
    shorter = min(len(old), len(new))
    front = _count_common_start(old, new)
    if front == len(old) == len(new):
        return None
    if front == 0 and (dropped := _count_dropped(old, new)):
        kept = len(old) - dropped
        return ["[", dropped, kept, {}, new[kept:], 0]
    tail = _count_common_start(old[front:][::-1], new[front:][::-1])
    end = len(new) - tail
    spliced: _Difference = ["[", 0, front, {}, new[front:end], tail]
    middle = shorter - tail
    changes = {
        index: change
        for index in range(front, middle)
        if (change := diff(old[index], new[index])) is not None
    }
    edited: _Difference = ["[", 0, middle, changes, new[middle:end], tail]
    if not changes:
        return None if middle == end == len(old) - tail else edited
    return min(edited, spliced, key=lambda change: len(json.dumps(change)))


def _count_common_start(old: Sequence[Any], new: Sequence[Any]) -> int:
    count = 0
    for before, after in zip(old, new, strict=False):
        if not is_same(before, after):
            break
        count += 1
    return count


def _count_dropped(old: list[Any], new: Sequence[Any]) -> int:
    """Return how many elements at the start of a list were removed in its continuation; 0 if `new` does not
    continue it.
    """
    if not new:
        return 0
    for place in range(1, len(old)):
        if is_same(old[place], new[0]):
            rest = len(old) - place
            return place if _count_common_start(old[place:], new) == rest else 0
    return 0


def _apply_to_object(
    old: dict[str, Any], changes: dict[str, _Difference], gone: list[str], order: list[str] | None
) -> dict[str, Any]:
    for name, change in changes.items():
        old[name] = apply(old.get(name), change)
    for name in gone:
        del old[name]
    return old if order is None else {name: old[name] for name in order}


def _apply_to_list(
    old: list[Any], dropped: int, kept: int, changes: dict[str, _Difference], added: list[Any], tail: int
) -> list[Any]:
    end = old[len(old) - tail :]
    del old[:dropped]
    if kept > len(old):
        raise ValueError("the list is too short")
    del old[kept:]
    for index, change in changes.items():
        old[int(index)] = apply(old[int(index)], change)
    old += added
    old += end
    return old
