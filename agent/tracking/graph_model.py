"""The graph of today's actions, in the form of Burr's log."""

from functools import cache
from typing import Any, cast

from burr.tracking.common.models import ActionModel, ApplicationModel, TransitionModel

from agent.graph import build_graph


@cache
def graph_json() -> bytes:
    """Return the graph as JSON; nothing of it runs, so it is bound to nothing."""
    graph = build_graph(cast(Any, None))
    model = ApplicationModel(
        entrypoint="prompt",
        actions=[ActionModel.from_action(action) for action in graph.actions],
        transitions=[TransitionModel.from_transition(transition) for transition in graph.transitions],
    )
    return model.model_dump_json().encode()
