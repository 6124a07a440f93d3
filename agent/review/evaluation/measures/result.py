"""The result of an evaluation: every run, the metrics with their intervals, and the comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from .....actions.workspace.paths import format_count
from .....state.errors import UsageError
from .....state.lazy_dataclass import dataclass
from ....runtime.version import VERSION
from .statistics import (
    Estimate,
    PairedTest,
    average,
    compare_paired,
    estimate_pass_all,
    estimate_pass_at,
    find_interval,
)

_FRACTION_DIGITS = 6


class EvaluationRun(BaseModel):
    """One ended run, as the store and the JSON output have it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["evaluation_run"] = "evaluation_run"
    task: str
    contender: str
    repeat: int
    session_id: str
    status: str
    reward: float
    result: str = ""
    """The text of the last answer."""
    check: str = ""
    """The end of what the check printed."""
    cost_usd: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    turns: int = 0
    seconds: float = 0.0
    questions: int = 0
    own: dict[str, float] = {}
    """The values of the metrics of a program."""
    sandbur_version: str = ""
    """The version of Sandbur that recorded the outcome; empty in results of versions without this field."""

    @property
    def is_passed(self) -> bool:
        return self.reward >= 1.0


class Measured(NamedTuple):
    name: str
    interval: Estimate | None
    """None: no run has a value, such as the cost of a model without a price."""


