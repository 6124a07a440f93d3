"""The tool `propose_plan`: the model hands in a plan, and a person approves it with what it may do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from pydantic import Field

from ....actions.ports import BadArguments, Tool, ToolContext, ToolOutcome, ToolTraits
from ....actions.tools.builtin import BuiltinTool
from ....actions.tools.schema import PlainText, ToolArguments
from ....state.conversation.approved_plan import ApprovedPlan
from ...extensions.extension import load
from .plan_text import Compilers, UnreadablePlan, parse_plan

NAME = "propose_plan"
# Every request of a session has these texts. The whole form is in the prompt of sessions in plan mode.
_DESCRIPTION = """\
Propose a plan to the user: alone, in plan mode or when the user wants to approve a plan first. Once it is \
approved, its steps begin, and calls that it names run without a question. To revise it, propose it again."""
_FORM = """\
Markdown: `# GOAL`, then each step as `## STEP`, with `- expects: RESULT` and lines of what it may do: \
`- writes: src/`, `- runs: pytest -q`, `- hosts: `, `- tools: `, `- agents: `"""


class ProposePlanArguments(ToolArguments):
    plan: PlainText = Field(description=_FORM)


class ProposePlan(BuiltinTool[ProposePlanArguments]):
    traits = ToolTraits(subject="plan", asks="always", begins_plan=True)

    def __init__(self, cwd: Path, add_dirs: Sequence[Path] = ()) -> None:
        """`cwd` and `add_dirs` are the workspace, outside of which a plan allows nothing."""
        super().__init__(NAME, _DESCRIPTION, ProposePlanArguments)
        self._workspace = cwd, add_dirs

    @cached_property
    def _compilers(self) -> Compilers:
        # It needs the rules of the gate, which a session without a plan may not need.
        found: Compilers = load(".agent.review.plans.permissions:Permissions")(*self._workspace).by_key
        return found

    def parse(self, arguments: str) -> ProposePlanArguments:
        parsed = super().parse(arguments)
        try:
            self._read(parsed)
        except UnreadablePlan as problem:
            raise BadArguments(str(problem)) from None
        return parsed

    def paths(self, arguments: ProposePlanArguments) -> Sequence[str]:
        return ()

    def describe_changes(self, arguments: ProposePlanArguments, earlier: ApprovedPlan) -> str:
        describe: Callable[[ApprovedPlan, str], str] = load(
            ".agent.review.plans.plan_difference:describe_difference"
        )
        return describe(earlier, arguments.plan)

    async def run(self, arguments: ProposePlanArguments, context: ToolContext) -> ToolOutcome:
        plan = self._read(arguments)
        text = (
            f"The user approved the plan {plan.digest[:12]}. Its steps begin now: {len(plan.steps)}."
            " Calls that it names run without a question; any other call asks the user."
        )
        return ToolOutcome("ok", text, plan=plan)

    def _read(self, arguments: ProposePlanArguments) -> ApprovedPlan:
        return parse_plan(arguments.plan, self._compilers)


class PlanSource:
    """A tool source with the tools of plans. Implements `actions.ports.ToolSource`."""

    name = "plans"

    def __init__(self, *tools: Tool) -> None:
        self._tools = tools

    async def tools(self) -> Sequence[Tool]:
        return self._tools

    def notices(self) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        """Do nothing: the tools hold nothing open."""
