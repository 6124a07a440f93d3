"""Turns the tool calls of a reply into pending calls with unique ids, which are checked and judged by the
gate.
"""

import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....state.application import ApplicationState
from ....state.calls import (
    HOOK_DECIDES,
    CallDecision,
    DecidedBy,
    Decision,
    Effect,
    HookVerdict,
    Origin,
    PendingCall,
)
from ....state.conversation.messages import (
    Message,
    ToolResult,
    ToolUse,
    encodable,
    parse_json_object,
    tool_message,
)
from ....state.process.crashpoints import reach
from ...masking.references import explain_lost_value, explain_refusal, find_placeholder, mask_call_fields
from ...ports import (
    BadArguments,
    Ports,
    ProposesPlans,
    Reply,
    ShowsChanges,
    Tool,
    ToolSpec,
    Verdict,
    implements,
)
from ...ports.events import Notice
from ..bugs_logged import BugsLogged
from ..plan.approved import find_plan_terms
from ..plan.decision_tools import FINAL_ANSWER, FINISH_STEP, RESERVED_NAMES, why_unusable
from ..user_code import UserCode, make_bad_arguments

_PLAIN_ID = re.compile(r"[A-Za-z0-9_.:\-]{1,200}")
_CUT = (
    "This call was cut off at the output limit and did not run. Send it again in smaller parts,"
    " for example a file in several writes."
)
_MOST_NAMED = 60
MOST_CALLS = 64
"""The most calls of one reply. Further calls get an error result and do not run."""
MOST_NESTED_CALLS = 200
"""The most nested calls of one call. Further calls get an error result and do not run."""
_TOO_MANY_NESTED = f"Not run: one call may make at most {MOST_NESTED_CALLS} further calls."
_TOO_MANY = f"Not run: one message may hold at most {MOST_CALLS} calls. Send the rest in the next one."


def make_ids_unique(message: Message, ports: Ports) -> Message:
    """Rename call ids that the session has seen, so that every call has one record."""
    taken: set[str] = set()
    blocks = list(message.blocks)
    for number, block in enumerate(blocks):
        if isinstance(block, ToolUse):
            free = (
                i for i in _generate_ids(block.call_id) if i not in taken and not ports.journal.has_call(i)
            )
            call_id = next(free)
            taken.add(call_id)
            if call_id != block.call_id:
                blocks[number] = block.model_copy(update={"call_id": call_id})
    if tuple(blocks) == message.blocks:
        return message
    # A copy would keep values that the old message computed from its blocks, so this is a new message.
    return Message(role=message.role, origin=message.origin, blocks=tuple(blocks))


def _generate_ids(call_id: str) -> Iterator[str]:
    # Every database accepts such ids and distinguishes them.
    first = call_id if _PLAIN_ID.fullmatch(call_id) else "call"
    return itertools.chain([first], (f"{first}-{number}" for number in itertools.count(2)))


async def propose(
    uses: Sequence[ToolUse], reply: Reply, ports: Ports, before: ApplicationState, decision: ToolSpec | None
) -> tuple[PendingCall, ...]:
    """Judge each call. `decision` is the only decision tool that this reply may call, or None."""

    async def propose_one(number: int, use: ToolUse) -> PendingCall:
        if number >= MOST_CALLS and not ports.turn.is_workflow:
            return _make_invalid_call(use, _TOO_MANY)
        if _is_decision(use, ports):
            return _make_invalid_call(use, why_unusable(use, decision))
        if reply.finish == "length":
            return _make_invalid_call(use, _CUT)
        if why := _why_no_plan(use, ports, before) or _why_alone(use, ports, len(uses)):
            return _make_invalid_call(use, why)
        if why := _why_unlisted(use, ports) or ports.requests.why_inactive(use.tool, before.equipment):
            return _make_invalid_call(use, why)
        if ports.hooks is None:
            return judge(use, ports, before)
        return await judge_with_hooks(use, ports, before)

    calls = [await propose_one(number, use) for number, use in enumerate(uses)]
    if ports.hooks is not None and calls:
        reach("advice_taken")
    return tuple(calls)


