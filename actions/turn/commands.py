"""The slash commands and shell commands that a person types instead of a message."""

import re
from dataclasses import field
from typing import Any, get_args

from ...state.application import COMPRESSED_WHEN_ASKED, SKIPS_STEPS, ApplicationState, ExecutionMode
from ...state.lazy_dataclass import dataclass

_COMMAND = re.compile(r"/([A-Za-z][\w-]*(?::[\w-]+)*)(?:\s+(.*))?", re.DOTALL)
MODES: tuple[ExecutionMode, ...] = get_args(ExecutionMode)

_MODE_MEANINGS = {
    "interactive": "only reading inside the workspace runs without a question",
    "plan": "reads inside the workspace, changes nothing",
    "auto-edit": "file edits inside the workspace run without a question, too",
    "yolo": "everything runs, except calls that match a deny rule",
}
HELP = """\
/mode MODE      change what runs without a question: {modes}
/compact FOCUS  replace the older messages by a summary
/help           show this
/exit           leave; the session can be resumed
Anything else is a message to the agent.""".format(modes=", ".join(MODES))


_ELSEWHERE = {
    "rewind": "sandbur fork ID --at SEQ",
    "fork": "sandbur fork ID",
    "model": "sandbur -r ID -m PROVIDER/MODEL",
    "budget": "sandbur -r ID --max-budget-usd USD",
    "permissions": "sandbur -r ID --allow RULE",
    "export": "sandbur sessions export ID",
    "sessions": "sandbur sessions list",
    "status": "sandbur sessions show ID",
    "doctor": "sandbur doctor",
    "plan": "sandbur sessions show ID, which shows the plan",
    "ui": "sandbur ui",
    "flow": "sandbur flows list",
    "try": 'sandbur try "TASK"',
}
"""Maps a command of the chat to the shell command that does the same outside the chat."""


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    notice: str
    changes: dict[str, Any] = field(default_factory=dict[str, Any])


FLOW_COMMAND = "flow"
"""`/flow NAME [TEXT]` starts a flow by its name."""
COMMANDS = frozenset({FLOW_COMMAND, "mode", "compact", "help", "exit", "quit", *_ELSEWHERE})
"""The names of commands that `answer_command` knows."""


def is_command(text: str) -> bool:
    return parse_command(text) is not None


def parse_command(text: str) -> tuple[str, str] | None:
    """Return the name of a command and its argument text, or None if `text` is a message."""
    match = _COMMAND.fullmatch(text.strip())
    return None if match is None else (match[1], (match[2] or "").strip())


def parse_shell_command(text: str) -> str | None:
    """Return the shell command after a `!`, which may be empty, or None if `text` does not begin with `!`."""
    line = text.strip()
    return line[1:].strip() if line.startswith("!") else None


def parse_mode_command(text: str) -> ExecutionMode | None:
    """Return the mode that a `/mode` command selects, or None for any other text or an unknown mode."""
    typed = parse_command(text)
    return _mode(typed[1]) if typed is not None and typed[0].lower() == "mode" else None


def _mode(argument: str) -> ExecutionMode | None:
    return next((mode for mode in MODES if mode == argument.lower()), None)


def answer_command(text: str, state: ApplicationState, has_flows: bool = False) -> CommandAnswer | None:
    """Return the notice and state changes of a command; None if `text` is a message.

    `has_flows`: `/flow` is a message, which the session's flows answer.
    """
    typed = parse_command(text)
    if typed is None:
        return None
    name, argument = typed[0].lower(), typed[1]
    if name == FLOW_COMMAND and has_flows:
        return None
    if name == "mode":
        return _change_mode(argument, state)
    if name == "compact":
        return _compress(state)
    if name == "plan" and argument.lower().startswith("skip"):
        return _skip_step(argument[len("skip") :].strip(), state)
    if name == "help":
        return CommandAnswer(HELP)
    if name in _ELSEWHERE:
        return CommandAnswer(f"/{name} works only in the chat; use in a shell: {_ELSEWHERE[name]}")
    if name in ("exit", "quit"):
        return CommandAnswer("Good-bye.", {"exit_chat": True})
    return CommandAnswer(f"There is no command /{name}. See /help.")


def _compress(state: ApplicationState) -> CommandAnswer:
    """Return the changes that send the graph to the compressor and then back to the prompt."""
    if state.turn_open:
        return CommandAnswer("The history can be compressed only between turns: let this turn end first.")
    if not len(state.chat_history):
        return CommandAnswer("There is nothing to compress yet.")
    version = max(state.graph_version, COMPRESSED_WHEN_ASKED)
    changes = {"overflow_from": "prompt", "return_to": None, "compressions": 0, "graph_version": version}
    return CommandAnswer("Compressing the older part of the conversation.", changes)


def _skip_step(step_id: str, state: ApplicationState) -> CommandAnswer:
    """Return the changes that take a step out of the plan before it begins, with all that it may do."""
    waiting = [step.step_id for step in state.vibe_plan if step.status == "pending"]
    if not waiting or not state.turn_open:
        return CommandAnswer("No step of a plan waits, so none can be skipped.")
    known = f"These steps wait: {', '.join(waiting)}."
    if step_id not in waiting:
        problem = f"No step {step_id[:20]!r} waits." if step_id else "Name the step: /plan skip 3."
        return CommandAnswer(f"{problem} {known}")
    if len(waiting) == 1 and state.active_step is None:
        return CommandAnswer(f"Step {step_id} is the last one. Send a message instead, which ends the plan.")
    plan = tuple(step.skip() if step.step_id == step_id else step for step in state.vibe_plan)
    changes = {"vibe_plan": plan, "graph_version": max(state.graph_version, SKIPS_STEPS)}
    return CommandAnswer(f"Step {step_id} is skipped: it does not start, and allows nothing.", changes)


def _change_mode(argument: str, state: ApplicationState) -> CommandAnswer:
    known = _mode(argument)
    if known is None:
        problem = f"There is no mode {argument!r}." if argument else f"The mode is {state.execution_mode}."
        return CommandAnswer(f"{problem} Choose one: /mode {'|'.join(MODES)}")
    return CommandAnswer(f"Mode: {known} ({_MODE_MEANINGS[known]}).", {"execution_mode": known})
