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
    options = SampleOptions(store, sandbox, None)
    tasks = {one.name: one for one in found}
    return InspectedTask(
        dataset=[InspectedSample(input=one.instruction, id=one.name) for one in found],
        solver=_solve_suite(tasks, agent, options),
        scorer=_check_suite(tasks, options),
        name=found.name,
    )


@solver(name="sandbur_suite_solver")
def _solve_suite(tasks: dict[str, Task], agent: Agent | str | None, options: SampleOptions) -> Solver:
    contender = make_contender(agent)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        async with open_sample(options) as sample:
            place = _find_place(sample, tasks[str(state.sample_id)], options)
            place.make()
            solved = AgentState(messages=state.messages)
            try:
                await sample.solve(solved, contender, place.instruction)
            finally:
                state.messages, state.output = solved.messages, solved.output
        return state

    return solve


@scorer(metrics=[accuracy(), mean(), stderr()], name="sandbur_suite_check")
def _check_suite(tasks: dict[str, Task], options: SampleOptions) -> Scorer:
    async def check(state: TaskState, target: Target) -> Score:
        async with open_sample(options) as sample:
            place = _find_place(sample, tasks[str(state.sample_id)], options)
            reward, output = await place.run_check()
        return Score(value=reward, answer=state.output.completion, explanation=output)

    return check


def _find_place(sample: Sample, task: Task, options: SampleOptions) -> RunPlace:
    """Return the folder of a sample, with the files and the check of its task."""
    settings = sample.settings
    return RunPlace(settings.home, sample.session_id, task, options.sandbox, tuple(settings.allow_net))
