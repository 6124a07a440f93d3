"""The whole crash matrix: every crash point at every occurrence, random moments, crashes in recovery.

tests/matrix                                          SQLite
tests/matrix --store postgresql://... --store mysql://...
tests/matrix --scenario children --each 20             some scenarios, so many trials of each point
tests/matrix --random 2000 --pairs 200 --seed 7       what a night may take
"""

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence

from support.crash import plans
from support.crash.points import in_code
from support.crash.scenarios import SCENARIOS
from support.crash.trials import Outcome, Trial, in_parallel


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--store", action="append", help="URL of a store; none: a SQLite file a trial")
    parser.add_argument("--random", type=int, default=200, help="trials killed at any moment")
    parser.add_argument("--pairs", type=int, default=200, help="trials that die again while recovering")
    parser.add_argument("--each", type=int, default=10**6, help="at most so many trials of a named point")
    parser.add_argument("--only", default="", help="a point's name")
    parser.add_argument("--scenario", action="append", help="the name of a scenario; none: all of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 1) + 1)
    options = parser.parse_args()
    if unknown := set(options.scenario or ()) - SCENARIOS.keys():
        parser.error(f"There is no scenario {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}.")
    failures = 0
    for store in options.store or [""]:
        failures += _matrix(store, options)
    return 1 if failures else 0


def _matrix(store: str, options: argparse.Namespace) -> int:
    """Run all trials on one store, print its table, return the number of failures."""
    wanted = options.scenario or SCENARIOS.keys()
    recordings = [one for one in plans.recordings(store) if one.scenario in wanted]
    recorded = _run(recordings, options.workers, record=True)
    singles = plans.list_trials(recorded)
    trials = [
        *plans.sample(singles, options.each, options.seed),
        *[one for one in plans.in_commands(store) if one.scenario in wanted],
        *plans.at_random_moments(recorded, options.random, options.seed),
        *plans.in_recovery(singles, options.pairs, options.seed),
    ]
    chosen = [one for one in trials if options.only in ("", plans.point_of(one))]
    outcomes = [*recorded, *_run(chosen, options.workers)]
    reached = {plans.point_of(trial) for trial in singles}
    unreached = set() if store or options.scenario else in_code() - reached
    _print_table(store or "sqlite", outcomes)
    for name in sorted(unreached):
        print(f"NEVER REACHED: {name}")
    return len(unreached) + sum(bool(outcome.problems) for outcome in outcomes)


def _run(trials: Sequence[Trial], workers: int, record: bool = False) -> list[Outcome]:
    outcomes: list[Outcome] = []
    began = time.monotonic()
    for future in in_parallel(trials, workers, record):
        outcome = future.result()
        outcomes.append(outcome)
        if outcome.problems:
            print(f"FAILED: {outcome.trial}\n  " + "\n  ".join(outcome.problems), flush=True)
        if sys.stderr.isatty() or len(outcomes) % 50 == 0:
            pace = (time.monotonic() - began) / len(outcomes)
            print(f"{len(outcomes)} of {len(trials)} trials, {pace:.2f} s each", file=sys.stderr, flush=True)
    return outcomes


def _print_table(store: str, outcomes: Sequence[Outcome]) -> None:
    rows: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        rows[plans.point_of(outcome.trial)].append(outcome)
    print(f"\n| {store}: point | trials | deaths | failures |\n|---|---|---|---|")
    for point, found in sorted(rows.items()):
        print(f"| {point} | {len(found)} | {sum(one.deaths for one in found)} | {_count_failures(found)} |")
    deaths = sum(one.deaths for one in outcomes)
    print(f"| **all** | {len(outcomes)} | {deaths} | {_count_failures(outcomes)} |\n", flush=True)


def _count_failures(outcomes: Sequence[Outcome]) -> int:
    return sum(bool(outcome.problems) for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main())
