"""The calls of a session that wait for a person: describes them, judges them again, and adds rules for
them."""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from typing import TYPE_CHECKING

from ...actions.ports import Gate, Ports, Verdict
from ...actions.tools.registry import builtin_tools
from ...actions.turn.calls.proposals import judge
from ...actions.turn.calls.recovery import route_unknown_outcome
from ...state.application import ExecutionMode
from ...state.calls import SUB_AGENT_DECIDES, CallDecision, PendingCall
from ...state.session import SessionSettings
from .position import Position

if TYPE_CHECKING:
    from ..policy.approval_context import ApprovalContext
    from ..policy.rules.rule_suggestions import RuleSuggestion
    from .unknown_outcome import Aftermath, CallDescriptions


class SessionRules:
    """The settings of a session. Their rules may change while the session is open."""

    def __init__(
        self,
        settings: SessionSettings,
        gate_of: Callable[[SessionSettings], Gate],
        change_gate: Callable[[Gate], None],
    ) -> None:
        """`gate_of` makes the gate for settings; `change_gate` replaces the session's gate by it."""
        self.settings = settings
        self.gate_of = gate_of
        self._change_gate = change_gate

    def allow_always(self, rule: str) -> None:
        """Allow the calls that `rule` covers for the rest of this session; raises `UsageError`."""
        self.change(allow=(*self.settings.allow, rule))

    def judge_reading(self, path: str, mode: ExecutionMode) -> Verdict:
        """Return the gate's verdict on reading a file that the person names in a message."""
        from ..policy.judge import Judge

        return Judge(self.gate_of(self.settings), builtin_tools()).reading_verdict(path, mode)

    def change(self, **rules: tuple[str, ...]) -> None:
        """Replace the rules of the given kinds for the rest of this session; raises `UsageError`."""
        changed = self.settings.model_copy(update=rules)
        self._change_gate(self.gate_of(changed))
        self.settings = changed


class WaitingCalls:
    def __init__(self, position: Position, ports: Ports, rules: SessionRules) -> None:
        self._position = position
        self._ports = ports
        self._rules = rules

    def suggest_rules(self, call: PendingCall) -> tuple[RuleSuggestion, ...]:
        """Suggest rules for a waiting call. Each rule would allow this call."""
        if self._is_unknown_here(call):
            return ()
        return self._descriptions.suggest_rules(call, self._ports, self._rules, self._position.state)

    def accept(self, offer: RuleSuggestion) -> None:
        """Apply a suggestion for the rest of this session."""
        if offer.mode is None:
            self._rules.allow_always(offer.rule)
        else:
            self._position.change(execution_mode=offer.mode)

    def describe(self, call: PendingCall, is_edited: bool = False) -> ApprovalContext:
        """Describe why a waiting call asks now, which files and hosts it names, and in which sandbox it
        runs."""
        if self._is_unknown_here(call):
            return self._descriptions.describe_relayed(call)
        return self._descriptions.describe(call, self._ports, self._position.state, is_edited)

    async def inspect(self, call: PendingCall) -> Aftermath:
        """Collect, for at most two seconds, the evidence about a call of unknown outcome."""
        return await self._descriptions.inspect(call, self._ports)

    async def find_decided_elsewhere(self) -> tuple[CallDecision, ...]:
        """Return decisions for the calls of sub-agents that no longer wait in their own sessions.

        A person decided about them there. The sub-agent ignores these decisions.
        """
        store = self._position.store
        relayed = [call for call in self._position.state.calls_to_decide if call.sub_agent is not None]
        waiting: dict[str, set[str]] = {}
        for session_id in {call.sub_agent.session_id for call in relayed if call.sub_agent is not None}:
            view = await store.database.offload(partial(store.show, session_id))
            waiting[session_id] = {call.call_id for call in view.state.calls_to_decide}
        return tuple(
            CallDecision(call_id=call.call_id, approved=True, by=SUB_AGENT_DECIDES)
            for call in relayed
            if call.sub_agent is not None and call.sub_agent.call_id not in waiting[call.sub_agent.session_id]
        )

    def _is_unknown_here(self, call: PendingCall) -> bool:
        """Return whether only the session of the call's sub-agent has the tool."""
        return call.sub_agent is not None and call.tool not in self._ports.toolbox

    @property
    def _descriptions(self) -> type[CallDescriptions]:
        """Return the class with the descriptions. It is imported only when a call waits for a person."""
        from .unknown_outcome import CallDescriptions

        return CallDescriptions

    def judge_again(self, but: Set[str] = frozenset()) -> None:
        """Judge waiting calls again by the present mode and rules, if mode and rules judged them before.

        `but` are the ids of calls that a person has just decided about.
        """
        calls = self._position.state.pending_tool_calls
        self.change(tuple(call if call.call_id in but else self._judge_again(call) for call in calls))

    def change(self, calls: tuple[PendingCall, ...]) -> None:
        """Replace the pending calls. The next step records them."""
        if calls != self._position.state.pending_tool_calls:
            self._position.change(pending_tool_calls=calls)

    def _judge_again(self, call: PendingCall) -> PendingCall:
        mode = self._position.state.execution_mode
        if call.sub_agent is not None:
            return call
        if call.kind == "outcome_unknown":
            return route_unknown_outcome(call, mode) if call.recovery.settled_as is None else call
        is_typed = call.origin == "person" and call.decision == "approved" and call.binding is None
        is_persons = call.decided_by == "person" and not is_typed
        if call.decision == "invalid" or is_persons or call.recovery.starts:
            return call
        again = judge(call, self._ports, self._position.state)
        if call.decision == again.decision == "undecided" and call.binding is not None:
            # The call keeps its reason, because the person sees it and decides by it.
            return call
        return again
