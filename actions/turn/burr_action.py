"""Makes Burr actions from plain functions over (state, ports). No other module of `actions` imports Burr."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, Literal, Protocol, Unpack, cast

from burr.core import Action, State
from burr.core.action import FunctionBasedStreamingAction
from typing_extensions import TypedDict

from ...state.application import ApplicationState
from ...state.lazy_dataclass import dataclass

Changes = dict[str, Any]
"""The state changes of an action, in one commit. Maps the name of a field to its new value."""


StepKind = Literal[
    "message", "command", "reply", "calls", "results", "decision", "plan", "summary", "compression", "other"
]
"""The kind of a step in a session's timeline."""


@dataclass(frozen=True, slots=True)
class ActionTraits:
    """What an action does. Limits, the persister, the graph proof and reports read only this."""

    waits_for: Literal["", "message", "decision"] = ""
    """The input that a person must give, before which the graph halts; empty if the action needs no input."""
    asks_model: Literal["", "turn", "summary"] = ""
    """The `purpose` of the action's model request, before which limits and repetition are checked. Empty if
    the action makes no request.

    `turn`: the reply goes into a history, and the action takes the inputs `cut` and `kept` of `model_call`.
    `summary`: the request compresses older messages.
    """
    proposes_calls: bool = False
    """Whether the action adds calls to `pending_tool_calls`. The gate judges each of them."""
    runs_calls: bool = False
    """Whether the action runs the approved calls of `pending_tool_calls`. The gate judges each again before
    its start.
    """
    step_kind: StepKind = "reply"
    """The kind of the action's steps in a timeline. `reply`: an answer of a model, which is a text or
    calls.
    """
    stop_note: str = ""
    """The sentence that a person reads about a run that was interrupted before this action."""


class _TraitOptions(TypedDict, total=False):
    waits_for: Literal["message", "decision"]
    asks_model: Literal["turn", "summary"]
    proposes_calls: bool
    runs_calls: bool
    step_kind: StepKind
    stop_note: str


class GraphAction(Protocol):
    """An action in the form that Burr needs, with its traits."""

    __name__: str
    traits: ActionTraits
    action_function: Any
    """The object of Burr for this action. It has the `traits`, too."""

    def __call__(
        self, state: State[ApplicationState], **inputs: Any
    ) -> AsyncIterator[tuple[dict[str, Any], State[ApplicationState]]]: ...


class _GraphStep(FunctionBasedStreamingAction):
    """A streaming action of Burr, created without Burr's search of the source for undeclared reads.

    The search looks for `state["field"]`, which never occurs with a typed state, and it parses the source of
    each action at each start.
    """

    def __init__(self, function: Any, reads: list[str], writes: list[str]) -> None:
        super().__init__(function, [], writes)  # pyright: ignore[reportUnknownMemberType]
        self._reads = reads


def graph_action(
    reads: Sequence[str], writes: Sequence[str], **traits: Unpack[_TraitOptions]
) -> Callable[[Callable[..., Awaitable[Changes]]], GraphAction]:
    """Declare `async def action(state, ports, ...) -> changes` as an action of the graph.

    `traits` are the fields of `ActionTraits`. Raises `TypeError` for an action with `asks_model="turn"` that
    does not take the inputs `cut` and `kept`.

    Burr gets a streaming action that yields only its end. A plain action would be saved as completed if it is
    cancelled, and would be logged with the whole state if it fails.
    """

    found = ActionTraits(**traits)

    def declare_action(action: Callable[..., Awaitable[Changes]]) -> GraphAction:
        missing = {"cut", "kept"} - inspect.signature(action).parameters.keys()
        if found.asks_model == "turn" and missing:
            raise TypeError(f"{action.__name__} asks a model, so it needs the inputs {sorted(missing)}")

        @wraps(action)
        async def run(
            state: State[ApplicationState], **inputs: Any
        ) -> AsyncIterator[tuple[dict[str, Any], State[ApplicationState]]]:
            changes = await action(state.data, **inputs)
            yield {}, state.update(**changes)

        made = cast(GraphAction, run)
        made.action_function = _GraphStep(run, list(reads), list(writes))
        made.traits = made.action_function.traits = found
        return made

    return declare_action


def traits_of(action: Action) -> ActionTraits:
    """Return the traits of a Burr action, or the default traits if `graph_action` did not declare the
    action.
    """
    return getattr(action, "traits", ActionTraits())
