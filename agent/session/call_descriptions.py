"""What a person sees of a call that waits; a bug in it is logged, and the question is asked without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...actions.ports import Ports
from ...actions.turn.bugs_logged import BugsLogged
from ...state.application import ApplicationState
from ...state.calls import PendingCall
from ..policy.approval_context import ApprovalContext, build_approval_context
from ..policy.rules.rule_suggestions import RuleSuggestion, suggest_rules_for_call
from .unknown_outcome import Aftermath, aftermath

if TYPE_CHECKING:
    from .waiting_calls import SessionRules


class CallDescriptions:
    """Describes waiting calls."""

    @staticmethod
    def suggest_rules(
        call: PendingCall, ports: Ports, rules: SessionRules, state: ApplicationState
    ) -> tuple[RuleSuggestion, ...]:
        """Suggest rules for a waiting call; each of them would allow this call."""
        with BugsLogged(f"the rules that would let a call of {call.tool} pass"):
            mode = state.execution_mode
            return suggest_rules_for_call(call, ports, rules.settings, rules.gate_of, mode)
        return ()

    @staticmethod
    def describe(
        call: PendingCall, ports: Ports, state: ApplicationState, is_edited: bool
    ) -> ApprovalContext:
        """Describe why a waiting call asks, where its addresses lead and which sandbox it runs in."""
        with BugsLogged(f"the description of a call of {call.tool}") as border:
            return build_approval_context(call, ports, state.execution_mode, is_edited)
        return ApprovalContext(f"{call.reason}; the rest is not known: a bug in Sandbur ({border.bug})")

    @staticmethod
    async def inspect(call: PendingCall, ports: Ports) -> Aftermath:
        """Collect for at most two seconds what a call of unknown outcome may have done."""
        with BugsLogged(f"what a call of {call.tool} has left"):
            return await aftermath(call, ports)
        return Aftermath(is_complete=False)
