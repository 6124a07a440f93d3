"""Proves that no path of the graph reaches an effect without an approval or a rule.

The state that conditions read is abstracted to a few thousand states. The search begins at the first action.
In every reachable state it tries every action, with every value that the action may write. So it covers all
reachable states. The kinds of calls come from the real gate step and the real `human_confirm`.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple, cast, get_args

from burr.core.graph import Graph

from ...actions.human_confirm import human_confirm
from ...actions.turn.burr_action import traits_of
from ...state.application import ApplicationState, Phase, VibeStep
from ...state.calls import PendingCall
from ...state.errors import SandburError
from ...state.lazy_dataclass import dataclass
from ..graph import TransitionCondition
from .past.gate_outcomes import CallKind, find_gate_outcomes, find_person_outcomes

_KINDS: tuple[CallKind, ...] = get_args(CallKind)
_STEP = "1"


class _Abstract(NamedTuple):
    """The part of the state that the conditions of the graph read."""

    calls: frozenset[CallKind] = frozenset()
    phase: str = "idle"
    turn_open: bool = False
    overflow_from: str | None = None
    return_to: str | None = None
    step: str = "none"
    """The active plan step: `none`, `open`, `closed`, or `gone` if its id is not in the plan."""


_FIELDS: Mapping[str, tuple[str, ...]] = {
    "calls": ("pending_tool_calls",),
    "phase": ("phase",),
    "turn_open": ("turn_open",),
    "overflow_from": ("overflow_from",),
    "return_to": ("return_to",),
    "step": ("vibe_plan", "active_step_id"),
}
"""The name of a part of the abstract state -> the fields that it represents."""
_LOOKED_AT = frozenset(name for names in _FIELDS.values() for name in names)
_OVERLOOKED_OF_STATE = ApplicationState.model_fields.keys() - _LOOKED_AT
_OVERLOOKED_OF_CALL = PendingCall.model_fields.keys() - {"decision"}
_OVERLOOKED_OF_STEP = VibeStep.model_fields.keys() - {"step_id", "status"}


class UnprovableGraph(SandburError):
    """A condition of the graph reads a part of the state that this proof does not model."""

    code = "unprovable"


class _Unforeseen(Exception):
    """A condition reads a field that the abstract state lacks."""


class _WatchedState(ApplicationState):
    def __getattribute__(self, name: str) -> Any:
        _watch(name, "state", _OVERLOOKED_OF_STATE)
        return super().__getattribute__(name)


class _WatchedCall(PendingCall):
    def __getattribute__(self, name: str) -> Any:
        _watch(name, "call", _OVERLOOKED_OF_CALL)
        return super().__getattribute__(name)


class _WatchedStep(VibeStep):
    def __getattribute__(self, name: str) -> Any:
        _watch(name, "step", _OVERLOOKED_OF_STEP)
        return super().__getattribute__(name)


def _watch(name: str, whose: str, overlooked: Set[str]) -> None:
    if name in overlooked:
        raise _Unforeseen(f"`{name}` of a {whose}")


_DECISIONS: Mapping[CallKind, str] = {
    "undecided": "undecided",
    "granted": "approved",
    "ungranted": "approved",
    "refused": "denied",
}


_ANY = _WatchedState()
_CALLS = {
    kind: _WatchedCall.model_construct(decision=cast(Any, decision)) for kind, decision in _DECISIONS.items()
}
_STEPS = {
    "open": (_WatchedStep(step_id=_STEP, description="", status="in_progress"),),
    "closed": (_WatchedStep(step_id=_STEP, description="", status="completed"),),
}


@cache
def _real(state: _Abstract) -> ApplicationState:
    """Return an application state with the values of an abstract state, to evaluate conditions with."""
    return _ANY.model_copy(
        update={
            "pending_tool_calls": tuple(_CALLS[kind] for kind in state.calls),
            "phase": state.phase,
            "turn_open": state.turn_open,
            "overflow_from": state.overflow_from,
            "return_to": state.return_to,
            "vibe_plan": _STEPS.get(state.step, ()),
            "active_step_id": None if state.step == "none" else _STEP,
        }
    )


class _Point(NamedTuple):
    """An action that is about to run in a state."""

    action: str
    state: _Abstract


@dataclass(frozen=True, slots=True)
class Proof:
    actions: int
    transitions: int
    states: int
    """The number of reachable abstract states."""
    points: int
    """The number of pairs of an action and a state in which it can begin."""
    steps: int
    """The number of checked transitions from one such pair to another."""
    problem: str = ""
    """The forbidden state that can be reached; empty if the proof holds."""
    path: tuple[str, ...] = ()
    """The shortest path to the forbidden state, one line per action."""

    @property
    def holds(self) -> bool:
        return not self.problem


async def prove(graph: Graph) -> Proof:
    """Check every path of the graph; raises `UnprovableGraph`."""
    return _Explorer(graph, find_gate_outcomes(), await find_person_outcomes()).proof()


class _Explorer:
    def __init__(
        self, graph: Graph, gated: frozenset[CallKind], confirmed: Mapping[CallKind, frozenset[CallKind]]
    ) -> None:
        self._gated = gated
        self._confirmed = confirmed
        self._writes = {action.name: frozenset(action.writes) for action in graph.actions}
        traits = {action.name: traits_of(action) for action in graph.actions}
        (self._start,) = (name for name, one in traits.items() if one.waits_for == "message")
        self._runs_calls = {name for name, one in traits.items() if one.runs_calls}
        self._judges = self._runs_calls | {name for name, one in traits.items() if one.proposes_calls}
        """The actions that send calls through the gate."""
        self._clears = self._runs_calls | {self._start}
        self._ways: dict[str, list[tuple[str, TransitionCondition]]] = {name: [] for name in self._writes}
        for one in graph.transitions:
            self._ways[one.from_.name].append((one.to.name, cast(TransitionCondition, one.condition)))
        callers = [name for name, written in self._writes.items() if "overflow_from" in written]
        self._places = (None, *sorted(callers))
        self._domains = {
            "phase": get_args(Phase),
            "turn_open": (False, True),
            "overflow_from": self._places,
            "return_to": self._places,
            "step": ("none", "open", "closed", "gone"),
        }
        self._next: dict[_Point, tuple[str, str]] = {}
        self._came_from: dict[_Point, tuple[_Point, str] | None] = {}
        self._steps = 0

    def proof(self) -> Proof:
        start = _Point(self._start, _Abstract())
        self._came_from[start] = None
        waiting = deque([start])
        done: set[tuple[str, _Abstract]] = set()
        problem = ""
        while waiting and not problem:
            point = waiting.popleft()
            kept = (point.action, self._keep_read_parts(point))
            if kept in done:
                continue
            done.add(kept)
            for following, why in self._following(point):
                self._steps += 1
                if following in self._came_from:
                    continue
                self._came_from[following] = (point, why)
                waiting.append(following)
                if following.action in self._runs_calls and (problem := _problem(following)):
                    return self._result(problem, following)
        return self._result("", start)

    def _result(self, problem: str, last: _Point) -> Proof:
        return Proof(
            actions=len(self._writes),
            transitions=sum(map(len, self._ways.values())),
            states=len({point.state for point in self._came_from}),
            points=len(self._came_from),
            steps=self._steps,
            problem=problem,
            path=tuple(self._path(last)) if problem else (),
        )

    def _keep_read_parts(self, point: _Point) -> _Abstract:
        """Return the state without the parts that the action overwrites without reading them."""
        free = {
            part: self._domains[part][0] for part in self._domains if self._is_written(part, point.action)
        }
        return point.state._replace(**free)

    def _is_written(self, part: str, action: str) -> bool:
        return not self._writes[action].isdisjoint(_FIELDS[part])

    def _following(self, point: _Point) -> Iterator[tuple[_Point, str]]:
        """Yield each point that can follow, with the reason. A pause or a message may come between."""
        for state in self._results(point):
            after = _Point(point.action, state)
            if after not in self._next:
                self._next[after] = self._choose_transition(after)
            action, why = self._next[after]
            yield _Point(action, state), why
            yield _Point(self._start, state), "a new message"

    def _results(self, point: _Point) -> Iterator[_Abstract]:
        """Yield every state that the action may produce."""
        action, state = point
        values = (
            self._domains[part] if self._is_written(part, action) else (getattr(state, part),)
            for part in self._domains
        )
        yield from map(_Abstract._make, product(self._calls_after(action, state.calls), *values))

    def _calls_after(self, action: str, calls: frozenset[CallKind]) -> list[frozenset[CallKind]]:
        """Return the possible sets of waiting calls after an action, the simple ones first.

        A resumed session judges its waiting calls again.
        """
        left = {calls}
        if self._is_written("calls", action):
            left = self._possible_calls(action, calls)
        judged = _subsets(self._gated)
        left |= {some | kept for kept in left if kept for some in judged if some}
        return sorted(left, key=lambda kinds: (len(kinds), sorted(kinds)))

    def _possible_calls(self, action: str, calls: frozenset[CallKind]) -> set[frozenset[CallKind]]:
        if action == human_confirm.__name__:
            fates = [_subsets(self._confirmed[kind]) - {frozenset()} for kind in calls]
            return {frozenset[CallKind]().union(*chosen) for chosen in product(*fates)}
        if action not in self._judges | self._clears:
            return set(_subsets(_KINDS))
        cleared = {frozenset[CallKind](), calls} if action in self._clears else {calls}
        return cleared | (_subsets(self._gated) if action in self._judges else set())

    def _choose_transition(self, after: _Point) -> tuple[str, str]:
        """Return the next action and the name of the condition that selects it."""
        real = _real(after.state)
        for to, condition in self._ways[after.action]:
            try:
                if condition.holds(real):
                    return to, condition.name
            except _Unforeseen as found:
                raise UnprovableGraph(
                    f"The transition {after.action} -> {to} ({condition.name}) depends on {found},"
                    " which the proof does not model."
                ) from None
        return self._start, "no transition"

    def _path(self, last: _Point) -> list[str]:
        lines: list[str] = []
        point: _Point | None = last
        while point is not None:
            came = self._came_from[point]
            why = f"  ({came[1]})" if came is not None else ""
            lines.append(f"{point.action}{why}{_format_state(point.state)}")
            point = came[0] if came is not None else None
        return lines[::-1]


def _problem(point: _Point) -> str:
    """Return why an action must not run calls in this state; an empty text if it may."""
    if "undecided" in point.state.calls:
        return f"{point.action} begins while a call waits for a decision"
    if "ungranted" in point.state.calls:
        return f"{point.action} runs a call that neither a rule, nor the mode, nor a person allowed"
    return ""


def _format_state(state: _Abstract) -> str:
    return f"  calls: {', '.join(sorted(state.calls))}" if state.calls else ""


def _subsets(kinds: Iterable[CallKind]) -> set[frozenset[CallKind]]:
    found = sorted(kinds)
    return {frozenset(some) for count in range(len(found) + 1) for some in combinations(found, count)}
