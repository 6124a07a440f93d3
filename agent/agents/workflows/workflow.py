"""Workflows as agents of a program: they run, stream, resume and nest as any agent does."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Never, cast

from typing_extensions import TypedDict, TypeVar

from ....actions.turn.output.format import OutputFormat
from ....actions.turn.output.types import TypedOutput
from ....state.application import ExecutionMode
from ....state.conversation.messages import ToolUse
from ....state.conversation.transcript import Transcript
from ....state.errors import UsageError, WorkflowFailed, WrongType
from ....state.lazy_dataclass import dataclass
from ....state.session import SandboxWish
from ...config.settings import CONFINING
from ...extensions.middleware.middleware import Middleware
from ...runtime.agent_definition import Definition
from ...sdk.agent import Agent
from ...sdk.arguments import as_sub_agent, require_agent_name
from ...sdk.runs.request import RunRequest
from ...sdk.runs.result import ChildResult
from ...sdk.runs.rules import RunRules
from ...session.run_limits import Limits
from ..child_settings import MODES_BY_FREEDOM
from .branch_tool import BranchTool
from .logic import RetryLogic, WorkflowLogic, WorkflowStep
from .turn import BranchArguments, WorkflowAgent, find_turn
from .workflow_model import WorkflowModel

ResultT = TypeVar("ResultT", default=Any)

FailurePolicy = str
"""`fail`, `ignore` or `retry(N)`."""
_RETRY = re.compile(r"retry\((\d+)\)")
_MOST_RETRIES = 100
_NOT_TAKEN = ("model", "tool_choice", "message_history", "instructions")
_FROM_AGENTS = ("store", "cwd", "env")
"""The arguments that a workflow takes from its agents if it has none of its own."""


class WorkflowArguments(TypedDict, total=False):
    """The arguments that every workflow takes; the docstring of `Agent` describes them."""

    name: str
    description: str
    mode: ExecutionMode
    allow: Sequence[str]
    ask: Sequence[str]
    deny: Sequence[str]
    limits: Limits | None
    store: str | None
    cwd: str | Path | None
    add_dirs: Sequence[str | Path]
    sandbox: SandboxWish
    allow_net: Sequence[str]
    middleware: Sequence[Middleware]
    env: Mapping[str, str] | None


def retry(times: int) -> FailurePolicy:
    """Return the policy `retry(times)`: a failed agent begins again, at most `times` times."""
    return f"retry({times})"


@dataclass(frozen=True, slots=True)
class FailureRule:
    """What a workflow does about an agent that failed."""

    keeps_failures: bool
    retries: int = 0

    @classmethod
    def parse(cls, policy: FailurePolicy) -> FailureRule:
        """Return the rule of a policy; raises `UsageError` for another text."""
        if policy in ("fail", "ignore"):
            return cls(policy == "ignore")
        found = _RETRY.fullmatch(str(policy))
        if found is None or not 1 <= int(found[1]) <= _MOST_RETRIES:
            raise UsageError(
                f"on_failure={policy!r} is not possible.",
                f'It is "fail", "ignore" or sandbur.retry(N), with N from 1 to {_MOST_RETRIES}.',
            )
        return cls(False, int(found[1]))


class WorkflowRules(RunRules[ResultT]):
    """The rules of a workflow for its runs."""

    members: Callable[[], Sequence[WorkflowAgent]]

    def check_request(self, request: RunRequest[Any]) -> None:
        names = [name for name in _NOT_TAKEN if name in request.given]
        names += ["output"] if request.changes_output else []
        if names:
            raise UsageError(
                f"A run of a workflow takes no `{names[0]}`: its agents have their own.",
                "Give it to the agents.",
            )

    def list_children(self, history: Transcript) -> tuple[ChildResult, ...]:
        turn = find_turn(history, self.members())
        try:
            return () if turn is None else tuple(turn.results)
        except WorkflowFailed:
            return ()

    def place_child(self, child: ChildResult, call: ToolUse) -> ChildResult:
        arguments = BranchArguments.model_validate_json(call.arguments)
        members = self.members()
        output = members[arguments.index % len(members)].parse(child.output)
        iteration = arguments.iteration or None
        return replace(child, index=arguments.index, iteration=iteration, output=output)


class Workflow(Agent[ResultT]):
    """Agents in an order that the program fixes. It is an agent itself: it runs, streams, resumes and nests.

    Its sessions are as durable as those of any agent: after a kill, agents that had ended do not run again.
    """

    _step_name: ClassVar[str] = "branch"

    def __init__(
        self,
        steps: Sequence[Agent[Any] | Callable[[Any], Any]],
        make: Callable[[Sequence[WorkflowStep]], WorkflowLogic],
        typed: TypedOutput[Any] | None,
        options: WorkflowArguments,
    ) -> None:
        """`make` returns the logic for the steps; `typed` parses the answer, None for a text."""
        agents = [cast("Agent[Any]", step) for step in steps if isinstance(step, Agent)]
        if unknown := options.keys() - WorkflowArguments.__annotations__.keys():
            raise WrongType(
                f"{type(self).__name__} takes no argument `{min(unknown)}`.",
                "What an agent of it needs is an argument of that agent.",
            )
        given = cast("dict[str, Any]", dict(options))
        super().__init__(**self._take_from_agents(agents, given), planning="off")
        self._steps = tuple(steps)
        self._make = make
        self._typed = typed
        self.output = Any
        rules = WorkflowRules[ResultT](typed)
        rules.members = self._list_members
        self._rules = rules
        self._module = _find_module()

    def _take_from_agents(self, agents: Sequence[Agent[Any]], given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with those that come from the agents: where they are, the freest mode, and the
        strictest sandbox with the domains that each confined agent may reach."""
        for name in _FROM_AGENTS:
            values = (agent._arguments[name] for agent in agents)
            given.setdefault(name, next((value for value in values if value is not None), None))
        modes = [MODES_BY_FREEDOM.index(agent._arguments["mode"]) for agent in agents]
        given.setdefault("mode", MODES_BY_FREEDOM[max(modes, default=1)])
        confined = [agent._arguments for agent in agents if agent._arguments["sandbox"] != "off"]
        if confined and "sandbox" not in given:
            given["sandbox"] = max((own["sandbox"] for own in confined), key=CONFINING.index)
            first = confined[0]["allow_net"]
            shared = [name for name in first if all(name in own["allow_net"] for own in confined)]
            given.setdefault("allow_net", shared)
        return given

    def _define_as(self, source: str) -> Definition:
        logic = self._make(self._name_steps())
        own = super()._define_as(source)
        form = None if self._typed is None else self._typed.format
        model = WorkflowModel(logic, writes_json=form is not None)
        return replace(own, model=model, tools=(BranchTool(logic),), output=form, has_planning=False)

    def _name_steps(self) -> list[WorkflowStep]:
        """Return the steps, with a name for each agent."""
        return [
            self._make_member(cast("Agent[Any]", step), f"{self._step_name}{number}")
            if isinstance(step, Agent)
            else step
            for number, step in enumerate(self._steps, 1)
        ]

    def _make_member(self, agent: Agent[Any], name: str) -> WorkflowAgent:
        description = agent._arguments["description"] or "An agent of a workflow."
        made = as_sub_agent(agent, agent.name or name, description)
        return WorkflowAgent(made, make_parser(agent))

    def _list_members(self) -> list[WorkflowAgent]:
        return [step for step in self._name_steps() if isinstance(step, WorkflowAgent)]

    def clone(self, **changes: Any) -> Never:
        """Raise `UsageError`: make another workflow object with the other arguments."""
        raise UsageError("A workflow cannot be cloned.", "Write it again with other arguments.")

    def output_validator(self, function: Any) -> Never:
        """Raise `UsageError`: its agents have validators, which can ask a model again."""
        raise UsageError(
            "A workflow has no output validators, because it has no model to ask again.",
            "Add the validator to one of its agents.",
        )


