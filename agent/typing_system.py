"""Lets Burr's `state.data` be an `ApplicationState`, without copying or validating at every step."""

from typing import Any

from burr.core import Action, Graph, State
from burr.core.typing import TypingSystem

from state.application import ApplicationState


class ApplicationTyping(TypingSystem[ApplicationState]):
    def state_type(self) -> type[ApplicationState]:
        return ApplicationState

    def state_pre_action_run_type(self, action: Action, graph: Graph) -> type[ApplicationState]:
        return ApplicationState

    def state_post_action_run_type(self, action: Action, graph: Graph) -> type[ApplicationState]:
        return ApplicationState

    def construct_data(self, state: State[Any]) -> ApplicationState:
        """Return a view of the fields; what the store and the actions put in is valid already."""
        fields = {name: value for name, value in state.get_all().items() if not name.startswith("__")}
        return ApplicationState.model_construct(**fields)

    def construct_state(self, data: ApplicationState) -> State[Any]:
        return State(dict(data), typing_system=self)
