"""A suite of Sandbur as a task of inspect: its instructions are the samples, its checks are the scorer."""

from __future__ import annotations

from inspect_ai import Task as InspectedTask
from inspect_ai import task as register_task
from inspect_ai.agent import AgentState
from inspect_ai.dataset import Sample as InspectedSample
from inspect_ai.scorer import Score, Scorer, Target, accuracy, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from .....state.session import SandboxWish
from ....sdk.agent import Agent
from ..contender import Contender
from ..plan import PlannedRun
from ..runner import read_solution, run_check
from ..runs.run_place import RunPlace
from ..suites.suite import Suite
from ..suites.task import Task
from .inspect_agent import Sample, SampleOptions, make_contender, open_sample


@register_task
def sandbur_suite(
    suite: str = "smoke",
    agent: Agent | str | None = None,
    store: str | None = None,
    sandbox: SandboxWish = "auto",
) -> InspectedTask:
    """Return a suite of Sandbur as a task of inspect, solved by a Sandbur agent with inspect's model.

    Args:
        suite: The name of a shipped suite, or a folder of tasks in the format of harbor.
        agent: As for `sandbur_agent`. Another `solver` of inspect cannot solve the task, because the files
            of a sample are in a folder on this machine, and in no sandbox of inspect.
        store: As for `sandbur.Agent`; None: the store of the command.
        sandbox: Whether commands and checks run in a sandbox of Sandbur: `auto`, `required` or `off`.
    """
    found = Suite.find(suite)
    options, contender = SampleOptions(store, sandbox, None), make_contender(agent)
    tasks = {one.name: one for one in found}
    return InspectedTask(
        dataset=[InspectedSample(input=one.instruction, id=one.name) for one in found],
        solver=_solve_suite(tasks, contender, options),
        scorer=_check_suite(tasks, contender, options),
        name=found.name,
    )


@solver(name="sandbur_suite_solver")
def _solve_suite(tasks: dict[str, Task], contender: Contender, options: SampleOptions) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        async with open_sample(options) as sample:
            planned = _plan_run(sample, tasks[str(state.sample_id)], contender)
            place = _find_place(sample, planned.task, options)
            place.make()
            solved = AgentState(messages=state.messages)
            try:
                await sample.solve_task(solved, planned, place)
            finally:
                state.messages, state.output = solved.messages, solved.output
        return state

    return solve


@scorer(metrics=[accuracy(), mean(), stderr()], name="sandbur_suite_check")
def _check_suite(tasks: dict[str, Task], contender: Contender, options: SampleOptions) -> Scorer:
    async def check(state: TaskState, target: Target) -> Score:
        async with open_sample(options) as sample:
            if not sample.is_known:
                return Score(value=0.0, explanation="The session of the sample has not begun.")
            planned = _plan_run(sample, tasks[str(state.sample_id)], contender)
            place = _find_place(sample, planned.task, options)
            solution = read_solution(sample.store, planned, place)
            reward, output, own = await run_check(planned.task, place, solution)
        return Score(value=reward, answer=solution.result, explanation=output, metadata=dict(own))

    return check


def _plan_run(sample: Sample, task: Task, contender: Contender) -> PlannedRun:
    return PlannedRun(task, contender, 1, sample.session_id)


def _find_place(sample: Sample, task: Task, options: SampleOptions) -> RunPlace:
    """Return the folder of a sample, with the files and the check of its task."""
    settings = sample.settings
    return RunPlace(settings.home, sample.session_id, task, options.sandbox, tuple(settings.allow_net))