def _why_unlisted(use: ToolUse, ports: Ports) -> str:
    """Return why a model may not call a tool that is only for flows; empty for any other tool."""
    tool = ports.toolbox.get(use.tool)
    is_of_flow = tool is not None and tool.traits.is_of_flow
    return (
        f"The tool {use.tool} is run by a flow of the user, and not by a call of yours." if is_of_flow else ""
    )


def _why_no_plan(use: ToolUse, ports: Ports, state: ApplicationState) -> str:
    """Return why a call cannot begin a plan now; empty if it can, or if it is another call."""
    tool = ports.toolbox.get(use.tool)
    if tool is None or not tool.traits.begins_plan or state.active_step_id is None:
        return ""
    return f"A plan step is open. End it with {FINISH_STEP.name} first, as failed if the plan has to change."


def _why_alone(use: ToolUse, ports: Ports, count: int) -> str:
    """Return why a call cannot run beside other calls of its message; empty if it can."""
    tool = ports.toolbox.get(use.tool)
    changes_plan = tool is not None and tool.traits.changes_plan and count > 1
    return f"{use.tool} must be the only call of your message. Send it again, alone." if changes_plan else ""


def _is_decision(use: ToolUse, ports: Ports) -> bool:
    """Return whether a call is a decision tool that this session offers."""
    is_offered = ports.turn.output is not None if use.tool == FINAL_ANSWER else ports.turn.has_planning
    return is_offered and use.tool in RESERVED_NAMES


async def record_wishes(message: Message, pending: Sequence[PendingCall], ports: Ports) -> None:
    """Record every call of a message in the journal. The records are committed with the step of the
    message.
    """
    calls = {call.call_id: call for call in pending}
    for use in message.tool_uses:
        call = calls.get(use.call_id)
        if call is not None and call.edited:
            # Only what the journal contains may run.
            use = use.model_copy(update={"arguments": call.arguments})
        await ports.journal.record_proposal(use, call)


def judge(
    use: ToolUse | PendingCall, ports: Ports, state: ApplicationState, hook: HookVerdict | None = None
) -> PendingCall:
    """Return the call with the gate's decision. A call that cannot run becomes `invalid`."""
    return judge_and_parse(use, ports, state, hook)[0]


def judge_and_parse(
    use: ToolUse | PendingCall, ports: Ports, state: ApplicationState, hook: HookVerdict | None = None
) -> tuple[PendingCall, Any]:
    """Return the call with the gate's decision, and its parsed arguments."""
    return judge_fully(use, ports, state, hook)[:2]


def judge_fully(
    use: ToolUse | PendingCall, ports: Ports, state: ApplicationState, hook: HookVerdict | None = None
) -> tuple[PendingCall, Any, Verdict | None]:
    """Return the call with the gate's decision, its parsed arguments and the verdict.

    The verdict is None for a call that cannot run. `hook` is the verdict of a hook on a call that was not
    judged before; a pending call contains the verdict of its hook.
    """
    hook = use.hook if isinstance(use, PendingCall) else hook
    tool = ports.toolbox.get(use.tool)
    if tool is None:
        return _make_invalid_call(use, _explain_unknown_tool(use.tool, ports)), None, None
    # The call runs with the model's arguments. The display and the store get arguments without secrets.
    original = ports.masker.references.find_original(use.arguments) if use.masked else None
    mask = ports.masker.text if original is not None else str
    what = f"{tool.spec.name} could not check its arguments: {{function}}"
    try:
        with UserCode(what, make_bad_arguments, level=logging.INFO):
            parsed = tool.parse(use.arguments if original is None else original)
    except BadArguments as error:
        return _make_invalid_call(use, mask(str(error))), None, None
    if problem := "" if use.masked else _explain_placeholder(tool, use.arguments, ports):
        return _make_invalid_call(use, problem), None, None
    origin: Origin = use.origin if isinstance(use, PendingCall) else "model"
    verdict = ports.gate.judge(tool, parsed, state.execution_mode, plan=find_plan_terms(state, ports, origin))
    preset = tool.traits.preset and ports.masker.text(tool.traits.preset)
    decision, by, reason = combine_decisions(verdict, hook, origin)
    call = PendingCall(
        call_id=use.call_id,
        tool=use.tool,
        arguments=use.arguments,
        masked=use.masked,
        effect=_effect_of(tool, parsed),
        decision=decision,
        decided_by=by,
        reason=_with_preset(mask(reason), preset if decision == "undecided" else ""),
        version=tool.spec.version,
        preset=preset,
        edited=hook is not None and hook.edited,
        hook=hook,
        origin=origin,
    )
    if call.decision == "undecided":
        call = call.model_copy(update=_prepare_question(call, tool, parsed, ports, state))
    return call, parsed, verdict


