"""How an action speaks to Burr: events while it runs, the changed state at its end."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol, cast

from burr.core import Action, State
from burr.core.action import streaming_action

from actions.events import Event
from actions.ports import Ports
from state.application import ApplicationState

AppState = State[ApplicationState]
Item = tuple[dict[str, Any], AppState | None]
Stream = AsyncIterator[Item]


class GraphAction(Protocol):
    """An action as the graph takes it: a function that still needs its ports."""

    def bind(self, *, ports: Ports) -> Action: ...


def graph_action(
    reads: Sequence[str], writes: Sequence[str]
) -> Callable[[Callable[..., Stream]], GraphAction]:
    """Declare an async generator as a streaming action of Burr."""
    return cast(Any, streaming_action(reads=list(reads), writes=list(writes)))


def show(event: Event) -> Item:
    return {"event": event}, None


def done(state: AppState, **changes: Any) -> Item:
    """End the action: the fields named in `changes` get new values, in one commit."""
    return {}, state.update(**changes)
