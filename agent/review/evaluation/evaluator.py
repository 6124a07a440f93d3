"""`Evaluator`: lets agents of a program solve the tasks of a suite."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....state.errors import UsageError, WrongType
from ....state.session import SandboxWish
from ...runtime.agent_definition import Definition
from ...sdk.agent import Agent
from ...sdk.arguments import forbid_loop
from .contender import Contender, open_store
from .measures.metrics import Metric, name_metrics
from .measures.result import EvaluationResult
from .plan import EvaluationPlan
from .runner import EvaluationRunner
from .runs.workers import require_on_workers, require_plain_tasks
from .suites.suite import Suite


class Evaluator:
    """Lets agents solve the tasks of a suite, several times each, and measures them.

    Each run is a session in the store with an id that depends on the task, the agent and the number of the
    run: a killed program goes on where it was, and an ended run is not repeated.

    Args:
        suite: The tasks.
        agents: Name -> agent.
        repeats: How often each agent runs at each task.
        parallel: How many runs are active at once.
        store: As for `Agent`; None: the store of the command.
        metrics: Metrics besides the built-in ones; `JudgeMetric` asks a model.
        budget_usd: No run begins when this is spent.
        name: Another name begins other runs.
        workers: Whether workers of the store carry out the runs (`sandbur worker`, `sandbur fleet`). They
            load agents by name, so that an agent has to be a variable of a module, or that of an agent file
            without additions. A text is a label of workers that share the data folder; True: workers on this
            machine.
        sandbox: Whether commands run in a sandbox: `auto`, `required` or `off`.
        env: The environment variables to use instead of those of the process.
    """

    def __init__(
        self,
        suite: Suite,
        agents: Mapping[str, Agent[Any]],
        *,
        repeats: int = 1,
        parallel: int = 2,
        store: str | None = None,
        metrics: Sequence[Metric] = (),
        budget_usd: float | None = None,
        name: str = "",
        workers: bool | str = False,
        sandbox: SandboxWish = "auto",
        env: Mapping[str, str] | None = None,
    ) -> None:
        if not agents or not all(isinstance(one, Agent) for one in agents.values()):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongType("Evaluator takes agents={name: agent}, at least one.")
        if repeats < 1 or parallel < 1:
            raise UsageError(f"Evaluator: repeats={repeats} and parallel={parallel} are at least 1.")
        contenders = tuple(
            Contender(name, definition=_with_agent_name(agent.definition, name), is_of_program=True)
            for name, agent in agents.items()
        )
        self._plan = EvaluationPlan(
            suite, contenders, repeats, parallel, budget_usd, name, sandbox, name_metrics(metrics),
            bool(workers), (workers,) if isinstance(workers, str) and workers else (),
        )  # fmt: skip
        if workers:
            require_plain_tasks(suite)
            for one in contenders:
                require_on_workers(one)
        self._env = os.environ if env is None else env
        self._overrides = {} if store is None else {"store": store}

    async def run(self) -> EvaluationResult:
        """Carry out the runs that have not ended, and return the result; raises `SandburError`."""
        with open_store(self._overrides, self._env) as (settings, store):
            return await EvaluationRunner(self._plan, settings, store, self._env, lambda _: None).run()

    def run_sync(self) -> EvaluationResult:
        """Do the same as `run` without an event loop; raises `UsageError` if one is running."""
        forbid_loop()
        return asyncio.run(self.run())


def _with_agent_name(definition: Definition, name: str) -> Definition:
    return definition if definition.name else replace(definition, name=name)
