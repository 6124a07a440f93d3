"""A part of the crash matrix, the same one each time; `tests/matrix` runs all of it."""

import os
import random
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from support.crash import plans
from support.crash.points import OF_OTHER_TESTS, in_code
from support.crash.scenarios import SCENARIOS
from support.crash.trials import Outcome, Trial, in_parallel
from support.places import TESTS
from support.sampling import sample
from support.stores.databases import SERVERS, fresh_url

SEED = int(os.environ.get("SANDBUR_MATRIX_SEED", "1"))
WORKERS = (os.cpu_count() or 1) + 1
NAMES = sorted(in_code())
CHOSEN = sample("points of the crash matrix", NAMES)
OTHERS = ("in a command", "any moment", "twice at random", "again in recovery")


@pytest.fixture(scope="module")
def recorded() -> list[Outcome]:
    """Every scenario, undisturbed."""
    return [future.result() for future in in_parallel(plans.recordings(), WORKERS, record=True)]


@pytest.fixture(scope="module")
def started(recorded: list[Outcome]) -> Iterator[dict[str, list[tuple[Trial, "Future[Outcome]"]]]]:
    """The trials of each point, all of them running at once."""
    singles = [trial for trial in plans.list_trials(recorded) if plans.point_of(trial) in CHOSEN]
    chosen = plans.sample(singles, 2, SEED)
    trials = [
        *chosen,
        *plans.of_the_rest(singles, chosen, 2, SEED),
        *plans.sample(plans.in_commands(), 6, SEED),
        *plans.at_random_moments(recorded, 4, SEED),
        *plans.in_recovery(singles, 6, SEED),
    ]
    rows: dict[str, list[tuple[Trial, Future[Outcome]]]] = {}
    for trial, future in zip(trials, in_parallel(trials, WORKERS), strict=True):
        rows.setdefault(plans.point_of(trial), []).append((trial, future))
    yield rows
    for row in rows.values():
        for _, future in row:
            future.cancel()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_run_on_a_database_server_is_finished_later(
    recorded: list[Outcome], kind: str, tmp_path: Path
) -> None:
    trials = [trial for trial in plans.list_trials(recorded) if not SCENARIOS[trial.scenario].needs_sqlite]
    chosen = random.Random(f"{SEED} {kind}").sample(trials, 6)
    with fresh_url(kind, tmp_path) as url:
        started = in_parallel([replace(trial, store=url) for trial in chosen], WORKERS)
        outcomes = [future.result() for future in started]
    assert [(str(one.trial), one.problems) for one in outcomes if one.problems] == []


def test_undisturbed_runs_are_as_they_should_be(recorded: list[Outcome]) -> None:
    assert [(str(one.trial), one.problems) for one in recorded if one.problems] == []


def test_every_point_in_the_code_is_reached(recorded: list[Outcome]) -> None:
    assert set(NAMES) - {name for one in recorded for points in one.points for name in points} == set()


def test_another_test_kills_at_the_points_that_no_scenario_reaches() -> None:
    for point, test in OF_OTHER_TESTS.items():
        assert f'"{point}' in (TESTS / test).read_text()


@pytest.mark.parametrize("point", CHOSEN)
def test_a_run_killed_at_a_point_is_finished_later(
    started: dict[str, list[tuple[Trial, "Future[Outcome]"]]], point: str
) -> None:
    outcomes = [future.result() for _, future in started[point]]
    assert [(str(one.trial), one.problems) for one in outcomes if one.problems] == []
    assert [str(one.trial) for one in outcomes if not one.deaths] == []


@pytest.mark.parametrize("how", OTHERS)
def test_a_run_killed_in_other_ways_is_finished_later(
    started: dict[str, list[tuple[Trial, "Future[Outcome]"]]], how: str
) -> None:
    outcomes = [future.result() for _, future in started.get(how, ())]
    assert [(str(one.trial), one.problems) for one in outcomes if one.problems] == []
