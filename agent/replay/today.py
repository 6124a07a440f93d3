"""Today's program, and how a recorded run is bound to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from burr.core import Application, ApplicationBuilder

from actions.decisions import DECISION_TOOLS
from actions.masking.masker import Masker
from actions.model_port import Model, ToolSpec
from actions.ports import Gate, Ports, Toolbox
from actions.ports import Masker as MaskerPort
from actions.tools import builtin_tools
from agent.graph import build_graph
from agent.replay.journal import RecordedJournal
from agent.replay.ports import RecordedModel, RecordedTool, Stage
from agent.typing_system import ApplicationTyping
from agent.wiring import fixed_part, policy_of, sha256_of
from state.application import ApplicationState
from state.session import SessionSettings
from state.trace import Conditions

if TYPE_CHECKING:
    from burr.core.graph import Graph


@dataclass(frozen=True, slots=True)
class Today:
    """What a recording is walked through; by default the program as it is."""

    toolbox: Toolbox = field(default_factory=builtin_tools)
    gate_of: Callable[[SessionSettings], Gate] = policy_of
    graph_of: "Callable[[Ports], Graph]" = build_graph

    @property
    def specs(self) -> Sequence[ToolSpec]:
        return (*(tool.spec for tool in self.toolbox.values()), *DECISION_TOOLS)


@dataclass(frozen=True, slots=True)
class LiveTools:
    """Where real tools work; what they leave goes with the folder."""

    masker: MaskerPort
    folder: Path


@dataclass(frozen=True, slots=True)
class Live:
    """What of a walk is real; the rest is as recorded."""

    model: Model | None = None
    tools: LiveTools | None = None


def application_of(
    today: Today,
    live: Live,
    settings: SessionSettings,
    conditions: Conditions,
    stage: Stage,
    journal: RecordedJournal,
) -> Application[Any]:
    """Build the graph on recorded ports, under the conditions of a recorded run."""
    ports = _ports(today, live, settings, conditions, stage, journal)
    builder = cast(Any, ApplicationBuilder())
    return (
        builder.with_graph(today.graph_of(ports))
        .with_entrypoint("prompt")
        .with_typing(ApplicationTyping())
        .with_state(**dict(ApplicationState()))
        .build()
    )


def _ports(
    today: Today,
    live: Live,
    settings: SessionSettings,
    conditions: Conditions,
    stage: Stage,
    journal: RecordedJournal,
) -> Ports:
    rules = {name: getattr(conditions, name) for name in ("allow", "deny", "cwd", "add_dirs")}
    specs = tuple(today.specs)
    fixed = fixed_part(settings.system_prompt, specs)
    cwd = Path(conditions.cwd)
    tools = live.tools
    toolbox: Toolbox = {name: RecordedTool(tool, stage) for name, tool in today.toolbox.items()}
    return Ports(
        model=RecordedModel(stage, settings.model, conditions.context_window, live.model),
        system=settings.system_prompt,
        toolbox=toolbox if tools is None else today.toolbox,
        tool_specs=specs,
        gate=today.gate_of(settings.model_copy(update=rules)),
        journal=journal,
        trace=stage,
        masker=Masker() if tools is None else tools.masker,
        cwd=cwd,
        roots=(cwd, *map(Path, conditions.add_dirs)),
        scratch=None if tools is None else tools.folder / "scratch",
        cache=None if tools is None else tools.folder / "cache",
        private=() if tools is None else (tools.folder,),
        fixed_bytes=len(fixed),
        fixed_sha256=sha256_of(fixed),
        compress_at=conditions.compress_at,
    )
