"""`sandbur approve` and `sandbur deny`: decide about waiting calls from outside and carry the run on."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from state.errors import UsageError
from ui.arguments import Arguments
from ui.headless import run_to_end, warn
from ui.jsonlines import arguments_object
from ui.opening import opened

if TYPE_CHECKING:
    from state.calls import CallDecision, PendingCall


async def decide(arguments: Arguments) -> int:
    """Record the decision of the flags; run on from there unless it is only to be recorded."""
    edited = _edited(arguments.edit)
    async with opened(arguments) as runtime:
        session = await runtime.resume(runtime.store.find(arguments.session))
        warn(session.notices, arguments)
        waiting = [call for call in session.state.pending_tool_calls if call.decision == "undecided"]
        if session.next_action != "human_confirm" or not waiting:
            raise UsageError(
                f"No call of session {session.id} waits for a decision.",
                f"`sandbur sessions show {session.id}` shows where it stands.",
            )
        decisions = _decisions(_chosen(waiting, arguments), arguments, edited)
        events = session.decide(decisions, record_only=arguments.record_only)
        return await run_to_end(session, events, _as_decided(waiting, decisions), arguments)


def _chosen(waiting: "list[PendingCall]", arguments: Arguments) -> "list[PendingCall]":
    """Return the calls that the command line means."""
    if arguments.all or (len(waiting) == 1 and not arguments.calls):
        return waiting
    listed = ", ".join(call.call_id for call in waiting)
    if not arguments.calls:
        raise UsageError(f"{len(waiting)} calls wait: {listed}.", "Name the ones you mean, or say --all.")
    chosen: dict[str, PendingCall] = {}
    for wanted in arguments.calls:
        matches = [call for call in waiting if call.call_id == wanted] or [
            call for call in waiting if call.call_id.startswith(wanted)
        ]
        if len(matches) != 1:
            problem = "fits several calls" if matches else "waits for no decision"
            raise UsageError(f"`{wanted}` {problem}.", f"These calls wait: {listed}.")
        chosen[matches[0].call_id] = matches[0]
    return list(chosen.values())


def _decisions(chosen: "list[PendingCall]", arguments: Arguments, edited: str | None) -> "list[CallDecision]":
    from state.calls import CallDecision

    if edited is not None and len(chosen) != 1:
        raise UsageError("--edit changes one call.", "Name the call it is for.")
    approved = arguments.command == "approve"
    return [
        CallDecision(call_id=call.call_id, approved=approved, reason=arguments.reason, arguments=edited)
        for call in chosen
    ]


def _as_decided(waiting: "list[PendingCall]", decisions: "list[CallDecision]") -> "list[PendingCall]":
    """Return the calls with the arguments that they run with."""
    changed = {decision.call_id: decision.arguments for decision in decisions if decision.arguments}
    return [
        call.model_copy(update={"arguments": changed.get(call.call_id, call.arguments)}) for call in waiting
    ]


def _edited(path: Path | None) -> str | None:
    """Return the JSON arguments in the file, or on stdin for `-`."""
    if path is None:
        return None
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--edit: {path} cannot be read: {error}.") from None
    if not isinstance(arguments_object(text), dict):
        raise UsageError(f"--edit: {path} does not hold a JSON object.", 'Such as {"command": "ls"}.')
    return text.strip()
