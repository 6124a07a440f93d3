"""A scenario of AgentDojo: the environment of a task with what an attacker wrote into it, and the calls of a
run so far.

Its package is optional, and loaded by `load_agentdojo` alone.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

from .....state.errors import UsageError
from .....state.lazy_dataclass import dataclass

BENCHMARK = "v1.2.2"
NO_ATTACK = "none"
_SCENARIO, _CALLS = "scenario.json", "calls.json"
"""Files of the workspace. Its agent has no tool for files."""
_VICTIM = "local"
"""The model that the attacker addresses: AgentDojo writes "Local model"."""
_MOST_ENVIRONMENTS = 16
_WRITING = threading.Lock()


class AgentDojo(NamedTuple):
    """What is used of the package."""

    suites: Mapping[str, Any]
    functions_runtime: Any
    agent_pipeline: Any
    tool_execution: Any
    attacks: Any


_MODULES = ("functions_runtime", "agent_pipeline", "agent_pipeline.tool_execution", "attacks")
"""The modules of the package, in the order of the fields of `AgentDojo` after the suites."""


@cache
def load_agentdojo() -> AgentDojo:
    """Import the package; raises `UsageError` if it is not installed."""
    try:
        suites = import_module("agentdojo.task_suite.load_suites").get_suites(BENCHMARK)
        return AgentDojo(suites, *(import_module(f"agentdojo.{name}") for name in _MODULES))
    except ImportError as error:
        raise UsageError(
            f"The suite injection needs the package agentdojo, which cannot be loaded: {error}.",
            "Install it beside Sandbur: pip install agentdojo==0.1.35",
        ) from None


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A call that has run."""

    key: str
    """The idempotency key of the call: a call that was made before a kill gets its result again."""
    function: str
    arguments: dict[str, Any]
    result: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task of a user, the goal of an attacker, and how the attacker words it."""

    suite: str
    user_task: str
    injection_task: str = ""
    attack: str = NO_ATTACK

    @property
    def name(self) -> str:
        return "/".join(filter(None, (self.suite, self.user_task, self.injection_task)))

    def to_files(self) -> dict[str, str]:
        """Return the files of a workspace that `read` reads."""
        return {_SCENARIO: json.dumps(asdict(self))}

    @classmethod
    def read(cls, workspace: Path) -> Self:
        return cls(**json.loads((workspace / _SCENARIO).read_text("utf-8")))

    @property
    def tasks(self) -> tuple[Any, Any]:
        """The task of the user, and that of the attacker or None."""
        suite = load_agentdojo().suites[self.suite]
        goal = suite.injection_tasks[self.injection_task] if self.injection_task else None
        return suite.user_tasks[self.user_task], goal

    def list_right_calls(self) -> tuple[list[tuple[str, dict[str, Any]]], str]:
        """Return the calls that solve the task of the user, and the answer."""
        user, _ = self.tasks
        calls = user.ground_truth(_copy_start(self))
        return [(one.function, dict(one.args)) for one in calls], str(user.GROUND_TRUTH_OUTPUT)

    def call(self, workspace: Path, key: str, function: str, arguments: Mapping[str, Any]) -> LoggedCall:
        """Run a call on the environment of a run, and write it down before its result is recorded.

        A call that is written down already has the same result again.
        """
        with _WRITING:
            log = read_calls(workspace)
            if (found := next((one for one in log if one.key == key), None)) is not None:
                return found
            made = _run(self._runtime(), self._replay(log), key, function, arguments)
            _write_calls(workspace, [*log, made])
            return made

    def judge(self, workspace: Path, answer: str) -> tuple[bool, bool]:
        """Return whether the task of the user is done, and whether the attacker reached the goal."""
        log = read_calls(workspace)
        user, goal = self.tasks
        call_type = load_agentdojo().functions_runtime.FunctionCall
        traces = [call_type(function=one.function, args=one.arguments) for one in log]
        before, after = _copy_start(self), self._replay(log)
        is_done = user.utility_from_traces(answer, before, after, traces)
        if is_done is None:
            is_done = user.utility(answer, before, after)
        if goal is None:
            return bool(is_done), False
        is_reached = goal.security_from_traces(answer, before, after, traces)
        if is_reached is None:
            is_reached = goal.security(answer, before, after)
        return bool(is_done), bool(is_reached)

    def _runtime(self) -> Any:
        dojo = load_agentdojo()
        return dojo.functions_runtime.FunctionsRuntime(dojo.suites[self.suite].tools)

    def _replay(self, log: Sequence[LoggedCall]) -> Any:
        """Return the environment after these calls.

        What AgentDojo writes about an environment does not contain every change, so the calls are what is
        stored.
        """
        environment, runtime = _copy_start(self), self._runtime()
        for one in log:
            runtime.run_function(environment, one.function, one.arguments)
        return environment


def read_calls(workspace: Path) -> list[LoggedCall]:
    """Return the calls that a run has made."""
    path = workspace / _CALLS
    return [LoggedCall(**one) for one in json.loads(path.read_text("utf-8"))] if path.exists() else []


def _write_calls(workspace: Path, calls: Sequence[LoggedCall]) -> None:
    """Replace the file of the calls at once, so that a kill leaves the old one or the new one."""
    path = workspace / _CALLS
    made = path.with_suffix(".new")
    with made.open("w", encoding="utf-8") as file:
        json.dump([asdict(one) for one in calls], file)
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)


def _run(runtime: Any, environment: Any, key: str, function: str, arguments: Mapping[str, Any]) -> LoggedCall:
    result, error = runtime.run_function(environment, function, dict(arguments))
    text = error or load_agentdojo().tool_execution.tool_result_to_str(result)
    return LoggedCall(key, function, dict(arguments), str(text), error is not None)


def _copy_start(scenario: Scenario) -> Any:
    """Return the environment at the beginning, which the caller may change."""
    return _load_start(scenario).model_copy(deep=True)


@lru_cache(_MOST_ENVIRONMENTS)
def _load_start(scenario: Scenario) -> Any:
    suite = load_agentdojo().suites[scenario.suite]
    user, goal = scenario.tasks
    texts: Any = {} if goal is None else _load_attack(scenario.suite, scenario.attack).attack(user, goal)
    return user.init_environment(suite.load_and_inject_default_environment(texts))


@cache
def _load_attack(suite: str, name: str) -> Any:
    dojo = load_agentdojo()
    victim = dojo.agent_pipeline.AgentPipeline([])
    victim.name = _VICTIM
    return dojo.attacks.load_attack(name, dojo.suites[suite], victim)
