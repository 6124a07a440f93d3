"""`sandbur plan use`: carries out a saved plan without a chat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ....agent.plans.saved_plans import begin_saved, find_saved, read_plan, split_values
from ....state.conversation.approved_plan import ApprovedPlan
from ...cli.open_session import open_runtime
from ...headless.headless import run_to_end, warn
from ...terminal.terminal import say
from ...terminal.text.sanitize import one_line, plain
from .command import PlanCommand

NEEDS_APPROVAL = 3
"""The exit code if the plan may do something that nobody approved."""


async def use_plan(command: PlanCommand) -> int:
    """Begin a saved plan in a new session, or in that of `--resume`; return the exit code of its run."""
    async with open_runtime(command) as runtime:
        cwd, session = runtime.settings.cwd, None
        if command.resume:
            session = await runtime.resume(runtime.store.find(command.resume))
            cwd = Path(session.settings.cwd)
        saved = find_saved(command.plan, cwd, runtime.env)
        values, more = split_values(command.words)
        plan = read_plan(saved, values, cwd, runtime.settings.add_dirs)
        if list(list_permissions(plan)) and not command.approve:
            say(plain(plan.text))
            say("This plan may do what it names without a further question, so it needs your approval.")
            say("To approve exactly this text, add --approve.")
            return NEEDS_APPROVAL
        session = session or await runtime.create()
        warn(session.notices, command.progress)
        events = session.change_plan(begin_saved(saved.name, plan), write_message(saved.name, plan, more))
        return await run_to_end(session, events, session.state.pending_tool_calls, command.progress)


def list_permissions(plan: ApprovedPlan) -> Iterator[str]:
    """Yield each rule that a step of the plan allows."""
    yield from dict.fromkeys(rule for step in plan.steps for rule in step.allows)


def write_message(name: str, plan: ApprovedPlan, more: str = "") -> str:
    """Return the message that begins a saved plan."""
    return "\n\n".join(filter(None, (f"Carry out the saved plan {name}: {one_line(plan.goal)}", more)))
