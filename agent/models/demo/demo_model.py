"""The demo: a small deterministic program with the interface of a model.

It needs no key and no network, and gives the same answer to the same request. It uses the real tools: its
reports come from their results.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any, NamedTuple

from ....actions.ports import ModelEvent, ModelRequest, Reply
from ....actions.ports.events import TextDelta
from ....actions.turn.plan.decision_tools import FINAL_ANSWER, PLAN_FINISHED, RESERVED_NAMES, SUBMIT_PLAN
from ....state.application import Usage
from ....state.conversation.messages import Block, Message, Text, ToolResult, ToolUse, parse_json_object
from .diagnosis import next_in_step, plan_steps, report
from .languages import LANGUAGES, language_of, request_in, speaks_of_trouble
from .phrases import Ability, Phrases
from .sample import sample_of

_PIECES = re.compile(r".{24}[^ \u2e80-\uffef]*|.+", re.DOTALL)
"""A piece of about the size that providers stream, cut at a blank or between CJK letters."""
_BYTES_PER_TOKEN = 4
_MAX_SUMMARY_LINES = 60
_MOST_LINES = 40
_README_LINES = 20

_STEP_ENDED = re.compile(r"^(?:assistant: )?Step \S+ (completed|failed): (.*)$", re.MULTILINE)
_STEP_TITLE = re.compile(r"^(?:Step \S+ of \d+|Plan step \S+ \[in_progress\]): (.+)$", re.MULTILINE)
_ASKS_FOR_SUMMARY = "Below is the older part of this session"
_PERSON = "user: "
"""The label of the user's messages in a history that is given as a text."""
_README = re.compile(r"\bREADME(?:\.(?:md|rst|txt))?(?![\w.])")
_TOOLS: Mapping[Ability, str] = {
    "run": "run_shell_command",
    "write": "write_file",
    "edit": "edit_file",
    "search": "grep",
    "read": "read_file",
    "list": "list_directory",
}
_PLAN_MODE = "plan mode only looks"
_NAMED_IN_PLAN: Mapping[Ability, tuple[str, str]] = {
    "run": ("runs", "command"),
    "write": ("writes", "path"),
    "edit": ("writes", "path"),
}
"""An ability that changes something -> the key of a plan that allows it, and the argument that it names."""
_QUOTES = {"'": "'", '"': '"', "“": "”", "‘": "’", "「": "」", "『": "』"}


class _Move(NamedTuple):
    """The text of a reply, and its tool call if it has one."""

    text: str
    tool: str = ""
    arguments: Mapping[str, Any] | None = None


Done = tuple[ToolUse, ToolResult]
"""A tool call and its result."""


class DemoModel:
    name = "demo"
    context_window = 100_000

    async def aclose(self) -> None:
        """Do nothing: the model holds no resource."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        phrases = _language(request)
        move = _format_answer(_possible(_move(request, phrases), request, phrases), request)
        for piece in _PIECES.findall(move.text):
            await asyncio.sleep(0)
            yield TextDelta(piece)
        blocks: tuple[Block, ...] = (Text(text=move.text),) if move.text else ()
        if move.tool:
            arguments = json.dumps(move.arguments)
            # The id is unique, and depends only on the session and the position in it.
            place = json.dumps([[len(history) for history in request.histories], move.tool, arguments])
            call_id = f"demo_{hashlib.sha256(place.encode()).hexdigest()[:16]}"
            blocks = (*blocks, ToolUse(call_id=call_id, tool=move.tool, arguments=arguments))
        message = Message(role="assistant", origin="model", blocks=blocks)
        yield Reply(message, "tool_calls" if move.tool else "stop", _usage(request, message))


def _usage(request: ModelRequest, message: Message) -> Usage:
    """Estimate the tokens of a request and its reply; the cost is zero."""
    tools = [[spec.name, spec.description, dict(spec.parameters)] for spec in request.tools]
    sent = len(request.system.encode()) + len(json.dumps(tools)) + request.size_bytes
    return Usage(
        llm_calls=1,
        input_tokens=-(-sent // _BYTES_PER_TOKEN),
        output_tokens=-(-message.size_bytes // _BYTES_PER_TOKEN),
    )


def _format_answer(move: _Move, request: ModelRequest) -> _Move:
    """Return the answer in the requested output format."""
    if request.output is None or move.tool:
        return move

    return _Move("", FINAL_ANSWER, sample_of(request.output.request_schema, move.text))


def _move(request: ModelRequest, phrases: Phrases) -> _Move:
    main, child = [*map(list, request.histories), [], []][:2]
    turn = _since_person(main)
    notice = main[-1].text if main and main[-1].origin == "runtime" else ""
    if child or request.forced_tool == SUBMIT_PLAN.name or notice.startswith(PLAN_FINISHED[:20]):
        return _follow_plan(turn, child, request, phrases)
    if notice.startswith(_ASKS_FOR_SUMMARY):
        return _Move(_summary(notice))
    if main and main[-1].role == "tool":
        done = _collect_results(turn)
        if _may_propose(done, request) and (plan := _write_plan(_find_last_message(turn))):
            return _Move("", "propose_plan", {"plan": plan})
        return _after_results(done, request, phrases)
    return _answer(_find_last_message(turn), phrases)


def _language(request: ModelRequest) -> Phrases:
    """Return the language of the user's newest message whose language is known."""
    main = list(request.histories[0]) if request.histories else []
    spoken = [message.text for message in reversed(main) if message.origin == "person"]
    # A summary that replaced messages contains the lines of the user.
    return language_of([*spoken, _find_pinned("The user's last message", main), *_person_lines(main)])


