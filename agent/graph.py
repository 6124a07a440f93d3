"""The graph: nine actions, and every transition between them."""

import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from burr.core import Action, Application, ApplicationBuilder, Condition, State
from burr.core.graph import Graph, GraphBuilder
from burr.core.persistence import AsyncBaseStatePersister
from burr.core.typing import TypingSystem

from ..actions.context_compressor import context_compressor
from ..actions.execute_tools import execute_tools
from ..actions.human_confirm import human_confirm
from ..actions.prompt import prompt
from ..actions.router import router
from ..actions.step_summarizer import step_summarizer
from ..actions.turn.burr_action import ActionTraits, GraphAction
from ..actions.vibe_planner import vibe_planner
from ..actions.vibe_result_analyzer import vibe_result_analyzer
from ..actions.vibe_step_executor import vibe_step_executor
from ..state.application import ApplicationState

_FIELDS = tuple(ApplicationState.model_fields)


def _are_same(fields: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Return whether two mappings in the same order have the same objects."""
    return fields.keys() == others.keys() and all(map(operator.is_, fields.values(), others.values()))


class ApplicationTyping(TypingSystem[ApplicationState]):
    """Gives Burr the type of the state, and keeps the typed view of the newest state."""

    def __init__(self) -> None:
        self._state: State[Any] | None = None
        self._fields: dict[str, Any] = {}
        self._view: ApplicationState | None = None

    def state_type(self) -> type[ApplicationState]:
        return ApplicationState

    def state_pre_action_run_type(self, action: Action, graph: Graph) -> type[ApplicationState]:
        return ApplicationState

    def state_post_action_run_type(self, action: Action, graph: Graph) -> type[ApplicationState]:
        return ApplicationState

    def construct_data(self, state: State[Any]) -> ApplicationState:
        """Return a view of the fields without validation: the store and the actions write valid values."""
        if self._view is None or state is not self._state:
            values = state.get_all()
            fields = {name: values[name] for name in _FIELDS if name in values}
            # Burr makes several states with the same fields: each step changes fields of its own, too.
            if self._view is None or not _are_same(fields, self._fields):
                self._view = ApplicationState.model_construct(**fields)
            self._state, self._fields = state, fields
        return self._view

    def construct_state(self, data: ApplicationState) -> State[Any]:
        return State(dict(data), typing_system=self)


ACTIONS: Mapping[str, GraphAction] = {
    action.__name__: action
    for action in (
        prompt,
        router,
        vibe_planner,
        vibe_step_executor,
        human_confirm,
        execute_tools,
        vibe_result_analyzer,
        step_summarizer,
        context_compressor,
    )
}
_NO_TRAITS = ActionTraits()


def traits_of(action: str) -> ActionTraits:
    """Return the declared traits of the action with this name; empty traits for an unknown name."""
    found = ACTIONS.get(action)
    return _NO_TRAITS if found is None else found.traits


HALTS = tuple(name for name, action in ACTIONS.items() if action.traits.waits_for)
"""The actions before which the graph waits for a person."""
CALLS_START_NEXT = frozenset(
    name for name, action in ACTIONS.items() if action.traits.asks_model and action.traits.proposes_calls
)
"""The actions whose approved calls start right after their step, so that one commit records both."""


class TransitionCondition(Condition):
    """A condition on the whole state. Its function is pure and fast."""

    def __init__(self, name: str, holds: Callable[[ApplicationState], bool]) -> None:
        def test(state: State[ApplicationState]) -> bool:
            return holds(state.data)

        super().__init__([], test, name)  # pyright: ignore[reportUnknownMemberType]
        self.holds = holds


def _back_to(action: str) -> TransitionCondition:
    return TransitionCondition(f"back to {action}", lambda s: s.return_to == action)


TURN_OPEN = TransitionCondition("a message", lambda s: s.turn_open and not s.pending_tool_calls)
UNANSWERED = TransitionCondition("no answer yet", lambda s: s.turn_open)
OVERFLOW = TransitionCondition("does not fit", lambda s: s.overflow_from is not None)
ASKING = TransitionCondition("must ask", lambda s: bool(s.calls_to_decide))
READY = TransitionCondition("all decided", lambda s: bool(s.pending_tool_calls))
PLANNING = TransitionCondition("planning", lambda s: s.phase == "planning")
WORKING = TransitionCondition("steps left", lambda s: s.phase == "working")
STEP_OPEN = TransitionCondition(
    "interrupted", lambda s: s.active_step is not None and s.active_step.status == "in_progress"
)
STEP_ENDED = TransitionCondition(
    "steps ended",
    lambda s: not s.pending_tool_calls and s.active_step is not None and s.active_step.has_ended,
)
ENDED = TransitionCondition("no open turn", lambda s: not s.turn_open)
IN_STEP = TransitionCondition("in a step", lambda s: s.active_step_id is not None)
OTHERWISE = TransitionCondition("otherwise", lambda s: True)

Transitions = tuple[tuple[str, str, TransitionCondition], ...]

# Of the transitions of an action, the first with a true condition is taken.
TRANSITIONS: Transitions = (
    ("prompt", "context_compressor", OVERFLOW),
    ("prompt", "human_confirm", ASKING),
    ("prompt", "execute_tools", READY),
    ("prompt", "vibe_step_executor", WORKING),
    ("prompt", "router", TURN_OPEN),
    ("prompt", "prompt", OTHERWISE),
    ("router", "context_compressor", OVERFLOW),
    ("router", "human_confirm", ASKING),
    ("router", "execute_tools", READY),
    ("router", "vibe_planner", PLANNING),
    ("router", "router", UNANSWERED),
    ("router", "prompt", OTHERWISE),
    ("vibe_planner", "context_compressor", OVERFLOW),
    ("vibe_planner", "vibe_planner", PLANNING),
    ("vibe_planner", "vibe_step_executor", WORKING),
    ("vibe_planner", "router", OTHERWISE),
    ("vibe_step_executor", "context_compressor", OVERFLOW),
    ("vibe_step_executor", "human_confirm", ASKING),
    ("vibe_step_executor", "execute_tools", READY),
    ("vibe_step_executor", "vibe_result_analyzer", STEP_OPEN),
    ("vibe_step_executor", "step_summarizer", OTHERWISE),
    ("human_confirm", "human_confirm", ASKING),
    ("human_confirm", "execute_tools", OTHERWISE),
    ("execute_tools", "human_confirm", ASKING),
    ("execute_tools", "prompt", ENDED),
    ("execute_tools", "step_summarizer", STEP_ENDED),
    ("execute_tools", "vibe_result_analyzer", IN_STEP),
    ("execute_tools", "vibe_step_executor", WORKING),
    ("execute_tools", "router", OTHERWISE),
    ("vibe_result_analyzer", "context_compressor", OVERFLOW),
    ("vibe_result_analyzer", "human_confirm", ASKING),
    ("vibe_result_analyzer", "execute_tools", READY),
    ("vibe_result_analyzer", "vibe_result_analyzer", STEP_OPEN),
    ("vibe_result_analyzer", "step_summarizer", OTHERWISE),
    ("step_summarizer", "vibe_planner", PLANNING),
    ("step_summarizer", "vibe_step_executor", WORKING),
    ("step_summarizer", "router", OTHERWISE),
    ("context_compressor", "prompt", _back_to("prompt")),
    ("context_compressor", "vibe_planner", _back_to("vibe_planner")),
    ("context_compressor", "vibe_step_executor", _back_to("vibe_step_executor")),
    ("context_compressor", "vibe_result_analyzer", _back_to("vibe_result_analyzer")),
    ("context_compressor", "router", OTHERWISE),
)


@cache
def build_graph(transitions: Transitions = TRANSITIONS) -> Graph:
    """Return the graph, which all sessions share. Actions get external objects when they run."""
    builder = cast(GraphBuilder, cast(Any, GraphBuilder()).with_actions(**ACTIONS))
    return builder.with_transitions(*transitions).build()


class _SessionGraph(Graph):
    """The graph of one application. Burr asks for the next action six times per step; it is computed once."""

    def __init__(self, graph: Graph) -> None:
        vars(self).update(vars(graph))
        self._asked: State[Any] | None = None
        self._next: Action | None = None

    def get_next_node(self, prior_step: str | None, state: State[Any], entrypoint: str) -> Action | None:
        if state is not self._asked:
            # States are immutable, so the next action can be cached.
            self._next = super().get_next_node(prior_step, state, entrypoint)  # pyright: ignore[reportUnknownMemberType]
            self._asked = state
        return self._next


class _Built(GraphBuilder):
    """Passes a finished graph to Burr's application builder, which would otherwise build a new one from
    it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def build(self) -> Graph:
        return self._graph


async def build_application(
    graph: Graph, session_id: str, persister: AsyncBaseStatePersister, new_state: ApplicationState
) -> Application[Any]:
    """Return the application of a session: after its last step, or a new one with `new_state`."""
    builder: ApplicationBuilder[Any] = ApplicationBuilder()
    builder.graph_builder = _Built(_SessionGraph(graph))
    return await (
        builder.with_identifiers(app_id=session_id, partition_key="")
        .with_typing(ApplicationTyping())
        .initialize_from(  # pyright: ignore[reportUnknownMemberType]
            persister,
            resume_at_next_action=True,
            default_state=dict(new_state),
            default_entrypoint="prompt",
        )
        .with_state_persister(persister)
        .abuild()
    )


def mermaid() -> str:
    lines = ["stateDiagram-v2", "    [*] --> prompt"]
    lines += [f"    {start} --> {end}: {condition.name}" for start, end, condition in TRANSITIONS]
    return "\n".join(lines) + "\n"


def dot() -> str:
    """Return the graph in the language of Graphviz."""
    nodes = [f'    {name} [shape=box, style="rounded"];' for name in ACTIONS]
    edges = [f'    {start} -> {end} [label="{condition.name}"];' for start, end, condition in TRANSITIONS]
    return "\n".join(["digraph sandbur {", *nodes, *edges, "}"]) + "\n"


def next_action(position: str | None, state: ApplicationState) -> str:
    """Return the action that follows `position`, the name of the last action; None: no action ran yet."""
    return next(
        (end for start, end, rule in TRANSITIONS if start == position and rule.holds(state)), "prompt"
    )
