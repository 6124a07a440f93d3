"""Lists the trials: every crash point at every occurrence, random moments, and crashes during recovery."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from support.commands.warm_start import FULL
from support.crash.scenarios import SCENARIOS
from support.crash.trials import Outcome, Trial

WIRES = ("chat", "responses", "messages")
SETTLEMENTS = ("done", "failed", "rerun")


RECOVERIES = {"effects": "tool_ran:1", "rules": "started_after_commit:2", "tools": "edit_renamed:1"}
"""Scenario -> a crash after which the recovery has to find out an outcome."""


_START = 0.3 if FULL else 0.0
"""The part of a short run, from 0 to 1, that is the start of Python; moments in it are not tried."""
_SURE = {"effect_mid": 1, "finished_before_commit": 1, "finished_after_commit": 1}
"""Crash point -> how often a run reaches it at least; the number depends on the timing."""


def recordings(store: str = "") -> list[Trial]:
    """Return a trial of each scenario without a crash, and some trials that recover from a crash."""
    names = [name for name, scenario in SCENARIOS.items() if not (store and scenario.needs_sqlite)]
    undisturbed = [Trial(name, store=store) for name in names]
    return undisturbed + [Trial(name, (crash,), store=store) for name, crash in RECOVERIES.items()]


def list_trials(recorded: Iterable[Outcome]) -> list[Trial]:
    """Return a trial for every time that a process reached a point."""
    return [
        Trial(
            outcome.trial.scenario,
            (*outcome.trial.crashes, *[""] * (process - len(outcome.trial.crashes)), f"{name}:{number}"),
            store=outcome.trial.store,
            row=name,
        )
        for outcome in recorded
        for process, points in enumerate(outcome.points)
        if process >= len(outcome.trial.crashes)
        for name in sorted(points)
        for number in range(1, min(points[name], _SURE.get(name, points[name])) + 1)
    ]


def of_the_rest(
    singles: Sequence[Trial], chosen: Sequence[Trial], per_scenario: int, seed: int
) -> list[Trial]:
    """Return further trials, so that each scenario has the wanted number."""
    chance = random.Random(seed)
    counts = Counter(trial.scenario for trial in chosen)
    return [
        trial
        for name in SCENARIOS
        if (missing := per_scenario - counts[name]) > 0
        for trial in chance.sample([one for one in singles if one.scenario == name], missing)
    ]


def in_commands(store: str = "") -> list[Trial]:
    """Return trials, for each wire format, in which the agent dies while one of its commands runs."""
    places = [
        (name, word)
        for name, scenario in SCENARIOS.items()
        for word in scenario.effects
        if not scenario.needs_sqlite
    ]
    killed = [Trial(name, (f"mid:{word}",), wire, store) for name, word in places for wire in WIRES]
    decided = [
        Trial("rules", (f"mid:{word}",), store=store, settle=how)
        for word in ("one", "two")
        for how in SETTLEMENTS
    ]
    return killed + decided


def at_random_moments(recorded: Sequence[Outcome], count: int, seed: int) -> list[Trial]:
    """Return trials killed at any moment of their first process, half of them once more in the second."""
    chance = random.Random(seed)
    trials: list[Trial] = []
    for _ in range(count):
        outcome = chance.choice(recorded)
        longest = outcome.lengths_s[0]
        moments = [chance.uniform(_START * longest, 1.1 * longest) for _ in range(chance.choice((1, 2)))]
        crashes = tuple(f"at:{moment:.3f}" for moment in moments)
        trials.append(
            Trial(outcome.trial.scenario, crashes, chance.choice(WIRES), outcome.trial.store)
        )  # fmt: skip
    return trials


def in_recovery(singles: Sequence[Trial], count: int, seed: int) -> list[Trial]:
    """Return trials that die again, once or twice, while they recover."""
    chance = random.Random(seed)
    points = sorted({crash.partition(":")[0] for trial in singles for crash in trial.crashes if crash})
    trials: list[Trial] = []
    for trial in chance.choices(singles, k=count):
        again = [
            f"{chance.choice(points)}:{chance.choice((1, 1, 2, 3))}" for _ in range(chance.choice((1, 2)))
        ]
        trials.append(replace(trial, crashes=(*trial.crashes, *again), row=""))
    return trials


def point_of(trial: Trial) -> str:
    """Name the row of the table that a trial belongs to."""
    if trial.row:
        return trial.row
    kinds = [crash.partition(":")[0] for crash in trial.crashes if crash]
    if len(kinds) > 1:
        return "twice at random" if kinds[0] == "at" else "again in recovery"
    return {"at": "any moment", "mid": "in a command"}.get(kinds[0], kinds[0]) if kinds else "undisturbed"


def sample(trials: Sequence[Trial], per_point: int, seed: int) -> list[Trial]:
    """Return some trials of each point."""
    chance = random.Random(seed)
    by_point: dict[str, list[Trial]] = {}
    for trial in trials:
        by_point.setdefault(point_of(trial), []).append(trial)
    return [
        trial
        for point in sorted(by_point)
        for trial in chance.sample(by_point[point], min(per_point, len(by_point[point])))
    ]
