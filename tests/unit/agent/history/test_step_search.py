"""The search for the first bad state tries few, and says when it cannot tell."""

from typing import Any

import pytest

from sandbur.agent.history.time_travel.bisect import Boundary, first_bad


class Judge:
    """Answers from a text: g, b or s for each state."""

    def __init__(self, verdicts: str) -> None:
        self.verdicts = verdicts
        self.asked: list[int] = []

    async def __call__(self, place: int) -> Any:
        self.asked.append(place)
        return {"g": "good", "b": "bad", "s": "skip"}[self.verdicts[place]]


async def found(verdicts: str) -> Boundary:
    return await first_bad(len(verdicts), Judge(verdicts))


async def test_the_first_bad_of_64_states_is_found_with_eight_tries() -> None:
    for first in range(1, 64):
        judge = Judge("g" * first + "b" * (64 - first))
        assert await first_bad(64, judge) == Boundary(first - 1, first)
        assert len(judge.asked) <= 8
        assert len(set(judge.asked)) == len(judge.asked)


async def test_nothing_is_searched_where_the_beginning_is_bad_or_the_end_good() -> None:
    assert await found("bbbb") == Boundary(None, 0)
    assert await found("gggg") == Boundary(3, None)
    judge = Judge("bgbgb")
    await first_bad(5, judge)
    assert judge.asked == [0]


@pytest.mark.parametrize(
    ("verdicts", "expected", "is_exact"),
    [
        ("gsssb", Boundary(0, 4), False),
        ("gsbbb", Boundary(0, 2), False),
        ("sgbs", Boundary(1, 2), True),
        ("gsgsbsb", Boundary(2, 4), False),
        ("ggsssbb", Boundary(1, 5), False),
        ("ssss", Boundary(None, None), False),
        ("gsss", Boundary(0, None), False),
        ("sssb", Boundary(None, 3), False),
        ("g", Boundary(0, None), False),
        ("gb", Boundary(0, 1), True),
    ],
)
async def test_states_that_cannot_be_judged_are_gone_around(
    verdicts: str, expected: Boundary, is_exact: bool
) -> None:
    result = await found(verdicts)
    assert (result, result.is_exact) == (expected, is_exact)
