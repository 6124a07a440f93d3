"""One walk: every step is run by today's program, from the recorded state, and compared with the record."""

from traceback import format_exception
from typing import Any, cast

from burr.core import Application, State

from agent.conditions import tool_digest
from agent.replay.comparison import differences
from agent.replay.departure import Departed, Divergence
from agent.replay.inputs import inputs_of
from agent.replay.journal import RecordedJournal
from agent.replay.lines import diff_lines
from agent.replay.loose import loose_differences
from agent.replay.ports import Stage
from agent.replay.recording import Moment, Owner, Recording
from agent.replay.requests import request_divergence
from agent.replay.states import Values
from agent.replay.today import Live, Today, application_of
from state.errors import SandburError
from state.trace import Conditions, RequestShape

_BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What an action raises that does not fit the recorded state: it says more as the end of a walk."""
_MOST_FRAME_LINES = 8
_PRIOR_STEP = "__PRIOR_STEP"
"""Burr's own field: the action that ran last."""


class Walk:
    """Holds today's graph for as long as the conditions of the recorded run stay the same."""

    def __init__(self, recording: Recording, today: Today, live: Live, ignores_tools: bool = False) -> None:
        """`ignores_tools`: what the model is told about tools today may be other than it was."""
        self._ignores_tools = ignores_tools
        self._recording = recording
        self._today = today
        self._live = live
        self._tools = {spec.name: tool_digest(spec) for spec in today.specs}
        self._stage = Stage()
        self._bound: tuple[Owner, Conditions] | None = None
        self._journal: RecordedJournal | None = None
        self._application: Application[Any] | None = None

    async def step(self, moment: Moment) -> Divergence | None:
        """Run one step; return the first thing that differs."""
        application = self._bind(moment)
        if gone := {moment.action, moment.came_from or moment.action} - _actions(application):
            summary = f"Today's graph has no action {', '.join(sorted(gone))}."
            return Divergence(moment.seq, moment.action, "route", summary)
        self._enter(application, moment)
        if moment.acts:
            if wrong := _route(moment, _next(application), is_behind=False):
                return wrong
            asks = self._live.model is not None and moment.called is not None
            if failed := await _failure(application, moment, asks):
                return failed
        return self._compared(application, moment)

    def _compared(self, application: Application[Any], moment: Moment) -> Divergence | None:
        today = cast(Values, dict(application.state.data))
        if self._is_live(moment):
            found = loose_differences(moment.before, moment.after, today)
        else:
            found = differences(moment.after, today, self._recording.logs)
        if self._ignores_tools:
            # How many bytes a token has is learned from the whole request.
            found = [one for one in found if one.path != "tokens_per_byte"]
        lines = diff_lines(found)
        if moment.acts and self._live.model is None:
            wrong = request_divergence(moment, self._asked(moment), self._tools, lines)
            if wrong is not None:
                return wrong
        if found:
            names = ", ".join(dict.fromkeys(one.path.partition("[")[0] for one in found))
            summary = f"The state behind the step differs in: {names}."
            return Divergence(moment.seq, moment.action, "state", summary, lines)
        return _route(moment, _next(application), is_behind=True)

    def _asked(self, moment: Moment) -> RequestShape | None:
        asked, recorded = self._stage.asked, moment.called and moment.called.request
        if not self._ignores_tools or asked is None or recorded is None:
            return asked
        return asked.model_copy(update={"fixed_sha256": recorded.fixed_sha256})

    def _is_live(self, moment: Moment) -> bool:
        asks, runs = self._live.model is not None, self._live.tools is not None
        return moment.acts and ((asks and moment.called is not None) or (runs and bool(moment.started)))

    def _bind(self, moment: Moment) -> Application[Any]:
        """Return the application for the run of a step."""
        began = moment.began
        assert began is not None
        assert began.conditions is not None
        bound = moment.owner, began.conditions
        if self._application is None or self._journal is None or self._bound != bound:
            if self._bound is None or self._bound[0] is not moment.owner or self._journal is None:
                self._journal = RecordedJournal(moment.owner)
            self._application = application_of(
                self._today, self._live, moment.owner.settings, began.conditions, self._stage, self._journal
            )
            self._bound = bound
        self._journal.enter(moment)
        return self._application

    def _enter(self, application: Application[Any], moment: Moment) -> None:
        """Stand where the recorded run stood."""
        self._stage.enter(moment)
        state = cast(Any, application.state).update(**{**moment.before, _PRIOR_STEP: moment.came_from})
        if moment.came_from is None:
            state = state.wipe(delete=[_PRIOR_STEP])
        application.update_state(cast(State[Any], state))


async def _failure(application: Application[Any], moment: Moment, asks_real_model: bool) -> Divergence | None:
    """Run the action of a step; return how it failed. What a real model fails at is raised."""
    ask = {"halt_after": [moment.action], "inputs": inputs_of(moment)}
    try:
        _, items = await cast(Any, application).astream_result(**ask)
        async for _ in items:
            pass
    except Departed as departed:
        return Divergence(moment.seq, moment.action, departed.kind, _sentence(departed.message))
    except SandburError as error:
        if asks_real_model:
            raise
        return Divergence(moment.seq, moment.action, "state", f"The action fails today: {error.message}")
    except _BUGS as bug:
        summary = f"The action fails today: {type(bug).__name__}: {bug}"
        lines = "".join(format_exception(bug)).splitlines()[-_MOST_FRAME_LINES:]
        return Divergence(moment.seq, moment.action, "state", summary, tuple(lines))
    return None


def _actions(application: Application[Any]) -> set[str]:
    return {action.name for action in application.graph.actions}


def _next(application: Application[Any]) -> str:
    action = application.get_next_action()
    return action.name if action is not None else "prompt"


def _route(moment: Moment, today: str, is_behind: bool) -> Divergence | None:
    """Compare where today's graph goes with the record, behind the step or in its place."""
    recorded = moment.goes_to if is_behind else moment.action
    if recorded is None or today == recorded:
        return None
    place = "behind it" if is_behind else "in its place"
    summary = f"Today's graph goes to {today} {place}; the recorded run went to {recorded}."
    lines = ("  next action:", f"- {recorded}", f"+ {today}")
    return Divergence(moment.seq, moment.action, "route", summary, lines)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
