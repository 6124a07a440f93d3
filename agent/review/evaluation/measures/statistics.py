"""The statistics of evaluations: pass@k, pass^k, bootstrap intervals, paired tests, agreement of judges."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from math import comb
from typing import NamedTuple

_RESAMPLES = 2_000
_SEED = 20_26
"""The same input gives the same output."""
_EXACT_PAIRS = 14
"""With up to this many tasks of different results, all 2^n signs are counted."""
_SAMPLED_SIGNS = 10_000
_CLOSE = 1e-12


class Estimate(NamedTuple):
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float


def estimate_pass_at(runs: int, passed: int, k: int) -> float:
    """Return pass@k, the probability that one of k runs passes: 1 - C(n-c,k)/C(n,k)."""
    return 1.0 - comb(runs - passed, k) / comb(runs, k)


def estimate_pass_all(runs: int, passed: int, k: int) -> float:
    """Return pass^k, the probability that all of k runs pass: C(c,k)/C(n,k)."""
    return comb(passed, k) / comb(runs, k)


def find_interval(values: Sequence[float]) -> Estimate:
    """Return the mean of one value per task, with the bootstrap interval over tasks.

    Raises `ValueError` without values.
    """
    mean = average(values)
    if len(set(values)) == 1:
        return Estimate(mean, mean, mean)
    chance = random.Random(_SEED)
    means = sorted(average(chance.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    edge = _RESAMPLES * 25 // 1000
    return Estimate(mean, means[edge], means[-edge - 1])


def average(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("no values")
    return sum(values) / len(values)


class PairedTest(NamedTuple):
    """The comparison of two contenders at the same tasks."""

    tasks: int
    better: int
    """The tasks at which the first one has the higher value."""
    worse: int
    difference: Estimate
    """The mean of the differences, first minus second."""
    p: float
    """The two-sided probability of such a difference if the contenders were equal."""


def compare_paired(first: Sequence[float], second: Sequence[float]) -> PairedTest:
    """Compare two contenders by a permutation test of the signs of their differences, task by task.

    Up to 14 tasks with a difference are counted exactly, more are sampled with a fixed seed.
    """
    differences = [one - other for one, other in zip(first, second, strict=True)]
    unequal = [one for one in differences if abs(one) > _CLOSE]
    return PairedTest(
        len(differences),
        sum(one > 0 for one in unequal),
        sum(one < 0 for one in unequal),
        find_interval(differences),
        _find_p(unequal),
    )


def _find_p(differences: Sequence[float]) -> float:
    if not differences:
        return 1.0
    observed = abs(sum(differences)) - _CLOSE
    if len(differences) <= _EXACT_PAIRS:
        signs = list(product((1, -1), repeat=len(differences)))
        return sum(_is_extreme(differences, one, observed) for one in signs) / len(signs)
    chance = random.Random(_SEED)
    drawn = (chance.choices((1, -1), k=len(differences)) for _ in range(_SAMPLED_SIGNS))
    # The observed signs are one of the samples, so that p is never 0.
    return (1 + sum(_is_extreme(differences, one, observed) for one in drawn)) / (_SAMPLED_SIGNS + 1)


def _is_extreme(differences: Sequence[float], signs: Sequence[int], observed: float) -> bool:
    return abs(sum(sign * one for sign, one in zip(signs, differences, strict=True))) >= observed


def measure_agreement(first: Sequence[object], second: Sequence[object]) -> float:
    """Return Cohen's kappa of two judges: 1 is full agreement, 0 is what chance alone gives.

    Raises `ValueError` for lists of different lengths and for empty ones.
    """
    if len(first) != len(second) or not first:
        raise ValueError("two judges need the same number of judgements, at least one")
    count = len(first)
    agreed = sum(one == other for one, other in zip(first, second, strict=True)) / count
    labels = {*first, *second}
    by_chance = sum(list(first).count(one) * list(second).count(one) for one in labels) / count**2
    return 1.0 if by_chance == 1.0 else (agreed - by_chance) / (1.0 - by_chance)
