"""The rules of an agent for its runs: their inputs, instructions, output type and output validators."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Generic, cast

from ....actions.ports import RunInputs
from ....actions.ports.run_inputs import ValidateAnswer
from ....actions.tools.functions.callee import Unresolved, name_of, parameters_of
from ....actions.tools.functions.parameters import Callee
from ....actions.tools.functions.results import ToolError
from ....actions.tools.functions.run_context import RunContext, context_of_run
from ....actions.turn.output.format import OutputFormat
from ....actions.turn.output.types import TypedOutput
from ....actions.turn.user_code import UserCode
from ....state.application import NO_OPTIONS, RunOptions
from ....state.conversation.messages import ToolUse, encodable
from ....state.conversation.transcript import Transcript
from ....state.errors import UsageError, WrongType
from ....state.lazy_dataclass import dataclass
from ...runtime.agent_definition import Instructions
from ...session.session import Session
from .request import RunInstructions, RunRequest
from .result import ChildResult, OutputT


class ModelRetry(ToolError):
    """Raised by an output validator: the model gets the reason and answers again, at most three times.

    In a tool it has the same effect as `ToolError`.
    """


_REFUSALS = (ModelRetry, ValueError)


class OutputValidator:
    """A function of a program that checks an answer. Its parameters are the value and injected objects."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Read the parameters of the function; raises `UsageError` unless exactly one is for the value."""
        if not callable(function):
            raise WrongType(f"An output validator is a function, not {function!r}.")
        self.function = function
        self._what = f"The output validator {name_of(function)}"
        parameters = parameters_of(function, self._what)
        values = [one for one in parameters if one.role == "argument"]
        if not values or any(one.is_required for one in values[1:]):
            raise UsageError(
                f"{self._what} has to take one value: the output.",
                "Its other parameters are RunContext[...] and Annotated[..., Depends(...)].",
            )
        self._parameter = values[0].name
        self._callee = Callee(function, self._what, parameters)

    async def check(self, value: Any, run: RunContext[Any], inputs: RunInputs) -> str:
        """Return why the program refuses the value, or an empty text if the program accepts it."""
        given = {self._parameter: value}
        try:
            with UserCode(self._what, passes=_REFUSALS):
                result, _ = await self._callee.call(given, run, None, inputs.overrides)
        except _REFUSALS as refused:
            return str(refused) or type(refused).__name__
        if result is not None and result is not value and result != value:
            raise UsageError(
                f"{self._what} returned another value; the answer is stored as the model wrote it.",
                "Raise ModelRetry for an answer that does not fit, and return nothing.",
            )
        return ""


def split_instructions(
    given: Instructions | RunInstructions | Sequence[Instructions | RunInstructions],
) -> tuple[Instructions, tuple[Callee, ...]]:
    """Return the instructions of a session, and the functions that write instructions for each run.

    A function that takes a `RunContext`, a dependency or nothing writes for a run. Any other function writes
    for a session. Raises `UsageError` for two functions of the session.
    """
    parts = [given] if isinstance(given, str) or callable(given) else list(given)
    texts = [part for part in parts if isinstance(part, str)]
    functions = [part for part in parts if not isinstance(part, str)]
    of_run = [_read(function) for function in functions if _is_of_run(function)]
    of_session = [function for function in functions if not _is_of_run(function)]
    if len(of_session) > 1 or (of_session and texts):
        raise UsageError(
            "`instructions` takes one function of the session, or texts.",
            "A function of the run takes a RunContext; any number of these may be in the list.",
        )
    joined = encodable("\n\n".join(filter(None, texts)))
    return of_session[0] if of_session else joined, tuple(of_run)


def _is_of_run(function: Callable[..., Any]) -> bool:
    try:
        parameters = parameters_of(function, f"The instructions {name_of(function)}")
    except Unresolved:
        if any(
            "RunContext" in str(one.annotation) for one in inspect.signature(function).parameters.values()
        ):
            raise
        return False
    return all(one.role != "argument" for one in parameters)


def _read(function: Callable[..., Any]) -> Callee:
    what = f"The instructions {name_of(function)}"
    return Callee(function, what, parameters_of(function, what))


