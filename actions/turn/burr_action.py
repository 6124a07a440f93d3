"""Makes Burr actions from plain functions over (state, ports); no other module of `actions` imports Burr."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, Protocol, Unpack, cast

from burr.core import Action, State
from burr.core.action import FunctionBasedStreamingAction
from typing_extensions import TypedDict

from ...state.application import ApplicationState

Changes = dict[str, Any]
"""The state changes of an action: field name -> new value, in one commit."""


StepKind = Literal[
    "message", "command", "reply", "calls", "results", "decision", "plan", "summary", "compression", "other"
]
"""The kind of a step in a session's timeline."""


@dataclass(frozen=True, slots=True)
class ActionTraits:
    """What an action does. Limits, the persister, the graph proof and reports read only this."""

    waits_for: Literal["", "message", "decision"] = ""
    """The input that a person has to give: the graph halts before the action. Empty: no input."""
    asks_model: Literal["", "turn", "summary"] = ""
    """The `purpose` of its model request; empty: it makes none. Limits and repetition are checked before it.

    `turn`: its reply goes into a history. It takes the inputs `cut` and `kept`, see `model_call`.
    """
    proposes_calls: bool = False
    """It adds calls to `pending_tool_calls`, each judged by the gate."""
    runs_calls: bool = False
    """It runs the approved calls of `pending_tool_calls`; the gate judges each once more before it starts."""
    step_kind: StepKind = "reply"
    """The kind of its steps in a timeline; `reply`: a model's answer, words or calls."""
    stop_note: str = ""
    """What a person reads about a run that was interrupted before it."""


class _TraitOptions(TypedDict, total=False):
    waits_for: Literal["message", "decision"]
    asks_model: Literal["turn", "summary"]
    proposes_calls: bool
    runs_calls: bool
    step_kind: StepKind
    stop_note: str


class GraphAction(Protocol):
    """An action as Burr takes it, with what it does."""

    __name__: str
    traits: ActionTraits
    action_function: Any
    """Burr's own object for it; it has the `traits`, too."""

    def __call__(
        self, state: State[ApplicationState], **inputs: Any
    ) -> AsyncIterator[tuple[dict[str, Any], State[ApplicationState]]]: ...


class _GraphStep(FunctionBasedStreamingAction):
    """A streaming action of Burr, made without Burr's search of the source for undeclared reads.

    The search looks for `state["field"]`, which a typed state does not have, and it parses the source of
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

    Burr gets it as a streaming action with nothing but an end. A plain one that is cancelled would be saved
    as completed, and one that fails would be logged with the whole state.
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
    """Return the traits of a Burr action; the defaults if `graph_action` did not declare it."""
    return getattr(action, "traits", ActionTraits())