def _explain_unknown_tool(name: str, ports: Ports) -> str:
    names = ", ".join(itertools.islice(ports.toolbox, _MOST_NAMED)) or "none"
    more = f" and {len(ports.toolbox) - _MOST_NAMED} more" if len(ports.toolbox) > _MOST_NAMED else ""
    return f"There is no tool named {name[:80]!r}. The tools are: {names}{more}."


def _prepare_question(
    call: PendingCall, tool: Tool, arguments: Any, ports: Ports, state: ApplicationState
) -> dict[str, Any]:
    """Return the fields of a call that waits for a decision: what the approval depends on, and what it or a
    revised plan changes.
    """
    fields: dict[str, Any] = {
        "binding": ports.fingerprinter.fingerprint(call, tool, arguments, ports.places.cwd)
    }
    earlier = state.approved_plan or state.earlier_plan
    if earlier is not None and implements(tool, ProposesPlans):
        fields["plan_changes"] = ports.masker.text(tool.describe_changes(arguments, earlier))
    if implements(tool, ShowsChanges):
        fields["changes"] = ports.masker.text(tool.show_changes(arguments))
    return fields


def _with_preset(reason: str, preset: str) -> str:
    """Return the reason of a verdict, followed by the arguments that the author of the tool fixed."""
    return "; ".join(filter(None, (reason, f"with the fixed arguments {preset}" if preset else "")))


def _effect_of(tool: Tool, arguments: Any) -> Effect:
    """Return the effect class of a call. If the tool fails to compute it, return 'effect', which is never
    repeated.
    """
    with BugsLogged(f"the effect of a call of {tool.spec.name}"):
        return tool.effect_of(arguments)
    return "effect"


def combine_decisions(
    verdict: Verdict, hook: HookVerdict | None, origin: Origin = "model"
) -> tuple[Decision, DecidedBy, str]:
    """Combine the verdicts of the gate and a hook. The stricter verdict wins.

    Exceptions: a hook may allow a call that the gate asks about, unless the question `is_firm`. A command
    that a person typed is approved, unless the gate denies it or the question `is_firm`.
    """
    says: Decision = _DECISIONS[verdict.decision]
    by: DecidedBy = "rule" if verdict.rule else "policy"
    if origin == "person" and says != "denied" and not (says == "undecided" and verdict.is_firm):
        says, by = "approved", "person"
    if hook is None or not hook.decision or says == "denied":
        return says, by, verdict.reason
    reason = f"a hook says {hook.decision}" + (f": {hook.reason}" if hook.reason else "")
    match hook.decision:
        case "deny":
            return "denied", "hook", hook.reason
        case "ask" if says == "approved":
            return "undecided", "hook", reason
        case "allow" if says == "undecided" and not verdict.is_firm:
            return "approved", "hook", reason
        case _:
            return says, by, verdict.reason


_DECISIONS: Mapping[str, Decision] = {"allow": "approved", "ask": "undecided", "deny": "denied"}


async def propose_own(use: ToolUse, ports: Ports, state: ApplicationState, origin: Origin) -> PendingCall:
    """Judge a call of a person or a flow, and record it in the journal with the current step."""
    call = await judge_with_hooks(use, ports, state, origin)
    wish = use.model_copy(update={"arguments": call.arguments}) if call.edited else use
    await ports.journal.record_proposal(wish, call)
    return call


async def propose_nested(use: ToolUse, ports: Ports, state: ApplicationState, number: int) -> PendingCall:
    """Judge a call that the tool of a running call requests; nothing is recorded here."""
    why = _TOO_MANY_NESTED if number > MOST_NESTED_CALLS else _why_unlisted(use, ports)
    if why := why or ports.requests.why_inactive(use.tool, state.equipment):
        return _make_invalid_call(_record_origin(use, "tool"), why)
    return await judge_with_hooks(use, ports, state, "tool")


