"""Brings the tools `propose_plan` and `plan` into sessions whose model may make plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ....actions.ports import Tool, ToolSource
from ....state.session import SessionSettings
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime, PromptSection
from . import plan_tool, propose_plan
from .plan_text import FORM

_PLAN_MODE = f"""\
# Plan mode
The session begins in plan mode: calls only look, until the user approves a plan or changes the mode. If \
something is to be changed or run, look first, and then propose a plan with {propose_plan.NAME}. Its form \
(leave out keys that you do not need):
{FORM}"""


class PlansRuntime(ExtensionRuntime):
    async def extend_prompt(self, cwd: Path, definition: Definition) -> PromptSection:
        """Choose the tools of a new session, which keeps them whatever the settings are later."""
        if not definition.has_planning:
            return PromptSection()
        settings = self.process.settings
        # The settings of a person concern the agent of the command; an agent of a program decides for itself.
        is_asked_for = definition.has_builtin_tools or definition.overrides.get("plan_proposals", False)
        proposes = is_asked_for and settings.of("plan_proposals")
        notes = is_asked_for and settings.of("plan_notebook")
        names = (propose_plan.NAME,) * proposes + (plan_tool.NAME,) * notes
        text = _PLAN_MODE if proposes and settings.mode == "plan" else ""
        return PromptSection(text.strip(), {"plan_tools": names})

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        if session.spawned_by is not None or not session.plan_tools:
            return ()
        return (propose_plan.PlanSource(*_make_tools(session)),)


def _make_tools(session: SessionSettings) -> Iterator[Tool]:
    if propose_plan.NAME in session.plan_tools:
        yield propose_plan.ProposePlan(Path(session.cwd), list(map(Path, session.add_dirs)))
    if plan_tool.NAME in session.plan_tools:
        yield plan_tool.PlanTool()