class ContenderComparison(NamedTuple):
    first: str
    second: str
    test: PairedTest


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """All runs of an evaluation that have ended, in the order of tasks, contenders and repeats."""

    suite: str
    tasks: tuple[str, ...]
    contenders: tuple[str, ...]
    repeats: int
    runs: tuple[EvaluationRun, ...]
    open: Mapping[str, str] = field(default_factory=dict[str, str])
    """`task · contender · repeat` of each run that has not ended -> why. The same evaluation continues it."""
    notices: tuple[str, ...] = ()
    sandbur_version: str = VERSION
    """The version of Sandbur that made this result; empty if a version without this field did."""

    def runs_of(self, contender: str, task: str) -> list[EvaluationRun]:
        return [run for run in self.runs if run.contender == contender and run.task == task]

    def metrics_of(self, contender: str) -> list[Measured]:
        """Return the metrics of a contender with their intervals over tasks."""
        groups = [found for task in self.tasks if (found := self.runs_of(contender, task))]
        smallest = min(map(len, groups), default=0)
        names = sorted({name for group in groups for run in group for name in run.own})
        # A mean of the costs that are known would be too low.
        priced = groups if all(run.cost_usd is not None for group in groups for run in group) else ()
        found = [
            *(_measure(f"pass@{k}", groups, partial(_pass_at, k)) for k in sorted({1, smallest} - {0})),
            *(_measure(f"pass^{k}", groups, partial(_pass_all, k)) for k in {smallest} - {0, 1}),
            _measure("reward", groups, lambda runs: average([run.reward for run in runs])),
            _measure("cost_usd", priced, lambda runs: average([run.cost_usd or 0.0 for run in runs])),
            _measure(
                "tokens", groups, lambda runs: average([run.input_tokens + run.output_tokens for run in runs])
            ),
            _measure("turns", groups, lambda runs: average([run.turns for run in runs])),
            _measure("seconds", groups, lambda runs: average([run.seconds for run in runs])),
            _measure("questions", groups, lambda runs: average([run.questions for run in runs])),
        ]
        return found + [_measure(name, groups, partial(_own, name)) for name in names]

    def compare(self) -> list[ContenderComparison]:
        """Compare each pair of contenders at the tasks that both have run, by the share of passed runs."""
        found: list[ContenderComparison] = []
        for first, second in combinations(self.contenders, 2):
            pairs = [
                (_pass_at(1, one), _pass_at(1, other))
                for task in self.tasks
                if (one := self.runs_of(first, task)) and (other := self.runs_of(second, task))
            ]
            if pairs:
                test = compare_paired([one for one, _ in pairs], [other for _, other in pairs])
                found.append(ContenderComparison(first, second, test))
        return found

    def pass_rate(self, contender: str, tasks: Sequence[str]) -> Estimate | None:
        """Return pass@1 of a contender at some tasks; None if none of them has run."""
        groups = [found for task in tasks if (found := self.runs_of(contender, task))]
        return find_interval([_pass_at(1, group) for group in groups]) if groups else None

    def find_regressions(self, baseline: EvaluationResult) -> list[str]:
        """Return a sentence for each contender whose pass rate lies below the interval of the baseline.

        The tasks that both have count. If each side has one contender, their names may differ. Raises
        `UsageError` if nothing can be compared.
        """
        shared = [task for task in self.tasks if task in baseline.tasks]
        pairs = [(name, name) for name in self.contenders if name in baseline.contenders]
        if len(self.contenders) == len(baseline.contenders) == 1:
            pairs = [(self.contenders[0], baseline.contenders[0])]
        found: list[str] = []
        was_compared = False
        for own, earlier in pairs:
            now, before = self.pass_rate(own, shared), baseline.pass_rate(earlier, shared)
            if now is None or before is None:
                continue
            was_compared = True
            if now.value < before.low:
                found.append(
                    f"{own} is worse than the baseline: pass@1 is {now.value:.3f}, and was {before.value:.3f}"
                    f" [{before.low:.3f}, {before.high:.3f}] over {format_count(len(shared), 'task')}."
                )
        if not was_compared:
            raise UsageError(
                "The baseline has no contender and task of this evaluation.",
                f"It has {', '.join(baseline.contenders)} at {len(baseline.tasks)} tasks.",
            )
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object, from which `from_json` makes it again."""
        return {
            "kind": "evaluation",
            "version": 1,
            "sandbur_version": self.sandbur_version,
            "suite": self.suite,
            "repeats": self.repeats,
            "contenders": [
                {
                    "name": name,
                    "metrics": {
                        one.name: None if one.interval is None else _round(one.interval._asdict())
                        for one in self.metrics_of(name)
                    },
                }
                for name in self.contenders
            ],
            "comparisons": [
                {"first": one.first, "second": one.second, **_round_test(one.test)} for one in self.compare()
            ],
            "tasks": [
                {
                    "name": task,
                    "runs": [
                        {"pass": run.is_passed, **run.model_dump(exclude={"kind", "task"})}
                        for run in self.runs
                        if run.task == task
                    ],
                }
                for task in self.tasks
            ],
            "open": dict(self.open),
            "notices": list(self.notices),
        }

    @classmethod
    def from_json(cls, given: Any) -> EvaluationResult:
        """Return the result in a JSON object; raises `ValueError` if it is none."""
        if not isinstance(given, dict):
            raise ValueError("it is no result of `sandbur eval --json`: it is not an object")
        try:
            return _SavedResult.model_validate(given).restore()
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            raise ValueError(f"it is no result of `sandbur eval --json`: {where}: {first['msg']}") from None


class _SavedTask(BaseModel):
    name: str
    runs: list[dict[str, Any]]


class _SavedName(BaseModel):
    name: str


class _SavedResult(BaseModel):
    """The JSON form of a result, as far as it is read again; the metrics follow from the runs."""

    kind: Literal["evaluation"]
    version: Literal[1]
    suite: str
    repeats: int
    contenders: list[_SavedName]
    tasks: list[_SavedTask]
    sandbur_version: str = ""

    def restore(self) -> EvaluationResult:
        contenders = tuple(one.name for one in self.contenders)
        # A later version may write more about a run than this one reads.
        runs = tuple(
            EvaluationRun.model_validate(
                {
                    **{key: one for key, one in run.items() if key in EvaluationRun.model_fields},
                    "task": task.name,
                }
            )
            for task in self.tasks
            for run in task.runs
        )
        for run in runs:
            if run.contender not in contenders:
                raise ValueError(f"a run of {run.task} has the unknown contender {run.contender!r}")
        return EvaluationResult(
            self.suite,
            tuple(one.name for one in self.tasks),
            contenders,
            self.repeats,
            runs,
            sandbur_version=self.sandbur_version,
        )


def join_results(results: Mapping[str, EvaluationResult]) -> EvaluationResult:
    """Return one result with the contenders of several, which `EvaluationResult.compare` then compares.

    `results` are by their labels. A contender that several have gets the version of Sandbur, or the label if
    the versions are the same.
    """
    names = [name for one in results.values() for name in one.contenders]
    versions = [one.sandbur_version for one in results.values()]
    has_versions = "" not in versions and len(set(versions)) == len(versions)
    contenders: list[str] = []
    runs: list[EvaluationRun] = []
    for label, one in results.items():
        mark = one.sandbur_version if has_versions else label
        renamed = {name: f"{name} ({mark})" if names.count(name) > 1 else name for name in one.contenders}
        contenders += renamed.values()
        runs += (run.model_copy(update={"contender": renamed[run.contender]}) for run in one.runs)
    tasks = tuple(dict.fromkeys(task for one in results.values() for task in one.tasks))
    shared = [task for task in tasks if all(task in one.tasks for one in results.values())]
    left = len(tasks) - len(shared)
    notices = [f"Not in every result: {format_count(left, 'task')}."] if left else []
    suite = " and ".join(dict.fromkeys(one.suite for one in results.values()))
    repeats = max(one.repeats for one in results.values())
    return EvaluationResult(suite, tasks, tuple(contenders), repeats, tuple(runs), notices=tuple(notices))


def read_result(path: Path) -> EvaluationResult:
    """Return the result that `sandbur eval --json` wrote to a file; raises `UsageError`."""
    try:
        return EvaluationResult.from_json(json.loads(path.read_bytes()))
    except OSError as error:
        raise UsageError(f"The result {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The result {path} cannot be used: {error}.", "Write one: sandbur eval ... --json"
        ) from None


def _pass_at(k: int, runs: Sequence[EvaluationRun]) -> float:
    return estimate_pass_at(len(runs), sum(run.is_passed for run in runs), k)


def _pass_all(k: int, runs: Sequence[EvaluationRun]) -> float:
    return estimate_pass_all(len(runs), sum(run.is_passed for run in runs), k)


def _own(name: str, runs: Sequence[EvaluationRun]) -> float | None:
    known = [run.own[name] for run in runs if name in run.own]
    return average(known) if known else None


def _measure(
    name: str,
    groups: Sequence[Sequence[EvaluationRun]],
    measure: Callable[[Sequence[EvaluationRun]], float | None],
) -> Measured:
    values = [value for group in groups if (value := measure(group)) is not None]
    return Measured(name, find_interval(values) if values else None)


def _round(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, _FRACTION_DIGITS) for name, value in values.items()}


def _round_test(test: PairedTest) -> dict[str, Any]:
    return {
        "tasks": test.tasks,
        "better": test.better,
        "worse": test.worse,
        "difference": _round(test.difference._asdict()),
        "p": round(test.p, _FRACTION_DIGITS),
    }
