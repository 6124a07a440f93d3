"""Commands that show parts of a session: `/plan`, `/steps`, `/status`, `/tools`, `/doctor`."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import get_args

from ....actions.ports import Tool
from ....agent.config.settings import Theme
from ....agent.history.timeline import list_timeline
from ....agent.runtime.version import VERSION
from ....state.calls import Effect
from ....state.errors import UsageError
from ...commands.setup.command import DoctorCommand
from ...terminal.lines import step_lines, usage_text
from ...terminal.text.sanitize import one_line
from ...terminal.text.theme import LOOK
from ...terminal.text.wrap import hanging
from .command import DONE, SlashContext, SlashOffer, SlashResult, tell
from .picking import can_pick, pick

THEMES: tuple[Theme, ...] = get_args(Theme)
_THEME_MEANINGS: dict[Theme, str] = {
    "dark": "for dark terminals",
    "light": "for light terminals",
    "none": "bold and dim letters, no colours",
}
_LAST_STEPS = 20
_EFFECTS: dict[Effect, str] = {
    "read": "looks only",
    "idempotent": "may be repeated",
    "verifiable": "changes what can be checked",
    "effect": "changes something",
}


_SKIP = re.compile(r"skip(?:\s+\S{1,20})?", re.IGNORECASE)
PLAN_REQUEST = (
    "{task}\n\nLook first, change nothing, and then propose a plan for this with `propose_plan`. A step can"
    " have a limit, `- budget: 20,000 tokens`, and name the earlier steps that it needs, `- after: 1, 2`;"
    " with `- after: nothing` steps run side by side."
)


async def show_plan(context: SlashContext, words: str) -> SlashResult:
    """Show or hide the plan, skip a step, or change to plan mode and ask for a plan of a task."""
    if not words:
        context.renderer.toggle_plan()
        return DONE
    if _SKIP.fullmatch(words):
        await context.record(f"/plan {words}")
        return DONE
    if not any(tool.traits.begins_plan for tool in context.session.ports.toolbox.values()):
        raise UsageError(
            "This session has no tool to propose a plan with.",
            "Begin a new one with /new; if `plan_proposals` is off: sandbur config set plan_proposals true",
        )
    await context.record("/mode plan")
    await context.send(PLAN_REQUEST.format(task=words))
    return DONE


async def expand(context: SlashContext, words: str) -> SlashResult:
    """Print in full the text that was folded last."""
    if words and not (words.isascii() and words.isdigit() and 0 < int(words[:9]) < 1000):
        raise UsageError(f"`{words[:40]}` is not a number.", "/expand 3 shows the last three.")
    context.renderer.expand_last(int(words) if words else 1)
    return DONE


async def change_theme(context: SlashContext, words: str) -> SlashResult:
    """Change the theme for all later output."""
    if not words and can_pick(context):
        words = await pick(context, "Which theme?", list_theme_choices(context), LOOK.theme)
        if words in ("", LOOK.theme):
            return DONE
    name: Theme | None = next((one for one in THEMES if one == words), None)
    if name is None:
        message = f"There is no theme `{words[:40]}`." if words else f"The theme is {LOOK.theme}."
        tell(context, one_line(f"{message} There are: {', '.join(THEMES)}."))
        return DONE
    LOOK.theme = name
    context.renderer.use_theme(name)
    tell(context, f"The theme is {name} in this chat. Keep it: sandbur config set theme {name}")
    return DONE


def list_theme_choices(_: SlashContext | None) -> Iterator[SlashOffer]:
    return (SlashOffer(name, _THEME_MEANINGS[name]) for name in THEMES)


async def show_steps(context: SlashContext, words: str) -> SlashResult:
    """List the steps, newest last; `/rewind STEP` goes back to one of them."""
    if words and not (words.isascii() and words.isdigit() and len(words) < 10):
        raise UsageError(f"`{words[:40]}` is not a number of steps.", "/steps 50 lists the last 50.")
    store, session_id = context.runtime.store, context.session.id
    if not store.index.exists(session_id):
        tell(context, "There are no steps yet.")
        return DONE
    steps = await store.database.offload(lambda: list_timeline(store.database, session_id))
    count = int(words) if words else _LAST_STEPS
    cells = context.renderer.console.width
    context.renderer.lines(("", line) for line in step_lines(steps[-count:], session_id, cells))
    if len(steps) > count:
        tell(context, f"({len(steps) - count} earlier ones: /steps {len(steps)})")
    return DONE


async def show_status(context: SlashContext, words: str) -> SlashResult:
    cells = context.renderer.console.width
    rows = (row for name, value in _facts(context) for row in hanging(f"{name:<12} ", one_line(value), cells))
    context.renderer.lines(("", row) for row in rows)
    return DONE


def _facts(context: SlashContext) -> Iterator[tuple[str, str]]:
    session, store = context.session, context.runtime.store
    settings, state = session.settings, session.state
    is_stored = store.index.exists(session.id)
    yield "sandbur", VERSION
    yield "session", session.id if is_stored else f"{session.id} (kept with its first message)"
    if is_stored:
        yield "title", store.index.summary(session.id).title
    yield "model", ", then ".join((session.ports.model.name, *settings.fallback_models))
    yield "mode", state.execution_mode
    yield "folder", ", ".join((settings.cwd, *settings.add_dirs))
    yield "sandbox", session.ports.calls.sandbox
    yield "rules", f"{len(settings.allow)} allow, {len(settings.ask)} ask, {len(settings.deny)} deny"
    used = session.offered.size_bytes + state.chat_history.size_bytes
    share = used * state.tokens_per_byte / max(session.ports.model.context_window, 1)
    yield "context", f"{100 * share:.0f}% of {session.ports.model.context_window:,} tokens"
    yield "used", usage_text(state.usage, context.renderer.glyphs)
    yield "stands at", session.next_action
    yield "store", store.name


async def show_tools(context: SlashContext, words: str) -> SlashResult:
    """List the tools by group, with their effect classes."""
    session = context.session
    active = {spec.name for spec in session.offered.specs}
    known = sorted(session.ports.toolbox.values(), key=lambda tool: (_group(tool), tool.spec.name))
    lines: list[tuple[str, str]] = []
    for group, tools in groupby(known, key=_group):
        lines.append(("bold", one_line(group)))
        for tool in tools:
            later = "" if tool.spec.name in active else "; listed when it is asked for"
            lines.append(("", one_line(f"  {tool.spec.name:<28} {_EFFECTS[tool.effect]}{later}")))
    context.renderer.lines(lines or [("dim", "This session has no tools.")], prose=True)
    return DONE


def _group(tool: Tool) -> str:
    if tool.traits.groups:
        return ", ".join(tool.traits.groups)
    parts = tool.spec.name.split("__")
    return f"server {parts[1]}" if len(parts) > 2 and parts[0] == "mcp" else "always there"


async def examine(context: SlashContext, words: str) -> SlashResult:
    """Run the checks of `sandbur doctor` for this folder."""
    await DoctorCommand(overrides=context.runtime.overrides).run()
    return DONE
