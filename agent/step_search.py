"""Finds the first bad one of many states by trying few of them."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["good", "bad", "skip"]


@dataclass(frozen=True, slots=True)
class Found:
    """Where good turns into bad, as places in the sequence; None: there is no such state."""

    good: int | None
    bad: int | None

    @property
    def is_exact(self) -> bool:
        """True if the two are neighbours: no state between them was skipped."""
        return self.good is not None and self.bad is not None and self.bad - self.good == 1


async def first_bad(count: int, judge: Callable[[int], Awaitable[Verdict]]) -> Found:
    """Judge as few of the states 0 to `count` - 1 as possible; each at most once.

    The first that can be judged has to be good and the last bad, else nothing is searched.
    """
    verdicts: dict[int, Verdict] = {}

    async def verdict(place: int) -> Verdict:
        if place not in verdicts:
            verdicts[place] = await judge(place)
        return verdicts[place]

    async def first_of(places: Sequence[int]) -> int | None:
        for place in places:
            if await verdict(place) != "skip":
                return place
        return None

    good = await first_of(range(count))
    if good is None or verdicts[good] == "bad":
        return Found(None, good)
    bad = await first_of(range(count - 1, good, -1))
    if bad is None or verdicts[bad] == "good":
        return Found(good if bad is None else bad, None)
    while (place := await first_of(list(_from_the_middle(good, bad)))) is not None:
        if verdicts[place] == "good":
            good = place
        else:
            bad = place
    return Found(good, bad)


def _from_the_middle(low: int, high: int) -> Iterator[int]:
    """Yield what lies between, the middle first."""
    middle = (low + high) // 2
    yield from sorted(range(low + 1, high), key=lambda place: abs(place - middle))