async def judge_with_hooks(
    use: ToolUse, ports: Ports, state: ApplicationState, origin: Origin = "model"
) -> PendingCall:
    """Ask the hooks about a call and judge it with their verdict. This function records nothing."""
    advice = ports.hooks
    if advice is None:
        return judge(_record_origin(use, origin), ports, state)
    before = await advice.before_call(use)
    if before.arguments is not None:
        use = use.model_copy(update=mask_call_fields(encodable(before.arguments), ports.masker))
        ports.emit(Notice(f"A hook changed the arguments of {use.tool} ({use.call_id})."))
    call = judge(_record_origin(use, origin, before.verdict), ports, state, before.verdict)
    if call.decision != "undecided":
        return call
    answer = await advice.on_question(call)
    if answer is None or not answer.decision:
        return call
    is_edited = before.verdict is not None and before.verdict.edited
    verdict = answer.model_copy(update={"edited": is_edited})
    return judge(_record_origin(use, origin, verdict), ports, state, verdict)


def _record_origin(use: ToolUse, origin: Origin, hook: HookVerdict | None = None) -> ToolUse | PendingCall:
    """Return the call with its origin: an unchanged `ToolUse` if a model requested the call, else a
    `PendingCall`.
    """
    if origin == "model":
        return use
    edited = hook is not None and hook.edited
    return PendingCall(
        call_id=use.call_id,
        tool=use.tool,
        arguments=use.arguments,
        masked=use.masked,
        edited=edited,
        hook=hook,
        origin=origin,
    )


async def find_hook_denials(pending: Sequence[PendingCall], ports: Ports) -> tuple[CallDecision, ...]:
    """Ask the hooks about undecided calls and return their denials. A person decides about the other
    calls.
    """
    found: list[CallDecision] = []
    for call in pending:
        if ports.hooks is None or call.decision != "undecided" or call.kind != "approval":
            continue
        answer = await ports.hooks.on_question(call)
        if answer is not None and answer.decision == "deny":
            found.append(CallDecision(call_id=call.call_id, reason=answer.reason, by=HOOK_DECIDES))
    return tuple(found)


def _explain_placeholder(tool: Tool, arguments: str, ports: Ports) -> str:
    """Return why a call that contains the placeholder of a secret cannot run; empty if it can."""
    if "[masked " not in arguments or tool.effect == "read":
        return ""
    found = find_placeholder(parse_json_object(arguments), tool.traits.references)
    return (
        explain_refusal(found, ports.masker.describe_access(found), tool.traits.runs_commands)
        if found
        else ""
    )


def why_lost(call: PendingCall, ports: Ports) -> str:
    """Return why a call cannot run because only an ended process knew its secrets; empty if it can run."""
    references, tool = ports.masker.references, ports.toolbox.get(call.tool)
    if not call.masked or tool is None or not references.has_key:
        return ""
    if references.find_original(call.arguments) is not None:
        return ""
    # File tools can fill in the values of these placeholders themselves.
    found = find_placeholder(parse_json_object(call.arguments), tool.traits.references)
    return explain_lost_value(found) if found or not tool.traits.references else ""


def _make_invalid_call(use: ToolUse | PendingCall, reason: str) -> PendingCall:
    return PendingCall(
        call_id=use.call_id,
        tool=use.tool,
        arguments=use.arguments,
        masked=use.masked,
        decision="invalid",
        decided_by="runtime",
        reason=reason,
        edited=isinstance(use, PendingCall) and use.edited,
        origin=use.origin if isinstance(use, PendingCall) else "model",
    )


def count_bad_rounds(before: ApplicationState, pending: Sequence[PendingCall]) -> int:
    """Return how many rounds in a row contained no usable call."""
    return 0 if any(call.decision != "invalid" for call in pending) else before.bad_rounds + 1


def answer_all(message: Message, answers: dict[str, str], otherwise: str) -> list[Message]:
    """Return a result for every call of `message`. `answers` contains results by call id; all other calls get
    the error `otherwise`.
    """
    return [
        tool_message(
            ToolResult(
                call_id=use.call_id,
                tool=use.tool,
                outcome="ok" if use.call_id in answers else "error",
                content=answers.get(use.call_id, otherwise),
            )
        )
        for use in message.tool_uses
    ]
