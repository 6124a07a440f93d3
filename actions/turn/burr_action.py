"""Makes actions of Burr out of plain functions over (state, ports): nothing else in here knows Burr."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, cast

from burr.core import State
from burr.core.action import FunctionBasedStreamingAction, streaming_action

from ...state.application import ApplicationState

Changes = dict[str, Any]
"""What an action puts into the state: new values by the name of their field, in one commit."""


GraphAction = Callable[..., AsyncIterator[tuple[dict[str, Any], State[ApplicationState]]]]
"""An action as the graph takes it."""


def graph_action(
    reads: Sequence[str], writes: Sequence[str]
) -> Callable[[Callable[..., Awaitable[Changes]]], GraphAction]:
    """Declare `async def action(state, ports, ...) -> changes` as an action of the graph.

    Burr gets it as a streaming action with nothing but an end. A plain one that is cancelled would be saved
    as completed, and one that fails would be logged with the whole state.
    """

    def declared(action: Callable[..., Awaitable[Changes]]) -> GraphAction:
        @wraps(action)
        async def run(
            state: State[ApplicationState], **inputs: Any
        ) -> AsyncIterator[tuple[dict[str, Any], State[ApplicationState]]]:
            changes = await action(state.data, **inputs)
            yield {}, state.update(**changes)

        declare: Any = streaming_action(reads=list(reads), writes=list(writes))
        return cast(GraphAction, declare(run))

    return declared


class LoadedWhenRun(FunctionBasedStreamingAction):
    """An action of which the graph knows no more than its name until it runs: few runs need all of them."""

    def __init__(self, load: Callable[[], GraphAction]) -> None:
        # Nothing more of what Burr's own would set: what is missing is asked for.
        self._name: str | None = None
        self._tags = []
        self._load = load

    def __getattr__(self, attribute: str) -> Any:
        if not attribute.startswith("_") or attribute.startswith("__") or attribute == "_load":
            raise AttributeError(attribute)
        known = vars(self)
        found: Any = self._load()
        known |= {**vars(found.action_function), **known}
        if attribute not in known:
            raise AttributeError(attribute)
        return known[attribute]
