"""The statistics of evaluations are those of the formulas, and the same for the same input."""

from math import comb

import pytest

from sandbur import measure_judges
from sandbur.agent.review.evaluation.measures.statistics import (
    compare_paired,
    estimate_pass_all,
    estimate_pass_at,
    find_interval,
    measure_agreement,
)


@pytest.mark.parametrize("runs", range(1, 8))
def test_pass_at_and_pass_all_count_the_samples_of_runs(runs: int) -> None:
    for passed in range(runs + 1):
        for k in range(1, runs + 1):
            every = comb(runs, k)
            assert estimate_pass_at(runs, passed, k) == pytest.approx(1 - comb(runs - passed, k) / every)
            assert estimate_pass_all(runs, passed, k) == pytest.approx(comb(passed, k) / every)
            assert (
                estimate_pass_all(runs, passed, k)
                <= passed / runs
                <= estimate_pass_at(runs, passed, k) + 1e-9
            )


def test_an_interval_holds_its_mean_and_is_the_same_each_time() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 1.0, 0.0, 1.0, 1.0]
    found = find_interval(values)
    assert found == find_interval(values)
    assert found.value == pytest.approx(0.6875)
    assert 0.0 <= found.low < found.value < found.high <= 1.0


def test_equal_values_have_an_interval_without_width() -> None:
    assert find_interval([0.25, 0.25]) == (0.25, 0.25, 0.25)


def test_no_values_have_no_interval() -> None:
    with pytest.raises(ValueError, match="no values"):
        find_interval([])


def test_a_paired_test_counts_the_signs_exactly() -> None:
    # All five differences have one sign: 2 of 2^5 signs are as extreme.
    found = compare_paired([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0])
    assert (found.tasks, found.better, found.worse) == (6, 5, 0)
    assert found.p == pytest.approx(2 / 32)


def test_equal_contenders_differ_by_chance_alone() -> None:
    assert compare_paired([1, 0, 1], [1, 0, 1]).p == 1.0
    assert compare_paired([1, 0], [0, 1]).p == 1.0


def test_many_differences_are_sampled_with_the_same_result() -> None:
    first, second = [1.0] * 20 + [0.0] * 2, [0.0] * 20 + [1.0] * 2
    found = compare_paired(first, second)
    assert found == compare_paired(first, second)
    assert 0 < found.p < 0.01


def test_kappa_is_agreement_beyond_chance() -> None:
    assert measure_agreement([1, 0, 1, 0], [1, 0, 1, 0]) == 1.0
    assert measure_agreement([1, 1, 0, 0], [1, 0, 1, 0]) == 0.0
    assert measure_agreement(["a", "a"], ["a", "a"]) == 1.0
    assert measure_judges([9, 8, 2, 1], [7, 10, 0, 6]) == 1.0
    with pytest.raises(ValueError, match="same number"):
        measure_agreement([1], [])
