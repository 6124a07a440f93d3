"""Decides which reply is the answer: a text in the required format, or a call of the done tool."""

import json
import re
from math import isfinite
from typing import Any, NamedTuple

from ....state.application import ENDED_BY_TOOL, ApplicationState
from ....state.conversation.messages import (
    Message,
    ToolUse,
    assistant_message,
    refuse_json_constant,
    runtime_message,
)
from ....state.conversation.transcript import Transcript
from ....state.errors import DoneToolNotCalled, OutputInvalid
from ....state.process.crashpoints import reach
from ...ports import Ports, Reply
from ..burr_action import Changes
from ..calls.proposals import answer_all
from ..plan.decision_tools import FINAL_ANSWER
from .format import OutputFormat, output_format
from .strict_schema import without_added_nulls

MOST_REPAIRS = 1
MOST_REMINDERS = 3
MOST_VALIDATIONS = 3
"""How many times in a row a program may refuse an answer before the run ends as an error."""
_MOST_RAW_CHARS = 2000
REJECTED = "This is not the answer that is asked for: {problem}\nGive the whole answer again, corrected."
_REMINDER = "The work is not ended by an answer in words. Call {tool} to finish."
_ACCEPTED = "The answer is accepted."
_CUT = "it was cut at the output limit; make it shorter."
_FENCED = re.compile(r"\s*```[\w-]*\n(.*)\n```\s*", re.DOTALL)


class ReadAnswer(NamedTuple):
    """A parsed answer."""

    text: str
    """The answer as JSON text, or the raw text if it is not JSON."""
    value: Any = None
    problem: str = ""
    """Why the answer is not valid; empty if it is valid."""


class Closing(NamedTuple):
    """The result of a check of an answer: the answer is accepted, or the model must answer again."""

    changes: Changes
    notice: str = ""
    """A notice for the person; empty if there is none."""
    answer: str = ""
    """The answer text if it came as a call of the answer tool; empty if the text of the reply is the
    answer.
    """
    held: Transcript | None = None
    """The history without the accepted answer, for a turn that a hook continues; None if the answer is
    rejected.
    """


def read_answer(output: OutputFormat, text: str) -> ReadAnswer:
    """Parse an answer as JSON of the format `output`, with or without a code fence."""
    fenced = _FENCED.fullmatch(text)
    inner = (fenced[1] if fenced else text).strip()
    try:
        given = json.loads(inner, parse_constant=refuse_json_constant, parse_float=_parse_finite)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        return ReadAnswer(text, problem=f"it is not JSON ({reason}).")
    value = without_added_nulls(output.schema, output.unwrap(given), output.schema)
    problem = output.check(value)
    return ReadAnswer(inner if value == given else json.dumps(value, ensure_ascii=False), value, problem)


def _parse_finite(written: str) -> float:
    number = float(written)
    return number if isfinite(number) else refuse_json_constant(written)


def find_run_output(state: ApplicationState, ports: Ports) -> OutputFormat | None:
    """Return the output format of the current run or else of the session, or None if the answer is a free
    text.
    """
    options = state.run_options
    if options.output is None:
        return None if options.is_text else ports.turn.output
    own = ports.inputs.output
    return own if own is not None and own.output_schema == options.output else output_format(options.output)


def is_ended_by_tool(ports: Ports) -> bool:
    """Return whether a call of the done tool ends the run."""
    return ports.turn.done_tool in ports.toolbox


def is_free(state: ApplicationState, ports: Ports) -> bool:
    """Return whether any text answer ends the turn."""
    is_text = find_run_output(state, ports) is None
    return is_text and not ports.turn.done_tool and ports.inputs.validate is None


def find_output_format(state: ApplicationState, ports: Ports) -> OutputFormat | None:
    """Return the format of text answers, or None if they are free or the done tool ends the run."""
    return None if is_ended_by_tool(ports) else find_run_output(state, ports)


def find_repair_tool(state: ApplicationState, ports: Ports) -> str | None:
    """Return the tool that the model must call after a rejected answer, or None if it need not call one.

    The answer tool has the format of the session. A run can replace that format; then this tool is not used.
    """
    has_own_format = state.run_options.output is not None
    is_needed = state.rejected_answers and not has_own_format
    return FINAL_ANSWER if is_needed and find_output_format(state, ports) is not None else None


