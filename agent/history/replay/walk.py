"""A walk: today's program runs each step from its recorded state, and the results are compared."""

import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field, replace
from pathlib import Path
from traceback import format_exception
from typing import Any, cast

from burr.core import Application, ApplicationBuilder, State
from burr.core.graph import Graph

from ....actions.masking.masker import TextMasker
from ....actions.ports import PORTS, Gate, Model, Ports, RequestSettings, Tool, Toolbox
from ....actions.ports import Masker as MaskerPort
from ....actions.tools.registry import builtin_tools, load_declared_traits, network_tools, with_reader
from ....actions.turn.output.format import OutputFormat, output_format
from ....actions.turn.plan.decision_tools import RESERVED_NAMES
from ....state.application import ApplicationState, PlanTerms
from ....state.calls import PendingCall
from ....state.conversation.messages import UserContent
from ....state.errors import SandburError, UsageError
from ....state.lazy_dataclass import dataclass
from ....state.process.temporaries import make_prefix
from ....state.session import EVERY_TOOL, SessionSettings
from ....state.store.store import Store
from ....state.trace import Conditions, RequestShape
from ...config.settings import Settings
from ...extensions.active_tools.selection import complete_groups, select_tools
from ...graph import ApplicationTyping, build_graph
from ...runtime.wiring import (
    Places,
    call_places,
    call_settings,
    connect_models,
    offers_of,
    output_of,
    policy_of,
    request_settings,
    tool_digest,
    turn_rules,
)
from ...session.secrets import masker_for
from .absent_tools import AbsentTool, RecordedGate
from .comparison import diff_lines, differences, loose_differences, request_divergence
from .recorded_journal import RecordedJournal
from .recorded_ports import (
    Divergence,
    DivergenceError,
    RecordedAdvice,
    RecordedCounter,
    RecordedInbox,
    RecordedModel,
    RecordedRouter,
    RecordedSubAgents,
    RecordedTool,
    RecordedWitness,
    Stage,
    make_recorded_check,
    make_recorded_validation,
)
from .replay_steps import Moment, Owner, Recording, Values, inputs_of, read_recording

_RULES = ("allow", "deny", "ask", "catastrophic", "cwd", "add_dirs", "tool_choice")


@dataclass(frozen=True, slots=True)
class Today:
    """The program that replays a recording. By default it is the current one."""

    toolbox: Toolbox = field(default_factory=builtin_tools)
    own: Toolbox = field(default_factory=dict[str, Tool])
    """The tools of the session's own agent. A missing tool is replaced by its recorded calls."""
    gate_of: Callable[[SessionSettings], Gate] = policy_of
    graph_of: Callable[[], Graph] = build_graph


@dataclass(frozen=True, slots=True)
class LiveTools:
    """The folder in which real tools work. It is deleted after the walk."""

    masker: MaskerPort
    folder: Path


@dataclass(frozen=True, slots=True)
class Live:
    """The parts of a walk that are real: the model, the tools, both or none. The others are recorded."""

    model: Model | None = None
    tools: LiveTools | None = None


def _tools_of(today: Today, settings: SessionSettings, conditions: Conditions, stage: Stage) -> Toolbox:
    """Return today's tools. Tools that not every session has are included if the recorded run had them."""
    shipped = {**today.toolbox, **network_tools(conditions.tools)} if settings.has_shipped_tools else {}
    own = _own_tools(today, settings, conditions, stage)
    choice = settings.tool_choice
    if choice == EVERY_TOOL:
        return with_reader(shipped | own, settings)

    whole = complete_groups(select_tools(shipped | own, choice).tools, settings)
    if not any(isinstance(tool, AbsentTool) and not tool.traits.is_of_flow for tool in own.values()):
        return whole
    # A tool that activates or finds other tools is missing if those tools are.
    lost = conditions.tools.keys() - whole.keys() - load_declared_traits().keys() - RESERVED_NAMES
    return whole | {name: AbsentTool(name, stage, conditions) for name in conditions.tools if name in lost}


