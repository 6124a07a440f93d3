"""Drives the demo model as the graph does, with real commands."""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandbur.actions.ports import ModelRequest, Reply, ToolSpec
from sandbur.actions.ports.events import TextDelta
from sandbur.actions.turn.plan.decision_tools import DECISION_TOOLS, PLAN_FINISHED
from sandbur.agent.models.demo.demo_model import DemoModel
from sandbur.state.conversation.messages import (
    Message,
    Outcome,
    ToolResult,
    ToolUse,
    assistant_message,
    person_message,
    runtime_message,
    tool_message,
)
from sandbur.state.conversation.transcript import Transcript

WORKING_TOOLS = ("run_shell_command", "read_file", "write_file", "edit_file", "list_directory", "grep")
SPECS = (*(ToolSpec(name, "", {"type": "object"}) for name in WORKING_TOOLS), *DECISION_TOOLS)
Runner = Callable[[ToolUse], tuple[Outcome, str]]


def shell(use: ToolUse) -> tuple[Outcome, str]:
    """Run the command for real and answer as a tool would."""
    command = json.loads(use.arguments)["command"]
    done = subprocess.run(
        ["sh", "-c", command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return (
        "ok" if done.returncode == 0 else "error",
        f"{done.stdout}{done.stderr}\n[exit code {done.returncode}]",
    )


async def ask(*histories: Transcript, forced: str | None = None, specs: Sequence[ToolSpec] = SPECS) -> Reply:
    """Send one request to the model, and check that its stream is valid."""
    request = ModelRequest("system", tuple(specs), histories, forced)
    items = [item async for item in DemoModel().stream(request)]
    reply = items[-1]
    assert isinstance(reply, Reply)
    deltas = [item for item in items[:-1] if isinstance(item, TextDelta)]
    assert len(deltas) == len(items) - 1
    assert "".join(delta.delta for delta in deltas) == reply.message.text
    assert reply.finish == ("tool_calls" if reply.message.tool_uses else "stop")
    assert reply.usage.llm_calls == 1
    assert reply.usage.cost_usd == 0
    assert reply.usage.input_tokens
    assert reply.usage.output_tokens
    assert reply.message.blocks
    return reply


def answer_message(message: Message, run: Runner) -> list[Message]:
    messages: list[Message] = []
    for use in message.tool_uses:
        outcome, content = run(use)
        result = ToolResult(call_id=use.call_id, tool=use.tool, outcome=outcome, content=content)
        messages.append(tool_message(result))
    return messages


def call(reply: Reply) -> tuple[str, dict[str, Any]]:
    (use,) = reply.message.tool_uses
    return use.tool, json.loads(use.arguments)


@dataclass
class Walk:
    """Works through a whole plan as the graph does."""

    run: Runner
    outputs: list[str] = field(default_factory=list)
    call_ids: list[str] = field(default_factory=list)
    plans: list[list[str]] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    answer: str = ""

    async def of(self, request: str) -> "Walk":
        history = Transcript.of(person_message(request))
        reply = await ask(history)
        tool, arguments = call(reply)
        assert (tool, arguments) == ("start_plan", {"goal": request})
        history = history.append(
            reply.message, *answer_message(reply.message, lambda use: ("ok", "Plan first."))
        )
        history, pending = await self._plan(history)
        number = 0
        while pending:
            number += 1
            title = pending.pop(0)
            status, summary = await self._step(history, number, number + len(pending), title)
            self.steps.append((status, summary))
            history = history.append(assistant_message(f"Step {number} {status}: {summary}", "runtime"))
            if status == "failed":
                history = history.append(runtime_message(f"Step {number} failed. Revise the plan."))
                history, pending = await self._plan(history)
        reply = await ask(history.append(runtime_message(PLAN_FINISHED)))
        assert not reply.message.tool_uses
        self.answer = reply.message.text
        return self

    async def _plan(self, history: Transcript) -> tuple[Transcript, list[str]]:
        reply = await ask(history, forced="submit_plan")
        tool, arguments = call(reply)
        assert tool == "submit_plan"
        titles = [step["description"] for step in arguments["steps"]]
        self.plans.append(titles)
        return history.append(
            reply.message, *answer_message(reply.message, lambda use: ("ok", "Accepted."))
        ), list(titles)

    async def _step(self, history: Transcript, number: int, count: int, title: str) -> tuple[str, str]:
        child = Transcript.of(
            runtime_message(f"Step {number} of {count}: {title}\n\nGoal: x\nWork on this step only.")
        )
        for _ in range(6):
            reply = await ask(history, child)
            tool, arguments = call(reply)
            self.call_ids += [use.call_id for use in reply.message.tool_uses]
            if tool == "finish_step":
                return arguments["status"], arguments["summary"]
            results = answer_message(reply.message, self.run)
            self.outputs += [
                block.content for m in results for block in m.blocks if isinstance(block, ToolResult)
            ]
            child = child.append(reply.message, *results)
        raise AssertionError("the step does not end")
