"""Carries out the plan of an evaluation. Each run is a session, so that a killed evaluation goes on."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, cast

from ....actions.ports import Model
from ....actions.turn.user_code import UserCode
from ....state.application import Usage
from ....state.errors import SessionParked, UsageError
from ....state.store.store import Store
from ...config.settings import Settings
from ...history.reports.read_report import read_account
from ...history.reports.run_report import facts_of
from ...runtime.version import VERSION
from ...sdk.runs.result import RunResult
from ...sdk.session import AgentSession, opened_session
from .contender import SessionOpener
from .measures.metrics import JudgeMetric, Metric, make_judge
from .measures.result import EvaluationResult, EvaluationRun
from .plan import EvaluationPlan, PlannedRun
from .runs.records import read_history, read_record, record
from .runs.run_place import RunPlace
from .runs.script_player import SCRIPTED, ScriptPlayer, read_script
from .runs.turns import UNFINISHED, run_turns
from .runs.workers import WorkerRuns
from .suites.task import Script, Solution, Task

_OPEN = "open:"
"""The prefix of the status of a run that has not ended."""
_NO_WORK = (AssertionError, OSError, ValueError, LookupError)
"""What a check raises about work that is wrong or missing. Any other error is one of the check itself."""
ORACLE = "oracle"
"""The contender that runs the solutions of the tasks."""
OnReport = Callable[[EvaluationRun | str], None]


class EvaluationRunner:
    """Carries out a plan in an open store."""

    def __init__(
        self, plan: EvaluationPlan, settings: Settings, store: Store, env: Mapping[str, str], report: OnReport
    ) -> None:
        """`report` is called with each run that has ended, and with sentences."""
        self._plan, self._settings, self._report = plan, settings, report
        self._store, self._env = store, env
        self._runs = tuple(plan.list_runs())
        self._opener = SessionOpener(store, env, plan.sandbox)
        self._workers = WorkerRuns(store, self._opener, plan.labels, report) if plan.on_workers else None
        self._ended: dict[str, EvaluationRun] = {}
        self._open: dict[str, str] = {}
        self._spent = 0.0
        self._known = 0
        """The number of runs that had ended before."""

    async def run(self) -> EvaluationResult:
        """Carry out the runs that have not ended, and return all. A cancellation keeps what has ended."""
        runs = self._runs
        await asyncio.to_thread(self._read_ended, runs)
        self._known = len(self._ended)
        if self._known:
            self._report(f"{self._known} of {len(runs)} runs have ended before; they are not repeated.")
        limit = asyncio.Semaphore(self._plan.parallel)
        try:
            for group in await asyncio.to_thread(self._list_groups):
                async with asyncio.TaskGroup() as tasks:
                    for one in group:
                        tasks.create_task(self._run_limited(one, limit))
        except BaseExceptionGroup as several:
            raise _find_first(several) from None
        return self.result()

    def _list_groups(self) -> list[list[PlannedRun]]:
        """Return the runs that have not ended, in groups that run one after the other.

        A run that worked when the process died may have killed it, so it runs alone, after the others.
        """
        left = [one for one in self._runs if one.session_id not in self._ended]
        died = [one for one in left if self._workers is None and self._has_died(one)]
        return [[one for one in left if one not in died], *([one] for one in died)]

    def _has_died(self, planned: PlannedRun) -> bool:
        index = self._store.index
        ids = (planned.session_id, *planned.earlier_ids)
        return any(index.exists(one) and index.head(one).life == "died" for one in ids)

    def result(self) -> EvaluationResult:
        """Return the runs that have ended so far."""
        runs = self._runs
        waiting = {
            one.label: self._open.get(one.session_id, "it has not begun")
            for one in runs
            if one.session_id not in self._ended
        }
        return EvaluationResult(
            self._plan.suite.name,
            tuple(task.name for task in self._plan.suite),
            tuple(contender.name for contender in self._plan.contenders),
            self._plan.repeats,
            tuple(self._ended[one.session_id] for one in runs if one.session_id in self._ended),
            waiting,
            tuple(notice for task in self._plan.suite for notice in task.notices),
        )

    def _read_ended(self, runs: Sequence[PlannedRun]) -> None:
        for one in runs:
            if (text := read_record(self._store, one.check_id)) is not None:
                self._keep(one, EvaluationRun.model_validate_json(text))

    def _keep(self, planned: PlannedRun, ended: EvaluationRun) -> None:
        self._ended[planned.session_id] = ended
        self._spent += ended.cost_usd or 0.0

    async def _run_limited(self, planned: PlannedRun, limit: asyncio.Semaphore) -> None:
        async with limit:
            budget = self._plan.budget_usd
            if budget is not None and self._spent >= budget:
                self._open[planned.session_id] = f"the budget of {budget:g} USD is spent"
                return
            self._open[planned.session_id] = "it was interrupted"
            place = RunPlace(
                self._settings.home,
                planned.session_id,
                planned.task,
                self._plan.sandbox,
                tuple(self._settings.allow_net),
            )
            await asyncio.to_thread(place.make)
            status = await self._carry_out(planned, place)
            if why := status.removeprefix(_OPEN) if status.startswith(_OPEN) else "":
                self._open[planned.session_id] = why
                self._report(f"{planned.label} has not ended: {why}")
                return
            ended = await self._check(planned, place, status)
            self._keep(planned, ended)
            self._report(ended)

    async def _carry_out(self, planned: PlannedRun, place: RunPlace) -> str:
        """Run a session here or on workers; return its status, empty for the stored one, or `open:` and why
        it has not ended."""
        if self._workers is not None:
            end = await self._workers.carry_out(planned, place, self._tags_of(planned))
            if end in ("ended", "timeout"):
                return "" if end == "ended" else end
            if end != "decide":
                return f"{_OPEN}{end}"
        try:
            result = await self._solve(planned, place)
        except SessionParked as parked:
            return f"{_OPEN}{parked.message}"
        if result is None or result.status not in UNFINISHED:
            return "" if result is None else result.status
        why = result.error.message if result.error is not None else f"its status is {result.status}"
        return f"{_OPEN}{why}"

    async def _solve(self, planned: PlannedRun, place: RunPlace) -> RunResult[Any] | None:
        """Run the session of a run, or go on with it; return None if it had ended before."""
        if planned.contender.name == ORACLE and planned.contender.definition is None:
            return await self._solve_by_script(planned, place)
        task, result = planned.task, None
        for number, earlier in enumerate(task.earlier):
            session_id = planned.earlier_ids[number]
            result = await self._run_session(planned, place, session_id, earlier.turns, earlier.script)
            if result is not None and result.status in UNFINISHED:
                return result
        messages = (*map(place.translate, task.turns), place.instruction)
        return await self._run_session(planned, place, planned.session_id, messages, task.script)

    async def _run_session(
        self, planned: PlannedRun, place: RunPlace, session_id: str, messages: Sequence[str], script: Script
    ) -> RunResult[Any] | None:
        """Send what was not sent yet in one session of a run; return None if it had ended before."""
        player, model = None, None
        if planned.contender.is_scripted:
            model = player = ScriptPlayer(read_script(planned.task, script, place.translate))
        async with self._open_session(planned, place, session_id, model) as session:
            if player is not None:
                player.count_replies = lambda: opened_session(session).state.usage.llm_calls
            return await run_turns(session, messages, planned.task.interrupt_at_call)

    def _open_session(
        self, planned: PlannedRun, place: RunPlace, session_id: str, model: Model | None
    ) -> AbstractAsyncContextManager[AgentSession[Any]]:
        task, tags = planned.task, self._tags_of(planned)
        parent = None if session_id == planned.session_id else planned.session_id
        return self._opener.open_session(
            planned.contender, session_id, place.workspace, task.timeout_s, model, tags, parent, task
        )

    def _tags_of(self, planned: PlannedRun) -> tuple[str, ...]:
        return "evaluation", self._plan.suite.name, planned.task.name, planned.contender.name

    async def _solve_by_script(self, planned: PlannedRun, place: RunPlace) -> None:
        async def solve() -> str:
            code, output = await place.run_solution("solve.sh")
            return f"exit code {code}\n{output}"

        if planned.task.folder is None or not (planned.task.folder / "solution" / "solve.sh").is_file():
            hint = f"`-m {SCRIPTED}` plays its script." if planned.task.script else "Write one."
            raise UsageError(f"The task {planned.task.name} has no solution/solve.sh.", hint)
        title = f"Solve {planned.task.name} by its solution"
        await record(self._opener, planned.session_id, title, place.workspace, self._tags_of(planned), solve)

    async def _check(self, planned: PlannedRun, place: RunPlace, status: str) -> EvaluationRun:
        """Check what a run left, and record the outcome with everything that the run used."""
        solution = await asyncio.to_thread(read_solution, self._store, planned, place)
        solution = replace(solution, status=status or solution.status)

        async def check() -> str:
            reward, output, found = await run_check(planned.task, place, solution)
            own = found | {
                one.name: await self._measure(one, replace(solution, reward=reward), planned)
                for one in self._plan.metrics
            }
            own = {name: value for name, value in own.items() if math.isfinite(value)}
            return EvaluationRun(
                task=solution.task, contender=solution.contender, repeat=solution.repeat,
                session_id=solution.session_id, status=solution.status, reward=reward,
                result=solution.result, check=output, cost_usd=solution.cost_usd,
                input_tokens=solution.input_tokens, output_tokens=solution.output_tokens,
                turns=solution.turns, seconds=solution.seconds, questions=solution.questions, own=own,
                sandbur_version=VERSION,
            ).model_dump_json()  # fmt: skip

        title, parent = f"Check {planned.label}", planned.session_id
        tags = self._tags_of(planned)
        text = await record(self._opener, planned.check_id, title, place.workspace, tags, check, parent)
        return EvaluationRun.model_validate_json(text)

    async def _measure(self, metric: Metric, solution: Solution, planned: PlannedRun) -> float:
        if not isinstance(metric, JudgeMetric):
            return await metric.measure(solution)
        agent = make_judge(metric, self._settings.store, self._env)
        return float((await metric.judge(solution, planned.task.instruction, agent)).score)


def _find_first(several: BaseException) -> BaseException:
    """Return the first error of several runs."""
    while isinstance(several, BaseExceptionGroup):
        several = cast("BaseExceptionGroup[BaseException]", several).exceptions[0]
    return several


def read_solution(store: Store, planned: PlannedRun, place: RunPlace) -> Solution:
    """Return what a run left, from the store."""
    account = read_account(store, planned.session_id)
    earlier = [one for one in planned.earlier_ids if store.index.exists(one)]
    accounts = [*(read_account(store, one) for one in earlier), account]
    usage, facts = sum((one.standing.usage for one in accounts), Usage()), [*map(facts_of, accounts)]
    history = store.show(planned.session_id).state.chat_history
    answers = [message.text for message in history if message.role == "assistant" and message.text]
    return Solution(
        planned.task.name, planned.contender.name, planned.repeat, place.workspace, planned.session_id,
        account.summary.status, answers[-1] if answers else "", usage.cost_usd, usage.input_tokens or 0,
        usage.output_tokens or 0, usage.llm_calls, sum(one.active_ms for one in facts) / 1000,
        sum(one.asked for one in facts), history=read_history(store, planned.session_id),
        earlier=tuple(read_history(store, one) for one in earlier),
    )  # fmt: skip


async def run_check(task: Task, place: RunPlace, solution: Solution) -> tuple[float, str, dict[str, float]]:
    """Return the reward, what the check printed, and its metrics; a function that finds no fitting work
    gives 0."""
    if isinstance(task.check, str):
        return *await place.run_check(), {}
    try:
        with UserCode(f"The check of the task {task.name}", passes=_NO_WORK):
            found = task.check(solution)
            found = await found if inspect.isawaitable(found) else found
    except _NO_WORK as error:
        return 0.0, f"{type(error).__name__}: {error}", {}
    own: dict[str, float] = {}
    if isinstance(found, Mapping):
        own = {name: float(value) for name, value in found.items() if name != "reward"}
        found = found["reward"]
    reward = 1.0 if found is None else float(found)
    return (reward, "", own) if math.isfinite(reward) else (0.0, f"The check returned {reward}.", own)