@dataclass(slots=True)
class RunRules(Generic[OutputT]):
    """The rules of an agent for its runs. All sessions of the agent share one object."""

    typed: TypedOutput[OutputT] | None = None
    """The parser of the output type. None: an answer is a text."""
    instructions: tuple[Callee, ...] = ()
    validators: list[OutputValidator] = field(default_factory=list[OutputValidator])
    """The validators of answers. They check the agent's own output type, not another type of a single run."""

    async def write_instructions(self, session_id: str, cwd: Path, inputs: RunInputs) -> list[str]:
        """Return the instructions of a run; raises `UserCodeError` if a function fails."""
        run = context_of_run(session_id, cwd, inputs.deps)
        if inputs.deps is None:
            for each in self.instructions:
                if needed := each.missing_deps(inputs.overrides):
                    raise UsageError(
                        f"The instructions need deps of the type {needed}, and this run has none.",
                        "Pass them: run(..., deps=...).",
                    )
        return [await _write(each, run, inputs) for each in self.instructions]

    def _make_validation(
        self, request: RunRequest[Any], session_id: str, cwd: Path, inputs: RunInputs
    ) -> ValidateAnswer | None:
        """Return the function that checks the answers of a run by the validators, or None without
        validators."""
        if not self.validators or request.changes_output:
            return None
        run = context_of_run(session_id, cwd, inputs.deps)

        async def validate(text: str, value: Any) -> str:
            output = text if self.typed is None else self.typed.parse(value)
            for validator in self.validators:
                if problem := await validator.check(output, run, inputs):
                    return problem
            return ""

        return validate

    def check_request(self, request: RunRequest[Any]) -> None:
        """Raise `UsageError` for an argument of a run that the agent does not take."""

    def list_children(self, history: Transcript) -> tuple[ChildResult, ...]:
        """Return the results of the agents of a workflow in its newest turn; empty for another agent."""
        return ()

    def place_child(self, child: ChildResult, call: ToolUse) -> ChildResult:
        """Return the result of a sub-agent with its place in a workflow; unchanged for another agent."""
        return child

    def parse(self, value: Any) -> OutputT:
        """Return the output of an answer; raises `ValueError` if the answer has another form."""
        return cast("OutputT", value) if self.typed is None else self.typed.parse(value)

    def set_inputs(
        self, session: Session, request: RunRequest[Any], deps: Any, begins: bool
    ) -> OutputFormat | None:
        """Give a session the inputs of a run that no store keeps; return the format of the run's answer.

        `deps` are the dependencies for a run that gets none of its own. Without `begins` the run continues,
        and keeps the output that it began with.
        """
        inputs = session.inputs
        inputs.deps = deps if request.deps is None else request.deps
        inputs.model, inputs.output = request.model, request.form
        stored = NO_OPTIONS if begins else session.state.run_options
        has_own_form = stored.is_text or stored.output is not None
        cwd = Path(session.settings.cwd)
        inputs.validate = None if has_own_form else self._make_validation(request, session.id, cwd, inputs)
        own = self.typed.format if self.typed is not None and not request.is_text else None
        return request.form or (own if begins or not has_own_form else session.output)

    async def make_options(self, session: Session, request: RunRequest[Any], begins: bool) -> RunOptions:
        """Return the options of a run that the session stores. Only a run that begins has instructions."""
        if not begins:
            return request.options()
        cwd = Path(session.settings.cwd)
        return request.options(await self.write_instructions(session.id, cwd, session.inputs))

    def choose_parser(self, request: RunRequest[Any], stored: RunOptions) -> Callable[[Any], Any] | None:
        """Return the function that parses an answer into the output, or None if the output is a text."""
        if request.typed is not None:
            return request.typed.parse
        if request.is_text or stored.is_text:
            return None
        if stored.output is not None:
            return _keep_json
        return None if self.typed is None else self.parse


async def _write(instructions: Callee, run: RunContext[Any], inputs: RunInputs) -> str:
    with UserCode(instructions.what):
        text, _ = await instructions.call({}, run, None, inputs.overrides)
        if not isinstance(text, str):
            raise TypeError(f"instructions are a text, not {type(text).__name__}")
        return encodable(text)


def _keep_json(value: Any) -> Any:
    """Return the answer of a continued run as a JSON value, because its Python type is not known here."""
    return value
