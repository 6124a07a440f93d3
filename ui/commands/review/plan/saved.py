"""`sandbur plan list`, `show`, `save` and `use`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .....actions.turn.plan.notebook import list_past
from .....agent.config.load import load_settings
from .....agent.config.paths import current_folder
from .....agent.review.plans.saved_plans import (
    SavedPlan,
    begin_saved,
    find_plans,
    find_saved,
    read_plan,
    render_markdown,
    save_plan,
    split_values,
)
from .....state.conversation.approved_plan import ApprovedPlan
from ....cli.open_session import open_runtime, read_overrides
from ....headless.headless import run_to_end, warn
from ....terminal.terminal import encode, put, say
from ....terminal.text.sanitize import one_line, plain
from .command import PlanCommand

_MOST_GOAL = 120
NEEDS_APPROVAL = 3
"""The exit code if the plan may do something that was not approved."""


async def list_plans(command: PlanCommand) -> int:
    """Print a line for each saved plan: its name, its goal and its file."""
    found = find_plans(_find_folder(command), os.environ)
    if command.json:
        for one in found.plans.values():
            put(encode(_to_json(one)))
    for one in () if command.json else found.plans.values():
        put("\t".join((one.name, describe_goal(one), one_line(str(one.path)))))
    for notice in found.notices:
        say(one_line(notice))
    if not found.plans and not command.json:
        say("There are no saved plans here. Save the plan of a session: sandbur plan save NAME ID")
    return 0


async def show_plan(command: PlanCommand) -> int:
    """Print the text of a saved plan."""
    saved = find_saved(command.plan, _find_folder(command), os.environ)
    if command.json:
        put(encode({**_to_json(saved), "text": saved.text}))
        return 0
    put(plain(saved.text.rstrip("\n")))
    say(one_line(str(saved.path)))
    return 0


async def save_session_plan(command: PlanCommand) -> int:
    """Write the current plan of a session, or its last one, to a file."""
    async with open_runtime(command) as runtime:
        state = runtime.store.show(runtime.store.find(command.words[0])).state
        past = None if state.vibe_plan else next(reversed(list_past(state)), None)
        text = render_markdown(state, past)
    path = save_plan(command.plan, text, current_folder(), os.environ, command.user)
    say(f"Wrote {one_line(str(path))}. Edit it, and use it: sandbur plan use {command.plan}")
    return 0


def list_names() -> Iterator[tuple[str, str]]:
    """Yield the name and the goal of each saved plan of the working folder."""
    for one in find_plans(current_folder(), os.environ).plans.values():
        yield one.name, describe_goal(one)


def describe_goal(saved: SavedPlan) -> str:
    """Return the goal of a saved plan on one line; empty for a text without one."""
    lines = (line.strip() for line in saved.text.splitlines())
    goal = next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")
    return one_line(goal[:_MOST_GOAL])


def _find_folder(command: PlanCommand) -> Path:
    return load_settings(read_overrides(command), os.environ).cwd


def _to_json(saved: SavedPlan) -> dict[str, Any]:
    return {
        "name": saved.name,
        "goal": describe_goal(saved),
        "path": str(saved.path),
        "project": saved.is_of_project,
        "values": list(saved.places),
    }


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
        if plan.binds and not command.approve:
            say(plain(plan.text))
            say("This plan names what it may do or use without a further question: it needs your approval.")
            say("To approve exactly this text, add --approve.")
            return NEEDS_APPROVAL
        session = session or await runtime.create()
        warn(session.notices, command.progress)
        events = session.change_plan(begin_saved(saved.name, plan), write_message(saved.name, plan, more))
        return await run_to_end(session, events, session.state.pending_tool_calls, command.progress)


def write_message(name: str, plan: ApprovedPlan, more: str = "") -> str:
    """Return the message that begins a saved plan."""
    return "\n\n".join(filter(None, (f"Carry out the saved plan {name}: {one_line(plan.goal)}", more)))
