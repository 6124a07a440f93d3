"""What Session and Run tell whoever watches them; nobody does unless telemetry is switched on."""

from collections.abc import Callable

from actions.events import Event
from state.application import ApplicationState

Observe = Callable[[Event, ApplicationState], None]
"""Is told each event as it happens, and the state that its step began with."""


def nobody(event: Event, state: ApplicationState) -> None:
    """Watch nothing."""
