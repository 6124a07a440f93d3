"""A dataclass whose methods are made at their first use is, for everybody, one of the standard library."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from sandbur.state.lazy_dataclass import dataclass as lazy_dataclass

lazy: Any = lazy_dataclass


def make(decorate: Any) -> dict[str, type[Any]]:
    """Return the same classes, declared with one of the decorators."""

    @decorate(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        names: list[str] = field(default_factory=list[str])
        _: KW_ONLY
        note: str = field(default="", compare=False, repr=False)
        seen: int = field(default=7, init=False)

        def total(self) -> int:
            return self.x + self.seen

    @decorate(frozen=True, slots=True)
    class Far(Point):
        names: list[str] = field(default_factory=lambda: ["far"])
        z: "float" = 0.5

    @decorate(slots=True, kw_only=True)
    class Counter:
        count: int
        double: int = field(init=False)

        def __post_init__(self) -> None:
            self.double = 2 * self.count

    @decorate(frozen=True, slots=True)
    class Empty:
        def __eq__(self, other: object) -> bool:
            return True

    @decorate(frozen=True, slots=True)
    class Recursive:
        inner: list[Any]

    made = {cls.__name__: cls for cls in (Point, Far, Counter, Empty, Recursive)}
    for name, cls in made.items():
        cls.__qualname__ = name
    return made


LAZY, USUAL = make(lazy), make(dataclasses.dataclass)
globals().update(LAZY)  # where `pickle` looks for them


def refuse(attempt: Callable[[], object]) -> str:
    with pytest.raises((TypeError, AttributeError)) as refused:
        attempt()
    return f"{type(refused.value).__name__}: {refused.value}".replace("make.<locals>.", "")


def describe(classes: dict[str, type[Any]]) -> list[Any]:
    """Return what a program can see of these classes and of values of them."""
    Point, Far, Counter, Empty = (classes[name] for name in ("Point", "Far", "Counter", "Empty"))  # noqa: N806
    point, far, counter = Point(1, ["a"], note="n"), Far(2, note="m"), Counter(count=4)
    match far:
        case Far(x, names):
            matched = x, names
    inner: list[Any] = []
    inner.append(classes["Recursive"](inner))
    return [
        [repr(each) for each in (point, far, counter, Empty(), *inner)],
        [asdict(each) for each in (point, far, counter, replace(far, x=3, z=1.5))],
        [[(each.name, each.init, each.kw_only) for each in fields(cls)] for cls in classes.values()],
        [str(inspect.signature(cls)) for cls in classes.values()],
        [getattr(cls, "__match_args__", None) for cls in classes.values()],
        [sorted(getattr(cls, "__slots__", ())) for cls in classes.values()],
        [is_dataclass(cls) for cls in classes.values()],
        [cls.__doc__ for cls in classes.values() if cls is Point],
        matched,
        point == Point(1, ["a"]), point == Point(2, ["a"]), point == 1, Empty() == Point(1),
        Counter(count=4) == counter, Counter.__hash__, hash(Point(1, ())) == hash(Point(1, (), note="other")),
        Far(1).total(), TypeAdapter(Counter).validate_python({"count": 5}).double,
        refuse(lambda: setattr(point, "x", 3)), refuse(lambda: delattr(point, "x")),
        refuse(lambda: setattr(counter, "absent", 3)),
        refuse(Point), refuse(lambda: Point(1, [], "note")), refuse(lambda: Counter(4)),
    ]  # fmt: skip


def test_a_lazy_dataclass_is_seen_as_one_of_the_standard_library() -> None:
    assert describe(LAZY) == describe(USUAL)


def test_values_are_copied_and_pickled() -> None:
    for value in (LAZY["Far"](2, ["b"], note="m"), LAZY["Counter"](count=3)):
        for made in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert asdict(made) == asdict(value)
            assert made is not value


def test_a_usual_class_or_dataclass_below_a_lazy_one_keeps_its_rules() -> None:
    class Plain(LAZY["Recursive"]): ...

    @dataclasses.dataclass(frozen=True)
    class Below(LAZY["Recursive"]):
        more: int = 1

    plain = Plain([])
    plain.own = 1
    assert plain.own == 1
    with pytest.raises(FrozenInstanceError):
        plain.inner = []
    assert repr(Below([1])).endswith("Below(inner=[1], more=1)")


def test_a_class_without_slots_or_with_a_rare_option_is_made_by_the_standard_library() -> None:
    @lazy(order=True, slots=True)
    class Ordered:
        x: int

    @lazy
    class Bare:
        x: int

    assert Ordered(1) < Ordered(2)
    assert Bare(1).__dict__ == {"x": 1}
