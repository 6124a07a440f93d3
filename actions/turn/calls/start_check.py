"""Checks an approved call right before its start: it must be unchanged, still allowed, and no repetition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import accumulate, chain, islice
from typing import Any, Literal, NamedTuple

from ....state.application import ASKED_ONCE_MORE, NOTICES_CYCLES, ApplicationState
from ....state.calls import (
    ApprovalFingerprint,
    FileChange,
    JournaledCall,
    PendingCall,
    digest_arguments,
    update_recovery,
)
from ....state.conversation.attachments import AttachedFile
from ....state.conversation.messages import Message, Text, ToolResult
from ....state.conversation.transcript import Transcript
from ....state.errors import Repeated
from ....state.process.clock import count_milliseconds
from ...ports import (
    Fingerprinted,
    KnowsAllowRules,
    Ports,
    Prepared,
    Tool,
    ToolOutcome,
    Verifiable,
    implements,
)
from ...workspace.paths import resolve_paths
from ..bugs_logged import BugsLogged
from ..plan.approved import find_plan_terms
from .approval_fingerprint import discrepancies, is_made_by, pre_images_fit
from .proposals import combine_decisions, judge_fully, why_lost

AllowedBy = Literal["mode", "rule", "person"]
"""What lets a call run without another question."""
_TAMPERED = (
    "Not run: its arguments are not those that were proposed and approved, so another program changed the"
    " record of this session. `sandbur sessions verify` shows what the record says."
)
_UNKNOWN_PLACES = "Not run: the files that it names could not be determined. This is a bug in Sandbur."
_CHANGED = "it was approved, but since then {why}"
_REPEATED = "this very call had the same result {times}"
OTHER_FILE = _CHANGED.format(why="the file has changed")


class CheckedCall(NamedTuple):
    """The result of the check: the call with its new decision, and its parsed arguments.

    `approved`: the call may run. `undecided`: a person must decide again. Any other decision: the call never
    runs.
    """

    call: PendingCall
    arguments: Any = None
    seen: ApprovalFingerprint | None = None
    """The fingerprint that was compared with the person's approval; None if nothing was compared."""
    leads: Sequence[str] = ()
    """The real paths that were judged or approved. The call may open no other path."""
    is_walled: bool = False
    """See `ToolContext.is_walled`."""
    in_sandbox: bool = False
    """See `ToolContext.in_sandbox`."""


async def check_before_start(call: PendingCall, state: ApplicationState, ports: Ports) -> CheckedCall:
    """Judge an approved call again by the current state, because earlier calls may have changed the state."""
    agreed = await ports.journal.load_agreed_digest(call.call_id)
    if agreed and agreed != digest_arguments(call.arguments):
        return CheckedCall(_refuse(call, _TAMPERED))
    if problem := why_lost(call, ports):
        return CheckedCall(_refuse(call, f"It was not run: {problem}"))
    now, arguments, verdict = judge_fully(call, ports, state)
    if now.decision in ("denied", "invalid"):
        return CheckedCall(now)
    is_persons = call.decided_by == "person"
    leads: Sequence[str] | None = None
    with BugsLogged(f"the real paths of a call of {call.tool}"):
        leads = resolve_paths(ports.toolbox[call.tool].paths(arguments), ports.places.cwd)
    if leads is None:
        return CheckedCall(_refuse(call, _UNKNOWN_PLACES))
    now = _judge_real_paths(leads, now, arguments, ports, state)
    if now.decision == "approved":
        by_proof = verdict is not None and verdict.by_proof and call.decided_by == "policy"
        in_sandbox = verdict is not None and verdict.in_sandbox
        ready = CheckedCall(call, arguments, None, leads, by_proof, in_sandbox)
        return await _check_repetition(ready, now, state, ports, is_persons)
    if not is_persons or (call.origin == "person" and call.binding is None):
        # A typed command was approved without a question, but now the gate asks one.
        return CheckedCall(ask_again(call, now.binding, now.reason))
    approved = CheckedCall(call, arguments, None, leads)
    if call.binding is not None and now.binding is not None:
        if why := await _describe_changes(call, call.binding, now.binding, state, ports):
            call = ask_again(call, now.binding, why)
        real = [file.real for file in now.binding.files]
        approved = CheckedCall(call, arguments, now.binding, real)
    if call.decision != "approved":
        return approved
    return await _check_repetition(approved, now, state, ports, is_persons)