def _find_module() -> str:
    """Return the module of the program that makes the workflow."""
    frame, own = sys._getframe(1), __package__ or ""  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(own):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


class RetriedAgent(Workflow[Any]):
    """An agent that runs again after a failure: the policy `retry(N)` makes one of each agent."""

    def __init__(self, agent: Agent[Any], name: str, retries: int) -> None:
        super().__init__(
            [agent],
            lambda steps: RetryLogic(_take_members(steps), retries + 1),
            find_typed(agent),
            {"name": agent.name or name},
        )


def _take_members(steps: Sequence[WorkflowStep]) -> list[WorkflowAgent]:
    return [step for step in steps if isinstance(step, WorkflowAgent)]


def prepare_steps(
    kind: str, steps: Sequence[Any], rule: FailureRule, step_name: str, takes_functions: bool = False
) -> list[Any]:
    """Return the steps of a workflow, with agents that are repeated if the rule says so.

    Raises `WrongType` for a step of another type, and `UsageError` for none, for a name that no agent of a
    workflow can have, and for two agents of one name.
    """
    if not steps:
        raise UsageError(f"{kind} needs at least one agent.", f"Write {kind}(first, second).")
    for step in steps:
        if not isinstance(step, Agent) and not (takes_functions and callable(step)):
            more = " and functions" if takes_functions else ""
            hint = "" if takes_functions or not callable(step) else "A function can be a step of Sequential."
            raise WrongType(f"{kind} takes agents{more}, and not {_describe(step)}.", hint)
    _require_names(kind, steps, step_name)
    if not rule.retries:
        return list(steps)
    return [
        RetriedAgent(cast("Agent[Any]", step), f"{step_name}{number}", rule.retries)
        if isinstance(step, Agent)
        else step
        for number, step in enumerate(steps, 1)
    ]


