"""The plan of an evaluation: which runs it needs, and the ids of their sessions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from ....state.lazy_dataclass import dataclass
from ....state.session import SandboxWish
from .contender import Contender
from .measures.metrics import Metric
from .suites.suite import Suite
from .suites.task import Task

_SPACE = uuid.UUID("6f5d6c1e-7a55-5c0b-9f0f-5a1d1f3c2b90")


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run that an evaluation needs."""

    task: Task
    contender: Contender
    repeat: int
    session_id: str

    @property
    def label(self) -> str:
        return f"{self.task.name} · {self.contender.name} · {self.repeat}"

    @property
    def check_id(self) -> str:
        """The session that records the check."""
        return f"{self.session_id}.check"

    @property
    def earlier_ids(self) -> tuple[str, ...]:
        """The sessions that run in the workspace before."""
        return tuple(f"{self.session_id}.{number}" for number in range(1, len(self.task.earlier) + 1))


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What is run, and where."""

    suite: Suite
    contenders: tuple[Contender, ...]
    repeats: int = 1
    parallel: int = 2
    budget_usd: float | None = None
    name: str = ""
    """Another name begins other runs of the same tasks."""
    sandbox: SandboxWish = "auto"
    metrics: tuple[Metric, ...] = ()
    on_workers: bool = False
    """Whether workers of the store carry out the runs."""
    labels: tuple[str, ...] = ()
    """The labels of workers that share the data folder; empty: workers on this machine."""

    def list_runs(self) -> Iterator[PlannedRun]:
        for task in self.suite:
            digest = task.digest
            for contender in self.contenders:
                for repeat in range(1, self.repeats + 1):
                    key = "\0".join((self.name, digest, contender.key, str(repeat)))
                    yield PlannedRun(task, contender, repeat, str(uuid.uuid5(_SPACE, key)))
