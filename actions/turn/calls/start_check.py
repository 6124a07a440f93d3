"""Checks an approved call right before it starts: is it unchanged since the approval, and still allowed?"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ....state.application import ASKED_ONCE_MORE, NOTICES_CYCLES, ApplicationState, ExecutionMode
from ....state.calls import ApprovalFingerprint, FileChange, PendingCall, digest_arguments, update_recovery
from ...ports import KnowsAllowRules, Ports, Prepared, ToolOutcome, Verifiable, implements
from ...workspace.paths import resolve_paths
from ..bugs_logged import BugsLogged
from ..repetition import MOST_IN_A_ROW, describe_repetition, find_cycle, format_turn_count
from .approval_fingerprint import discrepancies, is_made_by, pre_images_fit
from .proposals import combine_decisions, judge_fully, why_lost

_TAMPERED = (
    "Not run: its arguments are not those that were proposed and approved, so the record of this session was"
    " changed from outside. `sandbur sessions verify` shows what the record says."
)
_UNKNOWN_PLACES = "Not run: which files it names could not be found out. This is a bug in Sandbur."
_CHANGED = "it was approved, but since then {why}"
_REPEATED = "this very call had the same result {times}"
OTHER_FILE = _CHANGED.format(why="the file has changed")


class CheckedCall(NamedTuple):
    """The result of the check: the call with its new decision, and its parsed arguments.

    `approved`: it may run. `undecided`: a person decides again. Otherwise it never runs.
    """

    call: PendingCall
    arguments: Any = None
    seen: ApprovalFingerprint | None = None
    """The fingerprint that the person's approval was compared with; None: there was nothing to compare."""
    leads: Sequence[str] = ()
    """The real paths that were judged or approved; the call may open no other."""
    is_walled: bool = False
    """See `ToolContext`."""
    in_sandbox: bool = False
    """See `ToolContext`."""


async def check_before_start(call: PendingCall, state: ApplicationState, ports: Ports) -> CheckedCall:
    """Judge an approved call again by the current state; earlier calls may have changed it."""
    agreed = await ports.journal.load_agreed_digest(call.call_id)
    if agreed and agreed != digest_arguments(call.arguments):
        return CheckedCall(_refuse(call, _TAMPERED))
    if problem := why_lost(call, ports):
        return CheckedCall(_refuse(call, f"It was not run: {problem}"))
    mode = state.execution_mode
    now, arguments, verdict = judge_fully(call, ports, mode)
    if now.decision in ("denied", "invalid"):
        return CheckedCall(now)
    is_persons = call.decided_by == "person"
    leads: Sequence[str] | None = None
    with BugsLogged(f"the places to which a call of {call.tool} leads"):
        leads = resolve_paths(ports.toolbox[call.tool].paths(arguments), ports.places.cwd)
    if leads is None:
        return CheckedCall(_refuse(call, _UNKNOWN_PLACES))
    now = _judge_real_paths(leads, now, arguments, ports, mode)
    if now.decision == "approved":
        is_by_rule = _is_by_rule(now, arguments, ports)
        turns, length = (0, 0) if is_persons else await _repetition(now, state, ports, is_by_rule)
        if not turns:
            by_proof = verdict is not None and verdict.by_proof
            in_sandbox = verdict is not None and verdict.in_sandbox
            return CheckedCall(
                call, arguments, None, leads, call.decided_by == "policy" and by_proof, in_sandbox
            )
        if mode == "yolo" or is_by_rule:
            return CheckedCall(_refuse(call, describe_repetition(turns, length)))
        return CheckedCall(
            ask_again(call, now.binding, _REPEATED.format(times=format_turn_count(turns, length)))
        )
    if not is_persons or (call.origin == "person" and call.binding is None):
        # A typed command was approved without a question; now there is one.
        return CheckedCall(ask_again(call, now.binding, now.reason))
    if call.binding is None or now.binding is None:
        return CheckedCall(call, arguments, None, leads)
    why = await _what_changed(call, call.binding, now.binding, state, ports)
    return CheckedCall(
        ask_again(call, now.binding, why) if why else call,
        arguments,
        now.binding,
        [file.real for file in now.binding.files],
    )


