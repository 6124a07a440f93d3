"""Adds the results of calls to the active history: one per call, in order, shortened if they are too
large.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ....state.application import HANDS_OFF, ApplicationState
from ....state.calls import JournaledCall, PendingCall, parent_call_id_of
from ....state.conversation.approved_plan import ApprovedPlan
from ....state.conversation.attachments import AttachedFile
from ....state.conversation.messages import (
    Equipment,
    HandOff,
    Message,
    Outcome,
    PageEdit,
    Text,
    ToolResult,
    ToolUse,
    encodable,
    flow_call_message,
    runtime_message,
    tool_message,
    user_command_message,
)
from ....state.conversation.plan_notebook import PlanChange
from ....state.conversation.usage import Usage
from ....state.process.crashpoints import reach
from ...ports import Journal, Ports, Resumable, Toolbox, ToolOutcome, implements
from ..commands import parse_shell_command
from ..plan.approved import begin_plan
from ..plan.notebook import apply_plan_changes
from ..plan.parallel_steps import end_answered_steps
from ..session_page import apply_page_edits
from .equipping import merge_equipment

_SESSION_TEMP = "temp"
"""The name of a folder in the scratch folder of a session, which also contains the folders of calls."""


def session_temp(scratch: Path) -> Path:
    """Return the folder that sandboxed commands of a session see as `/tmp`. It is one level deeper than the
    folders of calls.
    """
    return scratch / _SESSION_TEMP / "files"


def temp_of(ports: Ports) -> Path | None:
    return None if ports.places.scratch is None else session_temp(ports.places.scratch)


def scratch_of(ports: Ports, call_id: str) -> Path | None:
    """Return the folder for the files of a call, or None if the session has no scratch folder."""
    return None if ports.places.scratch is None else _scratch_below(ports.places.scratch, call_id)


@lru_cache(maxsize=64)
def _scratch_below(folder: Path, call_id: str) -> Path:
    # Call ids come from providers, so they are not used as file names.
    return folder / hashlib.sha256(call_id.encode()).hexdigest()[:24]


def clear(scratch: Path | None) -> None:
    if scratch is not None and scratch.exists():
        reach("scratch_mid")
        shutil.rmtree(scratch, ignore_errors=True)
        remove_if_empty(scratch.parent)


def remove_if_empty(scratch: Path | None) -> None:
    """Remove the folder of a session if it is empty."""
    if scratch is not None:
        with suppress(OSError):
            scratch.rmdir()


def clear_once_committed(ports: Ports, call_id: str) -> None:
    """Delete the files of a call as soon as its result is on disk."""
    scratch = scratch_of(ports, call_id)
    ports.journal.after_commit(lambda: clear(scratch))


def sweep_once_committed(ports: Ports, open_calls: Iterable[str]) -> None:
    """Delete the files of calls that are not open any more, as soon as this process certainly owns the
    session.
    """
    kept = {scratch_of(ports, call_id) for call_id in open_calls}
    kept |= {None if ports.places.scratch is None else ports.places.scratch / _SESSION_TEMP}

    def sweep() -> None:
        if ports.places.scratch is not None and ports.places.scratch.is_dir():
            with suppress(OSError):
                for folder in set(ports.places.scratch.iterdir()) - kept:
                    clear(folder)

    ports.journal.after_commit(sweep)


async def sweep(state: ApplicationState, ports: Ports) -> None:
    """Delete the files of killed runs, except those of calls with an unknown outcome."""
    pending = [call.call_id for call in state.pending_tool_calls]
    recorded = await ports.journal.load_calls(pending)
    started = [call_id for call_id, call in recorded.items() if call.move == "started"]
    sweep_once_committed(ports, started)


_UNKNOWN = (
    "This was running when the process died (started {at}). It may or may not have taken effect.{note}"
    " It was not run again: verify its effect before you repeat it. Output so far: {output}"
)
_SETTLED = {
    "done": "The process died while this ran. The user says that it was done.",
    "failed": "The process died while this ran. The user says that it failed or did not take effect.",
}
_TO_CHECK = (
    "The process died while this ran (started {at}). Nobody knows whether it took effect, and the user asks"
    " you to find out.{note} It was not run again. First look, with tools that only read, at what it would"
    " have changed; do not do any of it again before you know. Then say what you found."
    " Output so far: {output}"
)
_SUPERSEDED = "Not run: the user sent another message before it could run."
_STOPPED = (
    "Stopped in its middle: the user sent another message before its end. These calls were made:\n{calls}"
)
_MOST_LISTED = 30
_MOST_ARGUMENT_CHARS = 160


def with_results(
    state: ApplicationState,
    results: Sequence[ToolResult],
    left: tuple[PendingCall, ...] = (),
    more: Message | None = None,
) -> dict[str, Any]:
    """Return the state changes that append `results` to the active history; `left` are the calls without a
    result.

    The result of a nested call goes to the tool that requested the call, and into no history. That of a
    step's sub-agent ends the step. `more` is a message to the model that follows the results.
    """
    own = {call.call_id: call for call in state.pending_tool_calls if call.origin != "model"}
    answers = [one for one in results if not parent_call_id_of(one.call_id)]
    messages = [
        _make_command_message(own[one.call_id], one, state) if one.call_id in own else tool_message(one)
        for one in answers
        if state.find_step_of_call(one.call_id) is None
    ]
    if state.note and not left:
        messages.append(runtime_message(state.note))
    if more is not None:
        messages.append(more)
    cleared: dict[str, Any] = {"pending_tool_calls": left, "note": state.note if left else ""}
    cleared |= merge_equipment(state, results) | _change_speaker(state, results)
    cleared |= begin_plan(state, results) | end_answered_steps(state, own.values(), answers)
    if used := [one.usage for one in results if one.usage is not None]:
        cleared = {**state.add_usage(sum(used, Usage())), **cleared}
    changes = {**state.replace_history(state.active_history.append(*messages)), **cleared}
    return {**apply_plan_changes(state, changes, answers), **apply_page_edits(state, answers)}


def _change_speaker(state: ApplicationState, results: Iterable[ToolResult]) -> dict[str, Any]:
    """Return the state changes for the agent that has the conversation after the results."""
    newest = next((one.hand_off for one in reversed(list(results)) if one.hand_off is not None), None)
    if newest is None:
        return {}
    # An older program would answer with the wrong agent.
    version = max(state.graph_version, HANDS_OFF)
    return {"hand_off": newest if newest.agent else None, "graph_version": version}


def _make_command_message(call: PendingCall, result: ToolResult, state: ApplicationState) -> Message:
    """Return the message with the call of a person or a flow and its result; no model requested it."""
    use = ToolUse(call_id=call.call_id, tool=call.tool, arguments=call.arguments, masked=call.masked)
    if call.origin == "flow":
        return flow_call_message(use, result)
    return user_command_message(use, result, parse_shell_command(state.user_input) is not None)


def result(
    call: PendingCall,
    outcome: Outcome,
    content: str,
    duration_ms: int | None = None,
    blocks: tuple[Text | AttachedFile, ...] = (),
    ends_run: str | None = None,
    equips: Equipment | None = None,
    usage: Usage | None = None,
    hand_off: HandOff | None = None,
    plan: ApprovedPlan | None = None,
    plan_change: PlanChange | None = None,
    page: PageEdit | None = None,
) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        tool=call.tool,
        outcome=outcome,
        content=encodable(content),
        blocks=blocks,
        duration_ms=duration_ms,
        ends_run=None if ends_run is None else encodable(ends_run),
        equips=equips,
        usage=usage,
        hand_off=hand_off,
        plan=plan,
        plan_change=plan_change,
        page=page,
    )


_DENIERS = {"person": "the user", "hook": "a hook of the user"}
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")


def edit_note(call: PendingCall) -> str:
    """Return the note that precedes the result of a call whose arguments a person or a hook changed."""
    if not call.edited:
        return ""
    who = "a hook of the user" if call.hook is not None and call.hook.edited else "the user"
    return f"({who} edited this call: {call.arguments})\n"


def refusal(call: PendingCall) -> ToolResult | None:
    """Return the result of a call that never runs because it is denied or invalid; None if it may run."""
    if call.decision == "invalid":
        return result(call, "error", call.reason)
    if call.decision != "denied":
        return None
    who = _DENIERS.get(call.decided_by, "policy")
    reason = f": {call.reason}" if call.reason else ""
    end = "" if reason.endswith(_SENTENCE_ENDS) else "."
    return result(call, "denied", f"Denied by {who}{reason}{end} It did not run.")


def find_settled_result(call: PendingCall, recorded: JournaledCall | None) -> ToolResult | None:
    """Return the result that an earlier run recorded, or None if the call may run."""
    if recorded is None or recorded.move == "proposed":
        return None
    if recorded.result is not None:
        return recorded.result
    known = call.recovery
    if recorded.starts <= known.starts:
        if known.settled_as == "rerun":
            return None
        if known.settled_as in _SETTLED:
            detail = f"\n{known.settled_result}" if known.settled_result else ""
            outcome: Outcome = "ok" if known.settled_as == "done" else "error"
            return result(call, outcome, _SETTLED[known.settled_as] + detail)
    note = f" {known.note}" if known.note else ""
    output = f"\n{known.output}" if known.output else "none is known."
    is_to_check = recorded.starts <= known.starts and known.settled_as == "check"
    addition = f"\nThe user adds: {known.settled_result}" if is_to_check and known.settled_result else ""
    text = (_TO_CHECK if is_to_check else _UNKNOWN).format(at=recorded.at, note=note, output=output)
    return result(call, "unknown", text + addition)


async def list_nested_calls(journal: Journal, call_id: str) -> str:
    """Return the recorded nested calls of a call as text, one per line; empty if there are none."""
    calls = [nested.call for nested in await journal.load_nested_calls(call_id)]
    known = await journal.load_calls(call.call_id for call in calls)
    lines = [
        describe_nested_call(number, call.tool, call.arguments, _describe_progress(known.get(call.call_id)))
        for number, call in enumerate(calls[:_MOST_LISTED], 1)
    ]
    more = len(calls) - len(lines)
    return "\n".join([*lines, *([f"and {more} more"] if more else [])])


def _describe_progress(recorded: JournaledCall | None) -> str:
    if recorded is None or recorded.move == "proposed":
        return "did not run"
    return "outcome unknown" if recorded.result is None else recorded.result.outcome


def describe_nested_call(number: int, tool: str, arguments: str, outcome: str) -> str:
    """Return one line about a nested call: its number, tool, arguments and outcome."""
    display_text = (
        arguments if len(arguments) <= _MOST_ARGUMENT_CHARS else f"{arguments[:_MOST_ARGUMENT_CHARS]}..."
    )
    return f"{number}. {tool} {display_text}: {outcome}"


async def close_calls(state: ApplicationState, ports: Ports) -> ApplicationState:
    """Give each pending call a result without running it."""
    calls = [call for call in state.pending_tool_calls if call.sub_agent is None]
    recorded = await ports.journal.load_calls(call.call_id for call in calls)
    results: list[ToolResult] = []
    for call in calls:
        known = recorded.get(call.call_id)
        answer = _describe_stop(call, known, ports)
        answer = answer or find_settled_result(call, known) or refusal(call)
        if answer is None:
            made = await list_nested_calls(ports.journal, call.call_id)
            why = _STOPPED.format(calls=made) if made else _SUPERSEDED
            answer = result(call, "interrupted", why)
        if known is None or known.result is None:
            clear_once_committed(ports, call.call_id)
            await ports.journal.record_result(answer, flush=False)
        results.append(answer)
    return state.model_copy(update=with_results(state, results))


def _describe_stop(call: PendingCall, recorded: JournaledCall | None, ports: Ports) -> ToolResult | None:
    """Return the result of a resumable call that is ended now; None for every other call."""
    tool = ports.toolbox.get(call.tool)
    is_open = recorded is not None and recorded.move == "started" and recorded.result is None
    if not is_open or not implements(tool, Resumable):
        return None
    text = tool.describe_stop(ports.session_id, call.call_id)
    return result(call, "interrupted", text) if text else None


_LEAST_TOKENS_PER_BYTE = 0.25
"""The lower bound of the ratio. A ratio learned from a few short requests must not let a huge result pass."""
_KEPT_SHARE = 0.25
_HEAD_SHARE = 0.6
_LONGEST_SNAP = 2000
"""A cut moves to the end of a line that is at most this many bytes away."""
MAX_ROW_CHARACTERS = 1000
"""The longest row in characters. Longer lines are split into rows, because JSON is often a single line."""


def most_bytes(max_tokens: int, tokens_per_byte: float) -> int:
    """Return the largest size of a result in bytes; 0 means no limit."""
    return int(max_tokens / max(tokens_per_byte, _LEAST_TOKENS_PER_BYTE))


def limit_outcome(outcome: ToolOutcome, call_id: str, limit_bytes: int, tools: Toolbox) -> ToolOutcome:
    """Return the outcome shortened for the model. The store keeps the whole output, which is in
    `full_output`.
    """
    beside = [block.text for block in outcome.blocks if isinstance(block, Text)]
    text = "\n".join((outcome.content, *beside))
    if limit_bytes and len(text.encode(errors="replace")) > limit_bytes:
        files = tuple(block for block in outcome.blocks if not isinstance(block, Text))
        is_whole = not _has_whole(outcome)
        shortened = _cut_middle(text, call_id, int(limit_bytes * _KEPT_SHARE), tools, is_whole)
        outcome = replace(outcome, content=shortened, blocks=files)
        kept = (text if is_whole else "\n".join(("", *beside))).encode(errors="replace")
        if outcome.output_file is not None:
            outcome.output_file.append(kept)
            return outcome
        return replace(outcome, full_output=(outcome.full_output or b"") + kept)
    reader = format_read_call(tools, call_id) if _has_whole(outcome) else ""
    if not reader:
        return outcome
    # The tool itself wrote the last line: an exit code, or a note about the rest of a page.
    above, line, last = outcome.content.rpartition("\n")
    hint = f"[the whole output: {reader}]"
    return replace(outcome, content=f"{above}{line}{hint}\n{last}")


def _has_whole(outcome: ToolOutcome) -> bool:
    return outcome.full_output is not None or outcome.output_file is not None


def format_read_call(tools: Toolbox, call_id: str, offset: int = 1) -> str:
    """Return the tool call, as text, that reads a stored result; empty if no tool reads results."""
    reader = next((name for name, tool in tools.items() if tool.traits.reads_results), "")
    more = f", offset={offset}" if offset > 1 else ""
    return f'{reader}(handle="{call_id}"{more})' if reader else ""


def _cut_middle(text: str, call_id: str, size_bytes: int, tools: Toolbox, is_whole: bool) -> str:
    """Return the beginning and the end of a text, with a line between them that says how much is left out.

    `is_whole`: the store keeps exactly this text, so row numbers mean the same there.
    """
    head, tail = _take_ends(text, size_bytes)
    left_out = len(text) - len(head) - len(tail)
    reader = format_read_call(tools, call_id, _row_after(head) if is_whole else 1)
    how = f": {reader}" if reader else ""
    note = f"[... {left_out:,} of {len(text):,} characters are left out; all is kept{how} ...]"
    return f"{head.rstrip(chr(10))}\n{note}\n{tail}"


def _row_after(head: str) -> int:
    """Return the number of the first row that `head` does not contain completely."""
    return len(split_rows(head)) + head.endswith("\n")


def _take_ends(text: str, size_bytes: int) -> tuple[str, str]:
    first = int(size_bytes * _HEAD_SHARE)
    return _take_beginning(text, first), _take_end(text, size_bytes - first)


def _take_beginning(text: str, size_bytes: int) -> str:
    kept = text[:size_bytes].encode(errors="replace")[:size_bytes].decode(errors="ignore")
    snap = kept.rfind("\n", max(len(kept) - _LONGEST_SNAP, 0))
    return kept if snap < 0 else kept[: snap + 1]


def _take_end(text: str, size_bytes: int) -> str:
    kept = text[-size_bytes:].encode(errors="replace")[-size_bytes:].decode(errors="ignore")
    snap = kept.find("\n", 0, _LONGEST_SNAP)
    return kept if snap < 0 else kept[snap + 1 :]


def split_rows(text: str) -> list[str]:
    """Split a stored text into rows. A row is a line; longer lines are split at `MAX_ROW_CHARACTERS`."""
    return [row for line in _lines(text) for row in _split_line(line)]


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _split_line(line: str) -> Iterator[str]:
    if len(line) <= MAX_ROW_CHARACTERS:
        yield line
        return
    for start in range(0, len(line), MAX_ROW_CHARACTERS):
        yield line[start : start + MAX_ROW_CHARACTERS]


def find_ending_result(results: Mapping[int, ToolResult]) -> ToolResult | None:
    """Return the first result, in the order of the calls, that ends the run, or None if no result ends it."""
    return next((results[place] for place in sorted(results) if results[place].ends_run is not None), None)
