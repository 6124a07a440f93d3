"""Replaces the tools of a recorded run that this program lacks, by their recorded calls and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ....actions.ports import (
    BadArguments,
    Gate,
    Tool,
    ToolContext,
    ToolOutcome,
    ToolSpec,
    ToolTraits,
    Verdict,
)
from ....state.application import ExecutionMode, PlanTerms
from ....state.calls import Effect, PendingCall
from ....state.trace import Conditions
from .recorded_ports import Stage


class AbsentTool:
    """Replaces a missing tool of an agent, a server or a project. Its calls return their recorded results."""

    effect: Effect = "effect"

    def __init__(self, name: str, stage: Stage, conditions: Conditions) -> None:
        """`conditions` are those of the recorded run."""
        self._traits = ToolTraits(
            ephemeral=conditions.ephemeral.get(name, 0),
            is_of_flow=name in conditions.flow_tools,
            changes_plan=name == conditions.notebook,
        )
        self.spec = ToolSpec(name, "", {})
        self._stage = stage

    @property
    def traits(self) -> ToolTraits:
        """Return the recorded traits, and whether calls of this step ran at the same time."""
        return replace(self._traits, runs_concurrently=True) if self._stage.ran_concurrently else self._traits

    def parse(self, arguments: str) -> AbsentCall:
        call = self._find_recorded_call(arguments)
        if call is not None and call.decision == "invalid":
            raise BadArguments(call.reason)
        return AbsentCall(arguments, call)

    def effect_of(self, arguments: AbsentCall) -> Effect:
        return self.effect if arguments.recorded is None else arguments.recorded.effect

    def subject(self, arguments: AbsentCall) -> str:
        return arguments.text

    def paths(self, arguments: AbsentCall) -> Sequence[str]:
        return ()

    async def run(self, arguments: AbsentCall, context: ToolContext) -> ToolOutcome:
        raise AssertionError("a missing tool was called, which has no code to run")

    def _find_recorded_call(self, arguments: str) -> PendingCall | None:
        """Return the call in the form that this step, or the newest step before, recorded."""
        for values in (self._stage.moment.after, self._stage.moment.before):
            calls: Sequence[PendingCall] = values["pending_tool_calls"]
            for call in calls:
                if call.tool == self.spec.name and call.arguments == arguments:
                    return call
        return None


class AbsentCall(NamedTuple):
    text: str
    recorded: PendingCall | None


_VERDICTS = {"approved": "allow", "undecided": "ask", "denied": "deny"}


class RecordedGate:
    """Judges calls as today's gate does. Calls of missing tools keep their recorded verdicts."""

    def __init__(self, today: Gate) -> None:
        self._today = today

    def judge(
        self,
        tool: Tool,
        arguments: Any,
        mode: ExecutionMode,
        paths: Sequence[str] | None = None,
        plan: PlanTerms | None = None,
    ) -> Verdict:
        if not isinstance(arguments, AbsentCall):
            return self._today.judge(tool, arguments, mode, paths, plan)
        call = arguments.recorded
        if call is None or call.decided_by == "person":
            # Only a question has the comparison of a plan with an earlier one.
            was_asked = call is not None and call.plan_changes
            return Verdict("ask" if was_asked else "allow", "" if call is None else call.reason)
        if call.decided_by == "hook" and call.hook is not None:
            # A hook decided, not the gate: the hook allowed a call that the gate asks about, or was stricter.
            return Verdict("ask" if call.hook.decision == "allow" else "allow", "")
        decision: Any = _VERDICTS[call.decision]
        return Verdict(decision, call.reason, call.reason if call.decided_by == "rule" else "")