async def _check_repetition(
    ready: CheckedCall, now: PendingCall, state: ApplicationState, ports: Ports, is_persons: bool
) -> CheckedCall:
    """Return the call as it is, or refused or with a question if it continues a cycle of equal calls.

    `is_persons`: a person, or a function of the program in that place, approved the call.
    """
    allowed_by: AllowedBy = "person" if is_persons else "mode"
    if not is_persons and _is_by_rule(now, ready.arguments, ports):
        allowed_by = "rule"
    turns, length = await _find_repetition(now, state, ports, allowed_by)
    if not turns:
        return ready
    if state.execution_mode == "yolo" or allowed_by != "mode":
        return CheckedCall(_refuse(ready.call, describe_repetition(turns, length)))
    why = _REPEATED.format(times=format_turn_count(turns, length))
    return CheckedCall(ask_again(ready.call, now.binding, why))


def _judge_real_paths(
    leads: Sequence[str], now: PendingCall, arguments: Any, ports: Ports, state: ApplicationState
) -> PendingCall:
    """Return the call; it is undecided unless the gate also allows the real paths that its paths lead to."""
    tool = ports.toolbox[now.tool]
    if now.decision != "approved" or not leads or tool.traits.runs_commands:
        return now
    plan = find_plan_terms(state, ports)
    verdict = ports.gate.judge(tool, arguments, state.execution_mode, leads, plan)
    if combine_decisions(verdict, now.hook, now.origin)[0] == "approved":
        return now
    asks = now.model_copy(update={"decision": "undecided", "reason": verdict.reason})
    return asks.model_copy(
        update={"binding": ports.fingerprinter.fingerprint(asks, tool, arguments, ports.places.cwd)}
    )


def fits_approval(looked: CheckedCall, prepared: Prepared | ToolOutcome | None, tool: Tool) -> bool:
    """Return whether the files that a tool will replace are the files of the approval."""
    if looked.seen is None or not isinstance(prepared, Prepared) or implements(tool, Fingerprinted):
        return True
    return pre_images_fit(prepared.changes, looked.seen)


async def _describe_changes(
    call: PendingCall,
    bound: ApprovalFingerprint,
    now: ApprovalFingerprint,
    state: ApplicationState,
    ports: Ports,
) -> str:
    """Return what changed since the approval. Changes by calls that were approved together with it do not
    count.
    """
    found = list(discrepancies(bound, now))
    if found and (changes := await _changes_before(call, state, ports)):
        found = [one for one in found if not is_made_by(one, changes)]
    return _CHANGED.format(why="; ".join(one.text for one in found)) if found else ""


async def _changes_before(call: PendingCall, state: ApplicationState, ports: Ports) -> list[FileChange]:
    """Return the changes that file tools made for earlier calls of the same reply, in order.

    The question displayed what these calls write. The effect of a command was not known then, so it counts.
    """
    asking = state.active_history.requesting_message
    changes: list[FileChange] = []
    for use in asking.tool_uses if asking is not None else ():
        if use.call_id == call.call_id:
            break
        if isinstance(ports.toolbox.get(use.tool), Verifiable):
            changes += await ports.journal.load_changes(use.call_id)
    return changes


