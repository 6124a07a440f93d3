"""`sandbur policy check`: prints the gate's verdict on a shell command, or on each call in JSON on stdin."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from ....actions.ports import Verdict
from ....actions.tools.registry import builtin_tools
from ....agent.config.load import load_settings
from ....agent.config.settings import MODES, Settings
from ....agent.policy.judge import Judge
from ....agent.runtime.wiring import gates_of_run, settings_of_session
from ....state.application import ExecutionMode, PlanTerms
from ....state.conversation.messages import parse_json_object
from ....state.errors import UsageError
from ...cli.open_session import open_runtime, read_overrides
from ...terminal.terminal import encode, put, say
from ...terminal.text.sanitize import expose, one_line
from ...terminal.text.wrap import put_wrapped
from .command import PolicyCommand

_MAX_LINE_BYTES = 16 << 20
_BELOW_HEADS = " " * len("command  ")


class NoCall(Exception):
    """An input line is not a call; the message is the reason."""


async def check(command: PolicyCommand) -> int:
    """Print the verdicts of the gate in this folder; return 2 if an input line was not a call, else 0."""
    settings = load_settings(read_overrides(command), os.environ)
    for notice in settings.notices:
        say(one_line(notice))
    session = settings_of_session(settings, model="")
    gate_of, sandbox_notice = gates_of_run(session, settings, os.environ)
    if sandbox_notice:
        say(one_line(sandbox_notice))
    judge = Judge(gate_of(session), builtin_tools(), await _find_terms(command))
    if command.what == "-":
        return _check_lines(judge, settings.mode)
    verdict = judge.command_verdict(command.what, settings.mode)
    if command.json:
        put(encode(_object(verdict)))
    else:
        for line in _lines(command.what, verdict, settings):
            put_wrapped(line, _BELOW_HEADS)
    return 0


async def _find_terms(command: PolicyCommand) -> PlanTerms | None:
    """Return what the approved plan of the session `--plan` allows now; None without the flag."""
    if not command.plan:
        return None
    async with open_runtime(command) as runtime:
        session_id = runtime.store.find(command.plan)
        terms = runtime.store.show(session_id).state.plan_terms
    if terms is None:
        raise UsageError(f"Session {session_id} has no approved plan.", "See: sandbur sessions show ID")
    return terms


def _lines(command: str, verdict: Verdict, settings: Settings) -> Iterator[str]:
    yield f"command  {expose(command)}"
    yield f"verdict  {verdict.decision}"
    yield f"why      {one_line(verdict.reason)}"
    yield f"rule     {expose(verdict.rule) if verdict.rule else f'none; mode {settings.mode} decides'}"
    yield f"folder   {one_line(str(settings.cwd))}"


def _object(verdict: Verdict) -> dict[str, Any]:
    return {"verdict": verdict.decision, "rule": verdict.rule or None, "reason": verdict.reason}


def _check_lines(judge: Judge, mode: ExecutionMode) -> int:
    """Print one verdict for each input line; a line that is not a call is denied."""
    # Otherwise Ctrl-C would only cancel the task, and the blocking read would continue.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 0
    for number, line in enumerate(_read_lines(sys.stdin.buffer), 1):
        try:
            answer = _object(_judge(line, judge, mode))
        except NoCall as problem:
            answer = {"verdict": "deny", "rule": None, "reason": f"line {number} is not a call: {problem}"}
            code = 2
        put(encode(answer))
    return code


def _read_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield each input line; a line that is too long is cut."""
    while line := stream.readline(_MAX_LINE_BYTES + 1):
        rest = line
        while len(rest) > _MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = stream.readline(_MAX_LINE_BYTES + 1)
        yield line


def _judge(line: bytes, judge: Judge, usual: ExecutionMode) -> Verdict:
    if len(line) > _MAX_LINE_BYTES:
        raise NoCall(f"it has more than {_MAX_LINE_BYTES:,} bytes.")
    call = parse_json_object(line.decode("utf-8", "replace"))
    if call is None:
        raise NoCall('it is not a JSON object such as {"tool": "...", "arguments": {...}}.')
    tool, arguments, mode = call.get("tool"), call.get("arguments"), call.get("mode")
    if not isinstance(tool, str):
        raise NoCall("`tool` has to be the name of a tool.")
    if not isinstance(arguments, str | dict):
        raise NoCall("`arguments` has to be an object, or a text with a JSON object.")
    if mode is not None and mode not in MODES:
        raise NoCall(f"`mode` has to be one of {', '.join(MODES)}.")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return judge.verdict(tool, text, usual if mode is None else mode)
