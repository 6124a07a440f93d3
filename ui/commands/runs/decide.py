"""`sandbur approve`, `deny` and `settle`: decide about pending calls, and resume the run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

from ....actions.masking.references import mask_arguments
from ....actions.ports import Masker
from ....agent.runtime.runtime import Runtime
from ....agent.session.decisions import ApprovalAnswer, make_decision
from ....agent.session.session import Session
from ....state.calls import CallDecision, PendingCall, Settlement, relayed_call_id
from ....state.errors import UsageError, name_session
from ....state.store.sessions.deaths import PARKED
from ....state.store.sessions.listing import FolderFilter
from ....state.store.store import Store
from ...cli.open_session import open_runtime
from ...headless.headless import run_to_end, warn
from ...headless.json_output import arguments_object
from ...terminal.terminal import say
from .command import DecideCommand


async def decide(command: DecideCommand) -> int:
    """Record the decision of the flags; resume the run unless `--record-only` is given."""
    edited = _read_edited(command.edit)
    async with open_runtime(command) as runtime:
        session_id = runtime.store.find(command.session or _find_only_waiting(runtime, command.name))
        with name_session(session_id):
            if _is_for_parked(runtime.store, session_id, command):
                return await _lift(runtime, session_id, command)
            return await _decide_in(runtime, session_id, command, edited)


async def _decide_in(runtime: Runtime, session_id: str, command: DecideCommand, edited: str | None) -> int:
    session, named = await _open_waiting(runtime, session_id, command)
    warn(session.notices, command.progress)
    waiting = list(session.state.calls_to_decide)
    if command.record_only and edited is not None:
        _refuse_secrets(edited, mask_arguments(edited, session.ports.masker))
    chosen = _choose_calls(session.id, waiting, command, named)
    if command.plan:
        chosen = [_find_plan(session, chosen)]
    decisions = _decisions(chosen, command, edited)
    events = session.decide(decisions, record_only=command.record_only)
    return await run_to_end(
        session,
        events,
        (
            *session.state.pending_tool_calls,
            *_as_decided(waiting, decisions, session.ports.masker),
        ),
        command.progress,
        command.record_only,
    )


def _is_for_parked(store: Store, session_id: str, command: DecideCommand) -> bool:
    """Return whether the command approves that a parked session tries again, and no call."""
    if command.name != "approve" or command.calls or store.index.head(session_id).status != PARKED:
        return False
    return not store.show(session_id).state.calls_to_decide


async def _lift(runtime: Runtime, session_id: str, command: DecideCommand) -> int:
    """Let a parked session try again, at once or with `--record-only` later."""
    if command.record_only:
        await runtime.store.index.make_due(session_id)
        say(f"Recorded. Continue the run with: sandbur -r {session_id}, or with: sandbur resume --due")
        return 0
    session = await runtime.resume(session_id)
    warn(session.notices, command.progress)
    return await run_to_end(session, session.carry_on(), session.state.pending_tool_calls, command.progress)


def _find_only_waiting(runtime: Runtime, name: str) -> str:
    """Return the only session of the working folder that waits for a decision; raises `UsageError`."""
    here = runtime.store.roots(FolderFilter(str(runtime.settings.cwd)))
    waiting = [one for one in here if one.status in ("needs_approval", "needs_decision", PARKED)]
    if not waiting:
        raise UsageError(
            "No session of this folder waits for a decision.",
            f"Name one from elsewhere: sandbur {name} ID",
        )
    if len(waiting) > 1:
        ids = ", ".join(one.id[:8] for one in waiting)
        raise UsageError(
            f"{len(waiting)} sessions of this folder wait: {ids}.", f"Name one: sandbur {name} ID"
        )
    return waiting[0].id


async def _open_waiting(
    runtime: Runtime, session_id: str, command: DecideCommand
) -> tuple[Session, tuple[str, ...]]:
    """Return the session with the calls, and the calls that the command names in it.

    It is the named session, or that of a sub-agent which waits while the others run.

    Raises `UsageError` if no call waits.
    """
    needs_model = not command.record_only
    session = await runtime.resume(session_id, needs_model=needs_model)
    if session.next_action == "human_confirm" and session.state.calls_to_decide:
        return session, command.calls
    children = runtime.store.index.children_of(session_id)
    for child in (one for one in children if one.status in ("needs_approval", "needs_decision")):
        prefix = "" if child.spawned_by is None else relayed_call_id(child.spawned_by.call_id, "")
        words = tuple(word.removeprefix(prefix) for word in command.calls)
        ids = [call.call_id for call in runtime.store.show(child.id).state.calls_to_decide]
        if all(any(call_id.startswith(word) for call_id in ids) for word in words):
            return await runtime.resume(child.id, needs_model=needs_model), words
    raise UsageError(
        f"No call of session {session.id} waits for a decision.",
        f"`sandbur sessions show {session.id}` shows its state.",
    )


def _find_plan(session: Session, waiting: list[PendingCall]) -> PendingCall:
    """Return the waiting call that proposes a plan; raises `UsageError` if there is none."""
    tools = session.ports.toolbox
    plans = [call for call in waiting if call.tool in tools and tools[call.tool].traits.begins_plan]
    if not plans:
        raise UsageError(
            f"No plan of session {session.id} waits for a decision.",
            f"These calls wait: {_list_calls(waiting)}.",
        )
    return plans[0]


_PLACEHOLDER = "[masked "


def _refuse_secrets(edited: str, masked: str) -> None:
    """Raise `UsageError` if an edit contains a secret: it is not stored, so a later run would not have it."""
    if masked.count(_PLACEHOLDER) > edited.count(_PLACEHOLDER):
        raise UsageError(
            "The edit contains a secret, and secrets are not stored: a later process could not run the call.",
            "Leave --record-only out, or let the call read the value from a file or variable.",
        )


def _choose_calls(
    session_id: str, waiting: list[PendingCall], command: DecideCommand, named: tuple[str, ...]
) -> list[PendingCall]:
    """Return the calls that the command line selects.

    Raises `UsageError` if a call needs another command, or if several calls wait and none is named.
    """
    kind = "outcome_unknown" if command.name == "settle" else "approval"
    fitting = [call for call in waiting if call.kind == kind]
    if not named:
        if not fitting:
            raise _other_kind(session_id, waiting[0])
        if command.all or command.plan or len(fitting) == 1:
            return fitting
        raise UsageError(f"{len(fitting)} calls wait: {_list_calls(fitting)}.", _HINTS[kind])
    chosen = {call.call_id: call for call in (_find_named(word, waiting) for word in named)}
    for call in chosen.values():
        if call.kind != kind:
            raise _other_kind(session_id, call)
    return list(chosen.values())


_HINTS = {
    "approval": "Name one or more of them, or add --all.",
    "outcome_unknown": "Name one of them.",
}


def _find_named(wanted: str, waiting: list[PendingCall]) -> PendingCall:
    matches = [call for call in waiting if call.call_id == wanted] or [
        call for call in waiting if call.call_id.startswith(wanted)
    ]
    if len(matches) != 1:
        problem = "is the start of several ids" if matches else "is not a call that waits for a decision"
        raise UsageError(f"`{wanted}` {problem}.", f"These calls wait: {_list_calls(waiting)}.")
    return matches[0]


def _list_calls(calls: list[PendingCall]) -> str:
    return ", ".join(call.call_id for call in calls)


def _other_kind(session_id: str, call: PendingCall) -> UsageError:
    """Return the error for a call that needs another command."""
    if call.kind == "outcome_unknown":
        return UsageError(
            f"Call {call.call_id} was running when the process died; its outcome is unknown.",
            f"Settle it: sandbur settle {session_id} {call.call_id} --as done, failed, rerun or check",
        )
    return UsageError(
        f"Call {call.call_id} has not run yet; it waits for an approval.",
        f"Decide: sandbur approve {session_id} {call.call_id}, or: sandbur deny {session_id} {call.call_id}",
    )


def _decisions(chosen: list[PendingCall], command: DecideCommand, edited: str | None) -> list[CallDecision]:
    if edited is not None and len(chosen) != 1:
        raise UsageError("--edit changes one call.", "Name the call.")
    if command.settle_as is not None:
        settle = cast("Settlement", command.settle_as)
        return [make_decision(call.call_id, settle, command.result) for call in chosen]
    answer: ApprovalAnswer = "approve" if command.name == "approve" else "deny"
    return [make_decision(call.call_id, answer, command.reason, edited) for call in chosen]


def _as_decided(
    waiting: list[PendingCall], decisions: list[CallDecision], masker: Masker
) -> list[PendingCall]:
    """Return the calls with the edited arguments; secrets in these are masked."""
    changed = {
        decision.call_id: mask_arguments(decision.arguments, masker)
        for decision in decisions
        if decision.arguments
    }
    return [
        call.model_copy(update={"arguments": changed.get(call.call_id, call.arguments)}) for call in waiting
    ]


def _read_edited(path: Path | None) -> str | None:
    """Return the JSON arguments in a file, or from stdin if the path is `-`."""
    if path is None:
        return None

    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--edit: {path} cannot be read: {error}.") from None
    if not isinstance(arguments_object(text), dict):
        raise UsageError(f'--edit: {path} does not contain a JSON object such as {{"command": "ls"}}.')
    return text.strip()