def _person_lines(main: Sequence[Message]) -> list[str]:
    lines = (line for message in main if message.origin == "runtime" for line in message.text.splitlines())
    return [line.removeprefix(_PERSON) for line in lines if line.startswith(_PERSON)][::-1]


def _possible(move: _Move, request: ModelRequest, phrases: Phrases) -> _Move:
    """Return another move in place of one whose tool this session does not have."""
    offered = {spec.name for spec in request.tools}
    if not move.tool or move.tool in offered:
        return move
    sentence = phrases.tool_missing.format(tool=move.tool)
    if len(request.histories) > 1 and "finish_step" in offered:
        return _Move("", "finish_step", {"status": "failed", "summary": sentence})
    return _Move(sentence)


def _since_person(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages from the user's last one on; all messages if a summary replaced that one."""
    starts = (at for at in range(len(messages) - 1, -1, -1) if messages[at].origin == "person")
    return messages[next(starts, 0) :]


def _find_last_message(turn: Sequence[Message]) -> str:
    return (_find_pinned("The user's last message", turn) or turn[0].text) if turn else ""


def _goal(turn: Sequence[Message]) -> str:
    """Return the goal of the newest plan."""
    uses = (use for message in reversed(turn) for use in message.tool_uses if use.tool == "start_plan")
    goals = ((parse_json_object(use.arguments) or {}).get("goal") for use in uses)
    return str(next(goals, None) or _find_pinned("Goal", turn) or _find_last_message(turn))


def _find_pinned(what: str, turn: Sequence[Message]) -> str:
    """Return a line that a summary quotes, such as the last user message; empty without a summary."""
    is_summary = turn and turn[0].origin == "runtime"
    found = re.search(rf"^{what}: (.+)$", turn[0].text, re.MULTILINE) if is_summary else None
    return found[1] if found else ""


def _steps_ended(turn: Sequence[Message]) -> list[tuple[str, str]]:
    """Return the status and the summary of each step that ended since the user's last message."""
    return [found for message in turn for found in _STEP_ENDED.findall(message.text)]


def _summary(text: str) -> str:
    """Summarize a history by the user's messages and the ends of steps, which is all that the demo needs."""
    lines = [line for line in text.splitlines() if line.startswith((_PERSON, "assistant: Step "))]
    return "\n".join(lines[-_MAX_SUMMARY_LINES:]) or language_of([]).nothing_to_summarize


def _collect_results(messages: Sequence[Message]) -> list[Done]:
    uses = {use.call_id: use for message in messages for use in message.tool_uses}
    results = (result for message in messages for result in message.tool_results)
    return [
        (uses[result.call_id], result)
        for result in results
        if result.call_id in uses and result.tool not in RESERVED_NAMES
    ]


def _follow_plan(
    turn: Sequence[Message], child: Sequence[Message], request: ModelRequest, phrases: Phrases
) -> _Move:
    """Submit a plan, work on its current step, or report what the finished plan found."""
    if request.forced_tool == SUBMIT_PLAN.name:
        steps = plan_steps(_goal(turn), [summary for _, summary in _steps_ended(turn)], phrases)
        return _Move("", "submit_plan", {"steps": [{"description": title} for title in steps]})
    if not child and any(use.tool == "propose_plan" for message in turn for use in message.tool_uses):
        return _Move("\n\n".join(summary for _, summary in _steps_ended(turn)))
    if not child:
        return _Move(f"{report(_steps_ended(turn), phrases)}\n\n{phrases.how_to_get_a_model}")
    found = _STEP_TITLE.search(child[0].text)
    title = found[1].strip() if found else ""
    done = _collect_results(child)
    if wish := _requested_call(title):
        summary = "\n\n".join(_describe(*one, phrases) for one in done)
        status = "completed" if all(result.outcome == "ok" for _, result in done) else "failed"
        return _Move("", "finish_step", {"status": status, "summary": summary}) if done else wish
    move = next_in_step(title, done)
    if move is None:
        summary = phrases.no_program.format(title=title or phrases.this_step)
        return _Move("", "finish_step", {"status": "failed", "summary": summary})
    if move.command:
        return _Move(move.reply, "run_shell_command", {"command": move.command})
    return _Move("", "finish_step", {"status": move.status, "summary": move.reply})


def _answer(text: str, phrases: Phrases) -> _Move:
    """Answer the user's newest message with a call, a plan, or a list of what the demo can do."""
    if plan := _write_plan(_find_task_to_plan(text)):
        return _Move("", "propose_plan", {"plan": plan})
    if wish := _requested_call(text):
        return wish
    if speaks_of_trouble(text):
        return _Move(phrases.plan_first, "start_plan", {"goal": text.strip()})
    return _Move(f"{_opening(text, phrases)}{phrases.how_to_get_a_model}\n\n{phrases.abilities}".strip())


def _requested_call(text: str) -> _Move | None:
    """Return the call that a message or a step of a plan asks for; None if it asks for none."""
    request = request_in(text)
    if request is None:
        return None
    return _Move("", _TOOLS[request.ability], dict(_arguments(request.arguments)) or {"path": "."})


def _find_task_to_plan(text: str) -> str:
    """Return the task in a message that asks for a plan that binds, such as `/plan create file a.txt with b`
    sends; empty in other messages."""
    before, asks, _ = text.partition("propose_plan")
    task, _, request = before.rpartition("\n\n")
    return (before if "\n" in request or not task else task).rstrip("` \n") if asks else ""


def _write_plan(task: str) -> str:
    """Return a plan with one step for each line of a task, which names what the step changes.

    It is empty if the demo cannot do a line.
    """
    lines = [line.strip() for line in task.splitlines() if line.strip()]
    plan = [f"# {'; '.join(lines)}"]
    for number, line in enumerate(lines, 1):
        request, call = request_in(line), _requested_call(line)
        if request is None or call is None or call.arguments is None:
            return ""
        plan.append(f"## {number}. {line}")
        if request.ability in _NAMED_IN_PLAN:
            key, argument = _NAMED_IN_PLAN[request.ability]
            plan.append(f"- {key}: `{call.arguments[argument]}`")
    return "\n".join(plan) if lines else ""


def _opening(text: str, phrases: Phrases) -> str:
    """Return a greeting if the user only greets, otherwise the sentence that the demo cannot do the
    request."""
    if any(re.fullmatch(one.understood.greeting, text, re.IGNORECASE) for one in LANGUAGES):
        return phrases.hello
    asks_for_help = not text.strip() or re.search(phrases.understood.help, text)
    return "" if asks_for_help else phrases.cannot


def _arguments(request_text: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each argument without the quotes around it. Quotes in shell commands stay."""
    for name in sorted(request_text, key="path".__ne__):
        quotes, text = {"`": "`"} if name == "command" else {"`": "`", **_QUOTES}, request_text[name].strip()
        if len(text) > 1 and quotes.get(text[0]) == text[-1]:
            text = text[1:-1]
        if name == "content" and text:
            text += "\n"
        yield name, re.escape(text) if name == "pattern" else text


def _may_propose(done: Sequence[Done], request: ModelRequest) -> bool:
    """Return whether plan mode refused the last call, and the model can propose a plan for it."""
    is_refused = bool(done) and done[-1][1].outcome == "denied" and _PLAN_MODE in done[-1][1].content
    return is_refused and any(spec.name == "propose_plan" for spec in request.tools)


def _after_results(done: Sequence[Done], request: ModelRequest, phrases: Phrases) -> _Move:
    """Read the README if a listing contains one; otherwise describe the result."""
    listed = [one.content for use, one in done[-1:] if use.tool == "list_directory" and one.outcome == "ok"]
    readme = _README.search("".join(listed))
    if readme and any(spec.name == "read_file" for spec in request.tools):
        return _Move("", "read_file", {"path": readme[0], "limit": _README_LINES})
    return _Move("\n\n".join(_describe(*one, phrases) for one in done) or phrases.no_result)


def _describe(use: ToolUse, result: ToolResult, phrases: Phrases) -> str:
    what, content = f"`{_subject(use)}`", result.content.strip()
    lines = content.splitlines()
    rest = len(lines) - _MOST_LINES
    more = [phrases.more_lines.format(count=rest)] if rest > 0 else []
    quoted = "".join(f"\n    {line}" for line in [*lines[:_MOST_LINES], *more])
    is_silent = not content and result.outcome == "ok"
    template = phrases.silent if is_silent else phrases.outcomes[result.outcome]
    return template.format(what=what, content=content, quoted=f"\n{quoted}" if quoted else "").strip()


def _subject(use: ToolUse) -> str:
    """Return the argument that the call is about, such as its path or command."""
    arguments = parse_json_object(use.arguments) or {}
    about = next((arguments[key] for key in ("command", "path", "pattern") if key in arguments), "")
    short = shorten(str(about), 80, placeholder="...")
    return short if use.tool == "run_shell_command" else f"{use.tool} {short}".strip()