def refuse_further_tries(state: ApplicationState, ports: Ports) -> None:
    """Raise `OutputInvalid` or `DoneToolNotCalled` after the last allowed rejection."""
    if state.rejected_answers <= _get_rejection_limit(ports):
        return
    answer, correction = list(state.chat_history)[-2:]
    raw = answer.text or next((use.arguments for use in answer.tool_uses), "")
    excerpt = raw if len(raw) <= _MOST_RAW_CHARS else f"{raw[:_MOST_RAW_CHARS]} ..."
    hint = "Resume to let the model try once more."
    if is_ended_by_tool(ports):
        raise DoneToolNotCalled(
            f"The model did not call {ports.turn.done_tool} to finish, although it was asked to do so"
            f" {MOST_REMINDERS} times. Its answer: {excerpt}",
            hint,
        )
    output = find_run_output(state, ports)
    what = "was not accepted" if output is None else f"did not fit the schema {output.name}"
    raise OutputInvalid(
        f"The answer {what}, also after the model was asked again: {parse_problem(correction)}"
        f" The model wrote: {excerpt}",
        hint,
    )


def _get_rejection_limit(ports: Ports) -> int:
    if ports.inputs.validate is not None:
        return MOST_VALIDATIONS
    return MOST_REMINDERS if is_ended_by_tool(ports) else MOST_REPAIRS


def allow_another_try(state: ApplicationState, ports: Ports) -> Changes:
    """Return the changes by which a resume allows one more try after the last rejection."""
    most = _get_rejection_limit(ports)
    return {"rejected_answers": most} if state.rejected_answers > most else {}


async def check_answer(
    before: ApplicationState, ports: Ports, reply: Reply, message: Message
) -> Closing | None:
    """Check an answer that needs a format, the done tool or the validation of the program. Return None for
    any other reply.
    """
    output, use = find_run_output(before, ports), _final_call(before, ports, message)
    if message.tool_uses and use is None:
        return None
    history = before.chat_history.append(message)
    if use is None and is_ended_by_tool(ports):
        reminder = runtime_message(_REMINDER.format(tool=ports.turn.done_tool))
        return Closing(_reject_answer(before, history.append(reminder)))
    if output is None and ports.inputs.validate is None:
        return None
    text = message.text if use is None else use.arguments
    answer = ReadAnswer(text, text) if output is None else read_answer(output, text)
    problem = _CUT if output is not None and reply.finish == "length" else answer.problem
    if problem := problem or await _validate(answer, ports):
        reach("repair_before_commit")
        reminder = REJECTED.format(problem=problem)
        result = [runtime_message(reminder)] if use is None else answer_all(message, {}, reminder)
        form = "not accepted" if output is None else "not in the required form"
        notice = f"The answer is {form}: {problem}"
        return Closing(_reject_answer(before, history.append(*result)), notice)
    if use is None:
        return Closing(_close_turn(before, history), held=history)
    history = history.append(*answer_all(message, {use.call_id: _ACCEPTED}, ""))
    changes = _close_turn(before, history.append(assistant_message(answer.text, "runtime")))
    return Closing(changes, answer=answer.text, held=history)


async def _validate(answer: ReadAnswer, ports: Ports) -> str:
    """Return why the program does not accept an answer; empty if it does."""
    return "" if ports.inputs.validate is None else await ports.inputs.validate(answer.text, answer.value)


def _final_call(state: ApplicationState, ports: Ports, message: Message) -> ToolUse | None:
    """Return the call of the answer tool if it is the only call of the reply, else None."""
    uses = message.tool_uses
    is_one = find_output_format(state, ports) is not None and len(uses) == 1 and uses[0].tool == FINAL_ANSWER
    return uses[0] if is_one else None


def _close_turn(before: ApplicationState, history: Transcript) -> Changes:
    changes: Changes = {"chat_history": history, "turn_open": False, "phase": "idle", "bad_rounds": 0}
    return {**changes, "rejected_answers": 0} if before.rejected_answers else changes


def _reject_answer(before: ApplicationState, history: Transcript) -> Changes:
    return {
        "chat_history": history,
        "rejected_answers": before.rejected_answers + 1,
        "bad_rounds": 0,
        # An older program would accept the rejected answer.
        "graph_version": max(before.graph_version, ENDED_BY_TOOL),
    }


def parse_problem(message: Message | None) -> str:
    """Return why an answer was rejected. The reason is in the message that the model got."""
    if message is None:
        return ""
    text = message.text or next((result.content for result in message.tool_results), "")
    before, _, after = REJECTED.partition("{problem}")
    return text.removeprefix(before).removesuffix(after)
