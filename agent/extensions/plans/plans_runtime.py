"""Brings the tool `propose_plan` into sessions whose model may make plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....actions.ports import Tool, ToolSource
from ....state.session import SessionSettings
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime
from .permissions import Permissions
from .propose_plan import ProposePlan


class PlansRuntime(ExtensionRuntime):
    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        if not session.has_planning or session.spawned_by is not None or not definition.has_builtin_tools:
            return ()
        folders = tuple(Path(folder) for folder in session.add_dirs)
        return (PlanSource(Permissions(Path(session.cwd), folders)),)


class PlanSource:
    """Implements `actions.ports.ToolSource`: the one tool."""

    name = "plans"

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions

    async def tools(self) -> Sequence[Tool]:
        return (ProposePlan(self._permissions),)

    def notices(self) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        """Do nothing: the tool holds nothing open."""