def _own_tools(
    today: Today, settings: SessionSettings, conditions: Conditions, stage: Stage
) -> dict[str, Tool]:
    choice = settings.tool_choice
    of_flows = frozenset(conditions.flow_tools)
    own = {
        name: today.own.get(name) or AbsentTool(name, stage, conditions)
        for name in {**settings.own_tools, **dict.fromkeys(conditions.flow_tools)}
    }
    if choice.available_groups or 0 < choice.most_listed < len(own):
        # The first request does not show deferred tools, so all tools are kept.
        return own
    return {name: tool for name, tool in own.items() if name in conditions.tools or name in of_flows}


def _settings_of(settings: SessionSettings, conditions: Conditions) -> SessionSettings:
    """Return a session's settings with the values that a recorded run had."""
    return settings.model_copy(update={name: getattr(conditions, name) for name in _RULES})


def _requests_of(
    settings: SessionSettings,
    toolbox: Toolbox,
    then: Conditions,
    stage: Stage,
    output: OutputFormat | None,
    live: Live,
) -> RequestSettings:
    """Return the request settings of the session in a recorded run."""
    counter = RecordedCounter(stage) if then.counts_tokens else None
    masks = live.model is not None
    return request_settings(settings, toolbox, then.compress_at, output, counter, masks, then.compaction)


def _bind_ports(
    today: Today,
    live: Live,
    settings: SessionSettings,
    conditions: Conditions,
    stage: Stage,
    journal: RecordedJournal,
) -> tuple[Application[Any], Ports]:
    """Return today's graph with recorded ports, and the ports, under the conditions of a recorded run."""
    then, tools = _settings_of(settings, conditions), live.tools
    offered = _tools_of(today, then, conditions, stage)
    output = output_of(then)
    if output is not None and live.model is None:
        output = replace(output, check=make_recorded_check(stage))
    toolbox: Toolbox = {
        name: RecordedTool(tool, stage) if tools is None or not _can_run(tool) else tool
        for name, tool in offered.items()
    }
    places = tools and Places(tools.folder / "scratch", tools.folder / "cache", tools.folder)
    ports = Ports(
        session_id="",
        model=RecordedModel(stage, settings.model, conditions.context_window, live.model),
        requests=_requests_of(then, toolbox, conditions, stage, output, live),
        toolbox=toolbox,
        gate=RecordedGate(today.gate_of(then)),
        fingerprinter=RecordedWitness(stage),
        journal=journal,
        trace=stage,
        masker=TextMasker() if tools is None else tools.masker,
        places=call_places(then, places),
        calls=replace(call_settings(then), sub_agents=RecordedSubAgents(stage)),
        turn=turn_rules(then, output),
        hooks=RecordedAdvice(stage),
        inbox=RecordedInbox(stage),
        router=RecordedRouter(stage),
    )
    builder = cast(Any, ApplicationBuilder())
    if conditions.plan_digest:
        ports.inputs.plan_terms = PlanTerms(conditions.plan_digest, conditions.plan_rules)
    application = (
        builder.with_graph(today.graph_of())
        .with_entrypoint("prompt")
        .with_typing(ApplicationTyping())
        .with_state(**dict(ApplicationState()))
        .build()
    )
    return application, ports


def _can_run(tool: Tool) -> bool:
    """Return whether a walk can really run a tool: it is there, and starts no sub-agent."""
    return not isinstance(tool, AbsentTool) and not tool.traits.is_resumable


_BUGS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Exceptions of an action that does not fit the recorded state. They become a difference, not a crash."""
_MOST_FRAME_LINES = 8
_PRIOR_STEP = "__PRIOR_STEP"
"""Burr's own field for the name of the action that ran last."""


