"""The workflows that programs write: `Parallel`, `Sequential`, `Loop`, `Map`, `FirstAnswer` and `Vote`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Generic, Literal, cast, get_type_hints

from typing_extensions import TypeForm, TypeVar, Unpack

from ....actions.turn.output.types import TypedOutput, output_format_of
from ....state.errors import UsageError, WorkflowFailed, WrongType
from ...sdk.agent import Agent
from ...sdk.arguments import parse_output_type
from ...sdk.runs.result import ChildResult
from .logic import (
    FirstAnswerLogic,
    LoopLogic,
    MapLogic,
    ParallelLogic,
    SequentialLogic,
    VoteLogic,
    call_function,
)
from .turn import WorkflowAgent
from .workflow import (
    FailurePolicy,
    FailureRule,
    Workflow,
    WorkflowArguments,
    find_typed,
    make_lenient,
    make_parser,
    make_typed,
    prepare_steps,
)

_LIST = {"type": "array"}
OutputT = TypeVar("OutputT", default=Any)


def _members(steps: Sequence[Any]) -> list[WorkflowAgent]:
    return cast("list[WorkflowAgent]", list(steps))


class Parallel(Workflow[list[Any]]):
    """Runs agents at the same time, each with the same message. The output is the list of their outputs.

    Args:
        agents: The agents; the list has their outputs in this order.
        on_failure: `fail`: the run ends with the failure of an agent, and resumes with it. `ignore`: the
            agent has None in the list. `retry(N)`: it runs again from its beginning, then it fails.
        stop_on: A function of a `ChildResult`: the first answer for which it is true stops the other agents,
            which have None in the list.
        options: See `WorkflowArguments`.
    """

    def __init__(
        self,
        *agents: Agent[Any],
        on_failure: FailurePolicy = "fail",
        stop_on: Callable[[ChildResult], Any] | None = None,
        **options: Unpack[WorkflowArguments],
    ) -> None:
        rule = FailureRule.parse(on_failure)
        _require_function("Parallel", "stop_on", stop_on)
        super().__init__(
            prepare_steps("Parallel", agents, rule, self._step_name),
            lambda steps: ParallelLogic(_members(steps), rule.keeps_failures, stop_on),
            make_typed(_LIST, _make_list_parser([make_parser(agent) for agent in agents])),
            options,
        )


class Map(Workflow[list[Any]]):
    """Runs one agent for each input at the same time. The output is the list of its outputs, in their order.

    Args:
        agent: The agent; each input has a session of its own.
        inputs: A list, or a function of the message that returns one; it is called once. None: the message is
            a JSON list. A value that is no text is sent as JSON.
        max_inputs: With more inputs nothing starts, and the run fails.
        on_failure, stop_on, options: As in `Parallel`.
    """

    def __init__(
        self,
        agent: Agent[Any],
        inputs: Iterable[Any] | Callable[[str], Any] | None = None,
        *,
        max_inputs: int = 1000,
        on_failure: FailurePolicy = "fail",
        stop_on: Callable[[ChildResult], Any] | None = None,
        **options: Unpack[WorkflowArguments],
    ) -> None:
        rule = FailureRule.parse(on_failure)
        _require_function("Map", "stop_on", stop_on)
        _require_count("Map", "max_inputs", max_inputs)
        fixed = None if inputs is None or callable(inputs) else _check_inputs(inputs, max_inputs)

        async def list_inputs(message: str) -> Sequence[Any]:
            if fixed is not None:
                return fixed
            made = await call_function(inputs, message) if callable(inputs) else _parse_list(message)
            return _check_inputs(made, max_inputs)

        super().__init__(
            prepare_steps("Map", [agent], rule, self._step_name),
            lambda steps: MapLogic(_members(steps), rule.keeps_failures, stop_on, list_inputs),
            make_typed(_LIST, _make_list_parser([make_parser(agent)])),
            options,
        )


class Sequential(Workflow[Any]):
    """Runs agents and functions one after the other. Each gets the output of the one before it.

    An agent gets a text: another output is sent as JSON. A function gets the output itself, and the first
    step the message. A function may be called again after a kill; what has effects belongs into a tool of an
    agent.

    Args:
        steps: Agents and functions. The output of the last one is the output of the workflow.
        output: The type of the output if the last step is a function. None: what the function is annotated to
            return; without an annotation the output is a text.
        on_failure: As in `Parallel`; with `ignore` the next step gets what the failed one was given.
        options: See `WorkflowArguments`.
    """

    _step_name = "step"

    def __init__(
        self,
        *steps: Agent[Any] | Callable[[Any], Any],
        output: TypeForm[Any] | None = None,
        on_failure: FailurePolicy = "fail",
        **options: Unpack[WorkflowArguments],
    ) -> None:
        rule = FailureRule.parse(on_failure)
        made = prepare_steps("Sequential", steps, rule, self._step_name, takes_functions=True)
        super().__init__(
            made,
            lambda named: SequentialLogic(named, rule.keeps_failures),
            _find_type_of_last(steps[-1], output),
            options,
        )


class Loop(Workflow[OutputT], Generic[OutputT]):
    """Runs an agent again and again, until a function says that it is enough. Each time it gets its last
    output.

    Args:
        agent: The agent; each iteration has a session of its own.
        until: A function of a `ChildResult`, sync or async. It may be called again after a kill.
        max_iterations: How often the agent runs at most. The last output is the output of the workflow, also
            if `until` was never true.
        on_failure: As in `Parallel`; with `ignore` the next iteration gets what the failed one was given.
        options: See `WorkflowArguments`.
    """

    def __init__(
        self,
        agent: Agent[OutputT],
        *,
        until: Callable[[ChildResult], Any] | None = None,
        max_iterations: int,
        on_failure: FailurePolicy = "fail",
        **options: Unpack[WorkflowArguments],
    ) -> None:
        rule = FailureRule.parse(on_failure)
        _require_function("Loop", "until", until)
        _require_count("Loop", "max_iterations", max_iterations)
        super().__init__(
            prepare_steps("Loop", [agent], rule, self._step_name),
            lambda steps: LoopLogic(_members(steps), rule.keeps_failures, until, max_iterations),
            find_typed(agent),
            options,
        )


class FirstAnswer(Workflow[Any]):
    """Runs agents at the same time with the same message. The first answer is the output, and stops the
    others.

    A failed agent does not count, unless all fail.

    Args:
        agents: The agents.
        options: See `WorkflowArguments`.
    """

    def __init__(self, *agents: Agent[Any], **options: Unpack[WorkflowArguments]) -> None:
        rule = FailureRule.parse("ignore")
        super().__init__(
            prepare_steps("FirstAnswer", agents, rule, self._step_name),
            lambda steps: FirstAnswerLogic(_members(steps), rule.keeps_failures),
            _find_common_type(agents),
            options,
        )


class Vote(Workflow[Any]):
    """Runs agents at the same time with the same message. The output is the answer that most of them gave.

    Two texts are the same answer if they differ only in spaces and case, two other values if their JSON is
    the same. The vote ends as soon as the agents that still run cannot change it.

    Args:
        agents: The agents. The output is the winning answer in the words of the first agent that gave it.
        key: A function of an output that returns what is compared.
        quorum: How many equal answers are needed; with fewer the run fails.
        ties: `first`: the answer whose first voter comes first in `agents`. `fail`: the run fails.
        on_failure: `ignore`: a failed agent does not vote. `fail` and `retry(N)`: as in `Parallel`.
        options: See `WorkflowArguments`.
    """

    def __init__(
        self,
        *agents: Agent[Any],
        key: Callable[[Any], Any] | None = None,
        quorum: int = 1,
        ties: Literal["first", "fail"] = "first",
        on_failure: FailurePolicy = "ignore",
        **options: Unpack[WorkflowArguments],
    ) -> None:
        rule = FailureRule.parse(on_failure)
        _require_function("Vote", "key", key)
        _require_count("Vote", "quorum", quorum)
        if ties not in ("first", "fail"):
            raise UsageError(f"Vote: ties={ties!r} is not possible.", 'It is "first" or "fail".')
        if quorum > len(agents):
            raise UsageError(
                f"Vote: {len(agents)} agents cannot give {quorum} equal answers.", "Lower `quorum`."
            )
        super().__init__(
            prepare_steps("Vote", agents, rule, self._step_name),
            lambda steps: VoteLogic(_members(steps), rule.keeps_failures, key, quorum, ties == "fail"),
            _find_common_type(agents),
            options,
        )


def _find_type_of_last(
    last: Agent[Any] | Callable[[Any], Any], output: TypeForm[Any] | None
) -> TypedOutput[Any] | None:
    """Return the output of a sequence that ends with this step; None for a text.

    `output` is its type if the step is a function. Raises `UsageError` if the step is an agent.
    """
    if isinstance(last, Agent):
        if output is not None:
            raise UsageError(
                "Sequential: `output` is for a function as the last step.", "Give the agent its own `output`."
            )
        return find_typed(cast("Agent[Any]", last))
    typed = parse_output_type(output) if output is not None else _find_returned_type(last)
    return None if typed is None else make_typed({}, make_lenient(typed))


def _find_returned_type(function: Callable[[Any], Any]) -> TypedOutput[Any] | None:
    """Return the type that a function is annotated to return; None for a text, for any value and for none."""
    try:
        kind: Any = function
        if not isinstance(function, type):
            kind = get_type_hints(function if inspect.isroutine(function) else type(function).__call__).get(
                "return"
            )
        return None if kind in (None, NoneType, str, Any, object) else output_format_of(kind)
    except (NameError, TypeError, UsageError):
        return None


def _find_common_type(agents: Sequence[Agent[Any]]) -> Any:
    """Return the output of a workflow that ends with the output of any of these agents; None for a text."""
    typed = [find_typed(agent) for agent in agents]
    if all(one is None for one in typed):
        return None
    types = {id(agent.output) for agent in agents}
    return typed[0] if len(types) == 1 else make_typed({}, lambda value: value)


def _make_list_parser(parsers: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Return the function that parses a list item by item; a single parser is for every item."""

    def parse(values: Any) -> Any:
        if not isinstance(values, list):
            raise ValueError("not a list")
        items = cast("list[Any]", values)
        return [parsers[n % len(parsers)](value) for n, value in enumerate(items)]

    return parse


def _parse_list(message: str) -> Any:
    try:
        return json.loads(message)
    except ValueError:
        raise WorkflowFailed(
            "Map without inputs needs a message that is a JSON list.", "Pass them: Map(agent, inputs)."
        ) from None


def _check_inputs(given: Any, most: int) -> list[Any]:
    """Return the inputs; raises `UsageError` for another value than a list, and for more than allowed."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        kind = type(cast("object", given)).__name__
        raise WrongType(f"Map takes a list of inputs, and not {kind}.")
    inputs: list[Any] = []
    for one in cast("Iterable[Any]", given):
        inputs.append(one)
        if len(inputs) > most:
            raise UsageError(
                f"Map has more than {most} inputs, so nothing was started.",
                f"Raise the limit: Map(..., max_inputs={10 * most}).",
            )
    return inputs


def _require_function(kind: str, name: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise WrongType(f"{kind}: `{name}` takes a function, and not {type(value).__name__}.")


def _require_count(kind: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise WrongType(f"{kind}: `{name}` takes a whole number from 1, and not {value!r}.")
