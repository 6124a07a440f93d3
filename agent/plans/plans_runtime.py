"""Brings the tools `propose_plan` and `plan` into sessions whose model may make plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...actions.ports import Tool, ToolSource
from ...state.session import SessionSettings
from ..runtime.agent_definition import Definition
from ..runtime.extension_runtime import ExtensionRuntime
from .plan_tool import PlanTool
from .propose_plan import PlanSource, ProposePlan


class PlansRuntime(ExtensionRuntime):
    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        # The setting of a person concerns the agent of the command; an agent of a program decides for itself.
        has_plans = definition.has_builtin_tools or definition.overrides.get("plan_proposals", False)
        if not session.has_planning or session.spawned_by is not None or not has_plans:
            return ()
        return (PlanSource(*self._make_tools(session)),)

    def _make_tools(self, session: SessionSettings) -> Iterator[Tool]:
        if self.process.settings.of("plan_proposals"):
            yield ProposePlan(Path(session.cwd), list(map(Path, session.add_dirs)))
        if self.process.settings.of("plan_notebook"):
            yield PlanTool()