class Walk:
    """Runs steps in today's graph. The graph is built again only if the conditions of the run change."""

    def __init__(self, recording: Recording, today: Today, live: Live, ignores_tools: bool = False) -> None:
        """If `ignores_tools` is true, the declarations of tools may differ from the recorded ones."""
        self._ignores_tools = ignores_tools
        self._recording = recording
        self._today = today
        self._live = live
        self.not_run: set[str] = set()
        """The tools whose calls are taken as recorded, although tools are real."""
        self._tools: Mapping[str, str] = {}
        self._knows_all = True
        self._stage = Stage()
        self._bound: tuple[Owner, Conditions] | None = None
        self._journal: RecordedJournal | None = None
        self._application: Application[Any] | None = None
        self._ports: Ports | None = None

    @property
    def asked(self) -> RequestShape | None:
        """The shape of the request that today's program sent in the last step; None if it sent none."""
        return self._stage.asked

    @property
    def knows_all_tools(self) -> bool:
        """Whether every tool of the last step is here. Otherwise its request lacks their declarations."""
        return self._knows_all

    async def step(self, moment: Moment) -> Divergence | None:
        """Run one step; return the first difference, or None."""
        application = self._bind(moment)
        if gone := {moment.action, moment.came_from or moment.action} - _actions(application):
            summary = f"Today's graph has no action {', '.join(sorted(gone))}."
            return Divergence(moment.seq, moment.action, "route", summary)
        self._enter(application, moment)
        self._note_not_run(moment)
        if moment.acts:
            if wrong := _route(moment, _get_next_action(application), comes_after=False):
                return wrong
            asks = self._live.model is not None and moment.called is not None
            if failed := await _find_failure(
                application, {PORTS: self._ports, **inputs_of(moment)}, moment, asks
            ):
                return failed
        return self._compare(application, moment)

    def _compare(self, application: Application[Any], moment: Moment) -> Divergence | None:
        today = cast(Values, dict(application.state.data))
        if self._is_live(moment):
            found = loose_differences(moment.before, moment.after, today)
        else:
            found = differences(moment.after, today, self._recording.logs)
        if self._ignores_tools or not self._knows_all:
            # The number of bytes per token was computed from the whole request, which differs.
            found = [one for one in found if one.path != "tokens_per_byte"]
        lines = diff_lines(found)
        if moment.acts and self._live.model is None:
            wrong = request_divergence(moment, self._compare_request(moment), self._tools, lines)
            if wrong is not None:
                return wrong
        if found:
            names = ", ".join(dict.fromkeys(one.path.partition("[")[0] for one in found))
            summary = f"The state after the step differs in: {names}."
            return Divergence(moment.seq, moment.action, "state", summary, lines)
        return _route(moment, _get_next_action(application), comes_after=True)

    def _note_not_run(self, moment: Moment) -> None:
        if self._live.tools is None or self._ports is None:
            return
        toolbox = self._ports.toolbox
        self.not_run |= {
            call.tool
            for call in moment.before["pending_tool_calls"]
            if call.call_id in moment.started and isinstance(toolbox.get(call.tool), RecordedTool)
        }

    def _compare_request(self, moment: Moment) -> RequestShape | None:
        asked, recorded = self._stage.asked, moment.called and moment.called.request
        if asked is None or recorded is None or (self._knows_all and not self._ignores_tools):
            return asked
        return asked.model_copy(update={"fixed_sha256": recorded.fixed_sha256})

    def _is_live(self, moment: Moment) -> bool:
        asks, runs = self._live.model is not None, self._live.tools is not None
        return moment.acts and ((asks and moment.called is not None) or (runs and bool(moment.started)))

    def _bind(self, moment: Moment) -> Application[Any]:
        began = moment.began
        assert began is not None
        assert began.conditions is not None
        bound = moment.owner, began.conditions
        if self._application is None or self._journal is None or self._bound != bound:
            if self._bound is None or self._bound[0] is not moment.owner or self._journal is None:
                self._journal = RecordedJournal(moment.owner, self._stage)
            self._application, self._ports = _bind_ports(
                self._today, self._live, moment.owner.settings, began.conditions, self._stage, self._journal
            )
            then = _settings_of(moment.owner.settings, began.conditions)
            tools = _tools_of(self._today, then, began.conditions, self._stage)
            absent = {
                name
                for name, tool in tools.items()
                if isinstance(tool, AbsentTool) and not tool.traits.is_of_flow
            }
            recorded_tools = began.conditions.tools
            self._tools = {
                spec.name: recorded_tools[spec.name] if spec.name in absent else tool_digest(spec)
                for spec in offers_of(tools, then, output_of(then))[0].specs
                if spec.name in recorded_tools or spec.name not in absent
            }
            # The digest covers the declarations of all tools, so it cannot be computed without them.
            self._knows_all = not absent
            self._bound = bound
        return self._application

    def _enter(self, application: Application[Any], moment: Moment) -> None:
        """Set the graph to the recorded position before a step."""
        self._stage.enter(moment)
        if self._ports is not None:
            self._ports.inputs.validate = make_recorded_validation(moment)
            form = moment.before["run_options"].output
            if form is not None and self._live.model is None:
                check = make_recorded_check(self._stage)
                self._ports.inputs.output = replace(output_format(form), check=check)
        state = cast(Any, application.state).update(**{**moment.before, _PRIOR_STEP: moment.came_from})
        if moment.came_from is None:
            state = state.wipe(delete=[_PRIOR_STEP])
        application.update_state(cast(State[Any], state))