async def _find_repetition(
    now: PendingCall, state: ApplicationState, ports: Ports, allowed_by: AllowedBy
) -> tuple[int, int]:
    """Return the turns and the length of the cycle that the call continues, or (0, 0) if the call may run."""
    if allowed_by == "person" and state.graph_version < NOTICES_CYCLES:
        return 0, 0
    # Older sessions keep their old behaviour, so that a replay runs as they ran.
    if state.graph_version < ASKED_ONCE_MORE:
        return 0, 0
    if state.graph_version < NOTICES_CYCLES:
        return (MOST_IN_A_ROW, 1) if find_cycle(now, state.active_history, longest=1) else (0, 0)
    if ports.toolbox[now.tool].traits.repeats or now.origin == "tool":
        # A program may make equal calls in a loop. This does not mean that the model repeats itself.
        return 0, 0
    polled = {name for name, tool in ports.toolbox.items() if tool.traits.repeats}
    cycle = find_cycle(now, state.active_history, polled)
    if cycle is None:
        return 0, 0
    recorded = await ports.journal.load_calls(cycle.last)
    most = cycle.most_turns(recorded, allowed_by, is_read_only=now.effect == "read")
    if most is None:
        return 0, 0
    most = max(most, ports.toolbox[now.tool].traits.own_limit + 1)
    return (0, 0) if cycle.turns < most else (most, cycle.length)


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


MOST_IN_A_ROW = 3
"""The most turns of a cycle without pauses between them."""
MOST_WITH_PAUSES = 10
"""The most turns of a cycle with pauses of some seconds, which a model needs to answer."""
MOST_ALLOWED = 5
"""The most turns without pauses of a cycle of calls that a rule, or a person each time, allows."""
MOST_READ_BY_RULE = 100
"""The most turns of a cycle of calls that only read and that a rule allows."""
LONGEST_CYCLE = 4
"""The most rounds of calls that make one turn of a cycle."""
MOST_REFUSED_ROUNDS = 5
"""The number of rounds in a row without a call that ran, after which the run ends."""
_SHORT_PAUSE_MS, _LONG_PAUSE_MS = 1_000, 10_000
_STUCK_BEGINS = "Not run: this very call had the same result "
"""The first words of such a result. They are stored, and results are recognized by them."""


class _Past(NamedTuple):
    call_id: str
    tool: str
    arguments: str
    outcome: str
    content: str
    blocks: tuple[Text | AttachedFile, ...]

    @property
    def is_refused(self) -> bool:
        """Return whether the call did not run because it was a repetition."""
        return self.content.startswith(_STUCK_BEGINS)

    def is_of(self, call: PendingCall) -> bool:
        return (self.tool, self.arguments) == (call.tool, call.arguments)

    def repeats(self, other: _Past) -> bool:
        """Return whether both are the same call with the same result. A refused call matches any result."""
        if (self.tool, self.arguments) != (other.tool, other.arguments):
            return False
        return self[3:] == other[3:] or self.is_refused or other.is_refused


def format_turn_count(turns: int, length: int) -> str:
    return f"{turns} times in a row" + (f", in a cycle of {length} calls" if length > 1 else "")


def describe_repetition(turns: int, length: int) -> str:
    """Return the result text of a call that is refused as a repetition."""
    return (
        f"{_STUCK_BEGINS}{format_turn_count(turns, length)}, and would have it again."
        " Do something else: other arguments, another way, or tell the user what keeps you from going on."
    )


class Cycle(NamedTuple):
    """A sequence of calls that repeats, and that a pending call would continue."""

    length: int
    """The number of calls in one turn."""
    turns: int
    """The number of turns with the same results, at most `MOST_READ_BY_RULE`."""
    last: tuple[str, str]
    """The ids of the newest two calls that are equal to the pending one."""

    def most_turns(
        self, recorded: Mapping[str, JournaledCall], allowed_by: AllowedBy, is_read_only: bool = False
    ) -> int | None:
        """Return the allowed number of turns, which depends on the pause between them; None if there is no
        limit.
        """
        pause_ms = self._pause_ms(recorded)
        if pause_ms >= _LONG_PAUSE_MS or (allowed_by == "person" and pause_ms >= _SHORT_PAUSE_MS):
            return None
        if allowed_by == "rule" and is_read_only:
            return MOST_READ_BY_RULE
        if pause_ms >= _SHORT_PAUSE_MS:
            return MOST_WITH_PAUSES
        return MOST_IN_A_ROW if allowed_by == "mode" else MOST_ALLOWED

    def _pause_ms(self, recorded: Mapping[str, JournaledCall]) -> int:
        """Return the milliseconds between the newest two calls of the cycle, without the duration of the
        calls.
        """
        newest, before = (recorded.get(call_id) for call_id in self.last)
        if newest is None or before is None:
            return 0
        took_ms = newest.result.duration_ms if newest.result is not None else None
        return count_milliseconds(before.at, newest.at) - (took_ms or 0)


