"""Carries out `sandbur eval`, and prints or writes the result."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .....agent.config.data_folder import make_private
from .....agent.config.load import load_settings
from .....agent.config.settings import Overrides, Settings, load_extensions
from .....agent.models.connect import choose_model
from .....agent.review.evaluation.contender import Contender
from .....agent.review.evaluation.decisions.evaluator import DecisionPlan, DecisionRunner
from .....agent.review.evaluation.measures.result import (
    EvaluationResult,
    EvaluationRun,
    join_results,
    read_result,
)
from .....agent.review.evaluation.plan import EvaluationPlan
from .....agent.review.evaluation.runner import ORACLE, EvaluationRunner
from .....agent.review.evaluation.runs.workers import require_on_workers, require_plain_tasks
from .....agent.review.evaluation.suites.suite import Suite
from .....agent.runtime.agent_definition import Definition
from .....agent.sdk.agent import define_as
from .....agent.sdk.loading import open_named_agent
from .....state.errors import UsageError
from .....state.store.store import Store
from ....cli.open_session import read_overrides, tell_notice
from ....terminal.drive import StopSignals, exit_code
from ....terminal.terminal import encode, put, say
from ....terminal.text.sanitize import one_line, plain
from ....terminal.text.wrap import put_wrapped, window_cells
from .command import EvalCommand
from .page import write_page
from .table import list_lines
from .versions import run_versions

_WORSE = 4
_TRY_LATER = 75
_BUDGET = 125


async def run_evaluation(command: EvalCommand) -> int:
    """Run what has not ended yet, show the result, and return the exit code."""
    if command.html is not None and not (folder := command.html.parent).is_dir():
        raise UsageError(f"There is no folder {folder} for the page.", "Create it before the runs begin.")
    baseline = None if command.baseline is None else read_result(command.baseline)
    if command.compare:
        _show_compared(command, join_results(_read_compared(command.compare)))
        return 0
    if command.pythons:
        result = await run_versions(command)
        _show_compared(command, result)
        return _judge(command, result, baseline)
    overrides = {key: one for key, one in read_overrides(command).items() if key not in ("model", "agent")}
    load_extensions()
    settings = load_settings(overrides, os.environ)
    make_runner = _prepare_decisions if command.decisions else _prepare_runs
    open_runner = make_runner(command, settings, overrides)
    make_private(settings.home)
    store = Store.open(settings.store, settings.tenant, tell_notice, settings.durability, settings.home)
    try:
        runner = open_runner(store)
        code = await _run(runner)
        result = runner.result()
        if command.html is not None:
            await asyncio.to_thread(write_page, result, command.html, store)
    finally:
        store.close()
    _show(command, result)
    return code or _judge(command, result, baseline)


def _show_compared(command: EvalCommand, result: EvaluationResult) -> None:
    """Show a result whose runs are in other stores, so that the page has no links to them."""
    if command.html is not None:
        write_page(result, command.html)
    _show(command, result)


def _read_compared(paths: Sequence[str]) -> dict[str, EvaluationResult]:
    """Return results by the names of their files; files of the same name by their paths."""
    stems = [Path(one).stem for one in paths]
    return {
        one if stems.count(stem) > 1 else stem: read_result(Path(one).expanduser())
        for one, stem in zip(paths, stems, strict=True)
    }


Runner = EvaluationRunner | DecisionRunner


def _prepare_runs(
    command: EvalCommand, settings: Settings, overrides: Overrides
) -> Callable[[Store], EvaluationRunner]:
    """Check what needs no store, and return what makes the runner in an open one."""
    found = None if command.sessions else Suite.find(command.suite)
    contenders = tuple(_list_contenders(command, settings, overrides))
    sandbox = settings.sandbox if "sandbox" in settings.sources else "auto"

    def open_runner(store: Store) -> EvaluationRunner:
        suite = found or Suite.of_sessions(store, command.sessions, workspace=command.workspace)
        suite = suite.select(command.tasks) if command.tasks else suite
        if command.workers:
            require_plain_tasks(suite)
        plan = EvaluationPlan(
            suite, contenders, command.repeats, command.parallel, command.budget, command.run_name, sandbox,
            on_workers=command.workers, labels=command.labels,
        )  # fmt: skip
        return EvaluationRunner(plan, settings, store, os.environ, partial(_report, command))

    for one in contenders if command.workers else ():
        require_on_workers(one)
    if found is not None and command.tasks:
        found = found.select(command.tasks)
    return open_runner


def _prepare_decisions(
    command: EvalCommand, settings: Settings, overrides: Overrides
) -> Callable[[Store], DecisionRunner]:
    if len(command.agents) > 1:
        raise UsageError("--decisions takes one --agent at most: it has the tools of the sessions.")
    source = next(iter(command.agents))
    agent = _load_definition(source, settings) if source else None
    models = dict.fromkeys(one or settings.model or _choose_model() for one in command.models)
    plan = DecisionPlan(command.sessions, models, agent, command.parallel, command.budget, command.run_name)
    return lambda store: DecisionRunner(plan, settings, store, os.environ, partial(_report, command))


def _load_definition(source: str, settings: Settings) -> Definition:
    name, agent = open_named_agent(source, settings.cwd)
    return define_as(agent, name)


def _choose_model() -> str:
    return choose_model(None, os.environ, False)[0]


async def _run(runner: Runner) -> int:
    """Run until the end or until a signal; return the exit code of the signal, or 0."""
    running = asyncio.ensure_future(runner.run())
    with StopSignals(running.cancel) as signals:
        try:
            await running
        except asyncio.CancelledError:
            if signals.received is None:
                raise
            say("Stopped. What has ended is kept; the same command goes on.")
            return exit_code(signals.received)
    return 0


def _list_contenders(command: EvalCommand, settings: Settings, overrides: Overrides) -> Iterator[Contender]:
    if command.oracle:
        yield Contender(ORACLE)
        return
    own: dict[str, Any] = {
        key: one for key, one in overrides.items() if key not in ("cwd", "mode", "sandbox")
    }
    for source in command.agents:
        definition = _load_definition(source, settings) if source else None
        for model in command.models:
            chosen = model
            if not chosen and definition is None:
                chosen = settings.model or _choose_model()
            name = " ".join(filter(None, (source, chosen)))
            yield Contender(name, chosen, definition, overrides=own)


def _report(command: EvalCommand, ended: EvaluationRun | str) -> None:
    if command.quiet:
        return
    if isinstance(ended, str):
        say(one_line(ended))
        return
    cost = "" if ended.cost_usd is None else f", ${ended.cost_usd:.4f}"
    verdict = "passed" if ended.is_passed else f"failed ({ended.status}, reward {ended.reward:g})"
    why = "" if ended.is_passed or not ended.check else f": {ended.check.splitlines()[-1]}"
    what = f"{ended.task} · {ended.contender} · {ended.repeat}: {verdict}, {ended.seconds:.1f} s{cost}{why}"
    say(one_line(what))


def _show(command: EvalCommand, result: EvaluationResult) -> None:
    if command.json:
        put(encode(result.to_json()))
    else:
        for line in list_lines(result, window_cells()):
            put_wrapped(plain(line))
    if not command.quiet:
        for notice in dict.fromkeys(result.notices):
            say(one_line(notice))


def _judge(command: EvalCommand, result: EvaluationResult, baseline: EvaluationResult | None) -> int:
    """Return the exit code of an evaluation that no signal stopped."""
    if command.budget is not None and any(run.cost_usd is None for run in result.runs):
        say("The cost of some runs is not known, so --budget does not count them.")
    for label, why in result.open.items():
        say(one_line(f"Not ended: {label}: {why}"))
    if result.open:
        is_spent = command.budget is not None and any("budget" in why for why in result.open.values())
        say("The same command goes on with what has not ended.")
        return _BUDGET if is_spent else _TRY_LATER
    if command.oracle and not all(run.is_passed for run in result.runs):
        say("Some solutions do not pass the check of their own task.")
        return _WORSE
    if baseline is None:
        return 0
    worse = result.find_regressions(baseline)
    for sentence in worse:
        say(plain(sentence))
    return _WORSE if worse else 0