def _judge_real_paths(
    leads: Sequence[str], now: PendingCall, arguments: Any, ports: Ports, mode: ExecutionMode
) -> PendingCall:
    """Return the call as undecided unless the gate also allows the real paths behind its paths."""
    tool = ports.toolbox[now.tool]
    if now.decision != "approved" or not leads or tool.traits.runs_commands:
        return now
    verdict = ports.gate.judge(tool, arguments, mode, leads)
    if combine_decisions(verdict, now.hook, now.origin)[0] == "approved":
        return now
    asks = now.model_copy(update={"decision": "undecided", "reason": verdict.reason})
    return asks.model_copy(
        update={"binding": ports.fingerprinter.fingerprint(asks, tool, arguments, ports.places.cwd)}
    )


def fits_approval(looked: CheckedCall, prepared: Prepared | ToolOutcome | None) -> bool:
    """Return whether the files that a tool will replace are those of the approval."""
    if looked.seen is None or not isinstance(prepared, Prepared):
        return True
    return pre_images_fit(prepared.changes, looked.seen)


async def _what_changed(
    call: PendingCall,
    bound: ApprovalFingerprint,
    now: ApprovalFingerprint,
    state: ApplicationState,
    ports: Ports,
) -> str:
    """Return what changed since the approval; changes by calls approved together with it do not count."""
    found = list(discrepancies(bound, now))
    if found and (changes := await _changes_before(call, state, ports)):
        found = [one for one in found if not is_made_by(one, changes)]
    return _CHANGED.format(why="; ".join(one.text for one in found)) if found else ""


async def _changes_before(call: PendingCall, state: ApplicationState, ports: Ports) -> list[FileChange]:
    """Return the changes by file tools of the same reply before this call, in order.

    The person saw in those calls what they write; the effect of a command was not known then.
    """
    asking = state.active_history.requesting_message
    changes: list[FileChange] = []
    for use in asking.tool_uses if asking is not None else ():
        if use.call_id == call.call_id:
            break
        if isinstance(ports.toolbox.get(use.tool), Verifiable):
            changes += await ports.journal.load_changes(use.call_id)
    return changes


async def _repetition(
    now: PendingCall, state: ApplicationState, ports: Ports, is_by_rule: bool
) -> tuple[int, int]:
    """Return the turns and the length of the cycle that the call continues; (0, 0): it may run."""
    # Sessions from before go on as they began, so that they replay as they ran.
    if state.graph_version < ASKED_ONCE_MORE:
        return 0, 0
    if state.graph_version < NOTICES_CYCLES:
        return (MOST_IN_A_ROW, 1) if find_cycle(now, state.active_history, longest=1) else (0, 0)
    if ports.toolbox[now.tool].traits.repeats or now.origin == "tool":
        # The loops of a program are no sign of a model that goes round in circles.
        return 0, 0
    polled = {name for name, tool in ports.toolbox.items() if tool.traits.repeats}
    cycle = find_cycle(now, state.active_history, polled)
    if cycle is None:
        return 0, 0
    most = cycle.most_turns(await ports.journal.load_calls(cycle.last), is_by_rule)
    return (0, 0) if most is None or cycle.turns < most else (most, cycle.length)


def _is_by_rule(now: PendingCall, arguments: Any, ports: Ports) -> bool:
    """Return whether a rule, a hook or the tool's author lets the call run without a question."""
    tool, gate = ports.toolbox[now.tool], ports.gate
    if now.decided_by in ("rule", "hook") or tool.traits.asks == "never":
        return True
    return implements(gate, KnowsAllowRules) and gate.is_allowed_by_rule(tool, arguments)


def ask_again(call: PendingCall, binding: ApprovalFingerprint | None, why: str) -> PendingCall:
    """Return an approved call as undecided, with the reason `why`."""
    again = {"decision": "undecided", "decided_by": "policy", "reason": why, "binding": binding}
    asked = call.model_copy(update=again)
    return asked if call.kind == "approval" else update_recovery(asked, settled_as=None, settled_result="")


def _refuse(call: PendingCall, why: str) -> PendingCall:
    return call.model_copy(update={"decision": "invalid", "decided_by": "runtime", "reason": why})