def find_cycle(
    call: PendingCall, history: Transcript, polled: Set[str] = frozenset(), longest: int = LONGEST_CYCLE
) -> Cycle | None:
    """Return the cycle that a call would continue, or None if the cycle has fewer than `MOST_IN_A_ROW` turns.

    `polled`: the tools whose calls may repeat. These calls are ignored.
    """
    asking = history.requesting_message
    rounds = list(islice(_group_by_message(history, asking, polled), longest))
    together = len(asking.tool_uses) if asking is not None else 1
    in_rounds = sum(map(len, rounds))
    if together <= in_rounds and not any(past.is_of(call) for calls in rounds for past in calls):
        return None
    lengths = sorted({1, together, *accumulate(map(len, rounds))})
    newest = list(islice(chain.from_iterable(_group_by_message(history, asking, polled)), 2 * lengths[-1]))
    place = next((at for at, past in enumerate(newest[: lengths[-1]]) if past.is_of(call)), None)
    if place is None:
        return None
    for length in lengths:
        if place >= length or len(newest) < 2 * length:
            continue
        turns = _count_equal_turns(chain.from_iterable(_group_by_message(history, asking, polled)), length)
        if turns >= MOST_IN_A_ROW:
            return Cycle(length, turns, (newest[place].call_id, newest[place + length].call_id))
    return None


def require_progress(state: ApplicationState) -> None:
    """Raise `Repeated` after `MOST_REFUSED_ROUNDS` rounds of refused repetitions."""
    if state.graph_version < NOTICES_CYCLES:
        return
    if _count_refused_rounds(state.active_history, state.execution_mode == "yolo") >= MOST_REFUSED_ROUNDS:
        raise Repeated(
            "The model repeats itself: it requested the same calls again after they were refused"
            f" {MOST_REFUSED_ROUNDS} times in a row.",
            "Tell it what to do instead, or resume to let it try once more.",
        )


def _count_refused_rounds(history: Transcript, denied: bool) -> int:
    """Count the newest rounds in a row in which every call was refused as a repetition.

    `denied`: a denied call counts as refused, too.
    """
    count = 0
    for calls in islice(_group_by_message(history, asking=None), MOST_REFUSED_ROUNDS):
        if not all(past.is_refused or (denied and past.outcome == "denied") for past in calls):
            break
        count += 1
    return count


def _count_equal_turns(past: Iterable[_Past], length: int) -> int:
    """Count the equal turns of `length` calls, newest first. The first turn counts."""
    turn: list[_Past] = []
    count = 0
    for count, one in enumerate(islice(past, length * MOST_READ_BY_RULE), 1):
        place = (count - 1) % length
        if count <= length:
            turn.append(one)
        elif not one.repeats(turn[place]):
            return (count - 1) // length
        elif turn[place].is_refused:
            turn[place] = one
    return count // length


def _group_by_message(
    history: Transcript, asking: Message | None, polled: Set[str] = frozenset()
) -> Iterator[list[_Past]]:
    """Yield the calls of each message since the person's last message, newest first. `asking` is left out."""
    results: dict[str, ToolResult] = {}
    for message in reversed(history):
        if message.origin == "person":
            return
        results |= {result.call_id: result for result in message.tool_results}
        if message is asking or not message.tool_uses:
            continue
        found = [
            _Past(use.call_id, use.tool, use.arguments, result.outcome, result.content, result.blocks)
            for use in reversed(message.tool_uses)
            if (result := results.pop(use.call_id, None)) is not None and use.tool not in polled
        ]
        if found:
            yield found