def _require_names(kind: str, steps: Sequence[Any], step_name: str) -> None:
    """Raise `UsageError` for a name that no agent of a workflow can have, and for two agents of one name.

    An agent without a name has that of its place. One agent may have several places.
    """
    found: dict[str, Agent[Any]] = {}
    for number, step in enumerate(steps, 1):
        if isinstance(step, Agent):
            agent = cast("Agent[Any]", step)
            name = agent.name or f"{step_name}{number}"
            require_agent_name(name)
            if found.setdefault(name, agent) is not agent:
                raise UsageError(f"{kind} has two agents called {name!r}.", "Give each its own name.")


def _describe(value: Any) -> str:
    name = getattr(value, "__name__", "") or type(value).__name__
    return f"{name}, which is a {type(value).__name__}"


class WorkflowFormat(OutputFormat):
    """The format of a workflow's answers: any JSON value. What is in it was checked where it was made."""

    def unwrap(self, value: Any) -> Any:
        return value


def make_typed(schema: Mapping[str, Any], parse: Callable[[Any], Any]) -> TypedOutput[Any]:
    """Return the output of a workflow whose answers `parse` turns into values."""
    made = WorkflowFormat("workflow_output", dict(schema), lambda value: "", wants_strict=False)
    return TypedOutput(made, parse)


def find_typed(agent: Agent[Any]) -> TypedOutput[Any] | None:
    """Return the output of a workflow that ends with the output of an agent; None for a text."""
    if agent._rules.typed is None:  # pyright: ignore[reportPrivateUsage]
        return None
    return make_typed({}, make_parser(agent))


def make_parser(agent: Agent[Any]) -> Callable[[Any], Any]:
    """Return the function that turns the JSON value of an agent's answer into the value of its type.

    A value that does not fit stays as it is.
    """
    typed = agent._rules.typed  # pyright: ignore[reportPrivateUsage]
    return (lambda value: value) if typed is None else make_lenient(typed)


def make_lenient(typed: TypedOutput[Any]) -> Callable[[Any], Any]:
    """Return the parser of a type, with which a value that does not fit stays as it is, such as the reason of
    an `escalate`."""

    def parse(value: Any) -> Any:
        if value is None:
            return value
        try:
            return typed.parse(value)
        except ValueError:
            return value

    return parse