async def _find_failure(
    application: Application[Any], inputs: Mapping[str, Any], moment: Moment, asks_real_model: bool
) -> Divergence | None:
    """Run the action of a step; return its error as a difference, or None. Raises the errors of a real
    model."""
    ask = {"halt_after": [moment.action], "inputs": dict(inputs)}
    try:
        _, step = await cast(Any, application).astream_result(**ask)
        await step.get()
    except DivergenceError as error:
        return Divergence(moment.seq, moment.action, error.kind, _sentence(error.message))
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


def _get_next_action(application: Application[Any]) -> str:
    action = application.get_next_action()
    return action.name if action is not None else "prompt"


def _route(moment: Moment, today: str, comes_after: bool) -> Divergence | None:
    """Compare the next action of today's graph with the recorded one; return the difference or None."""
    recorded = moment.goes_to if comes_after else moment.action
    if recorded is None or today == recorded:
        return None
    place = "after it" if comes_after else "in its place"
    summary = f"Today's graph goes to {today} {place}; the recorded run went to {recorded}."
    lines = ("  next action:", f"- {recorded}", f"+ {today}")
    return Divergence(moment.seq, moment.action, "route", summary, lines)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


@asynccontextmanager
async def live_parts(
    parts: frozenset[str], settings: Settings, session: SessionSettings, env: Mapping[str, str]
) -> AsyncGenerator[Live]:
    """Connect to the real `model`, `tools` or both; raises `UsageError` or `CredentialsError`."""
    with tempfile.TemporaryDirectory(prefix=make_prefix("live")) as folder:
        model = connect_models(settings, session, env) if "model" in parts else None
        tools = _tools(session, env, Path(folder)) if "tools" in parts else None
        try:
            yield Live(model, tools)
        finally:
            if model is not None:
                await model.aclose()


def _tools(session: SessionSettings, env: Mapping[str, str], folder: Path) -> LiveTools:
    cwd = Path(session.cwd)
    if not cwd.is_dir():
        raise UsageError(f"The folder of this session, {cwd}, is gone, so no tool can run in it.")
    return LiveTools(masker_for(env, cwd), folder)


def list_started_calls(store: Store, session_id: str, from_seq: int | None) -> list[tuple[int, PendingCall]]:
    """Return the calls that a walk with real tools runs, each with the number of its step."""
    first = -1 if from_seq is None else from_seq
    return [
        (moment.seq, call)
        for moment in read_recording(store, session_id).moments()
        if moment.seq > first and moment.run is not None
        for call in moment.before["pending_tool_calls"]
        if call.call_id in moment.started
    ]


def next_message(store: Store, session_id: str, seq: int) -> UserContent | None:
    """Return the person's message in the step after `seq`, or None if no turn begins in that step."""
    for moment in read_recording(store, session_id).moments():
        if moment.seq == seq + 1 and moment.action == "prompt":
            return inputs_of(moment)["user_input"]
    return None
