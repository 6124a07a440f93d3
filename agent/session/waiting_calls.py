"""The calls of a session that wait for a person: described, judged again, and rules that let them pass."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

from ...actions.ports import Gate, Ports
from ...actions.turn.bugs_logged import BugsLogged
from ...actions.turn.calls.proposals import judge
from ...actions.turn.calls.recovery import route_unknown_outcome
from ...state.calls import PendingCall
from ...state.session import SessionSettings
from .position import Position

if TYPE_CHECKING:
    from ..policy.approval_context import ApprovalContext
    from ..policy.rules.rule_suggestions import RuleSuggestion
    from .unknown_outcome import Aftermath


class SessionRules:
    """The settings of a session, whose rules may change while it is open."""

    def __init__(
        self,
        settings: SessionSettings,
        gate_of: Callable[[SessionSettings], Gate],
        change_gate: Callable[[Gate], None],
    ) -> None:
        """`gate_of` makes the gate of some settings, `change_gate` puts it in the place of the old one."""
        self.settings = settings
        self.gate_of = gate_of
        self._change_gate = change_gate

    def allow_always(self, rule: str) -> None:
        """Let what `rule` covers pass unasked for the rest of this session; raises `UsageError`."""
        self.change(allow=(*self.settings.allow, rule))

    def change(self, **rules: tuple[str, ...]) -> None:
        """Replace the rules of these kinds for the rest of this session; raises `UsageError`."""
        changed = self.settings.model_copy(update=rules)
        self._change_gate(self.gate_of(changed))
        self.settings = changed


class WaitingCalls:
    def __init__(self, position: Position, ports: Ports, rules: SessionRules) -> None:
        self._position = position
        self._ports = ports
        self._rules = rules

    def suggest_rules(self, call: PendingCall) -> tuple[RuleSuggestion, ...]:
        """Return what "always" can mean for a waiting call; each would in fact let this call pass."""
        from ..policy.rules.rule_suggestions import suggest_rules_for_call

        rules, mode = self._rules, self._position.state.execution_mode
        with BugsLogged(f"the rules that would let a call of {call.tool} pass"):
            return suggest_rules_for_call(call, self._ports, rules.settings, rules.gate_of, mode)
        return ()

    def accept(self, offer: RuleSuggestion) -> None:
        """Let what was suggested pass unasked for the rest of this session."""
        from ..policy.rules.rule_suggestions import EDITING

        if offer.rule:
            self._rules.allow_always(offer.rule)
        else:
            self._position.change(execution_mode=EDITING)

    def describe(self, call: PendingCall, is_edited: bool = False) -> ApprovalContext:
        """Return why a waiting call asks, where it leads and what it runs in, as it is now."""
        from ..policy.approval_context import ApprovalContext, build_approval_context

        with BugsLogged(f"what a person is told of a call of {call.tool}") as border:
            return build_approval_context(call, self._ports, self._position.state.execution_mode, is_edited)
        return ApprovalContext(f"{call.reason}; the rest is not known: a bug in Sandbur ({border.bug})")

    async def inspect(self, call: PendingCall) -> Aftermath:
        """Look for at most two seconds at what a call of unknown outcome may have left."""
        from .unknown_outcome import Aftermath, aftermath

        with BugsLogged(f"what a call of {call.tool} has left"):
            return await aftermath(call, self._ports)
        return Aftermath(is_complete=False)

    def judge_again(self, but: Set[str] = frozenset()) -> None:
        """Let mode and rules of now decide what mode and rules decided when a call was proposed.

        `but` are the ids of calls that a person has just decided about.
        """
        calls = self._position.state.pending_tool_calls
        self.change(tuple(call if call.call_id in but else self._judge_again(call) for call in calls))

    def change(self, calls: tuple[PendingCall, ...]) -> None:
        """Replace the pending calls; recorded with the next step."""
        if calls != self._position.state.pending_tool_calls:
            self._position.change(pending_tool_calls=calls)

    def _judge_again(self, call: PendingCall) -> PendingCall:
        mode = self._position.state.execution_mode
        if call.kind == "outcome_unknown":
            return route_unknown_outcome(call, mode) if call.recovery.settled_as is None else call
        is_typed = call.origin == "person" and call.decision == "approved" and call.binding is None
        is_persons = call.decided_by == "person" and not is_typed
        if call.decision == "invalid" or is_persons or call.recovery.starts:
            return call
        again = judge(call, self._ports, mode)
        if call.decision == again.decision == "undecided" and call.binding is not None:
            # What the person was told, and is to decide about, stays.
            return call
        return again
