"""`/plan`: shows the plan, lists, saves, uses and reopens plans, or has one proposed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .....actions.turn.plan.notebook import list_past, render_current, render_past
from .....agent.review.plans.permissions import Permissions
from .....agent.review.plans.saved_plans import (
    begin_saved,
    find_plans,
    find_saved,
    parse_text,
    read_plan,
    render_markdown,
    save_plan,
    split_values,
)
from .....state.conversation.approved_plan import ApprovedPlan
from .....state.conversation.plan_notebook import PlanChange
from .....state.errors import UsageError
from ....chat.decisions.questions import OneKey
from ....chat.slash.command import DONE, SlashContext, SlashOffer, SlashResult, tell
from ....chat.slash.looking import show_plan
from ....terminal.text.sanitize import one_line, plain
from .saved import describe_goal, write_message

_OFFERS = {
    "list": "list the saved plans",
    "save": "save the plan under a name",
    "use": "carry out a saved plan",
    "history": "list the earlier plans of this session",
    "reopen": "go on with an earlier plan",
    "abandon": "end the plan",
}


async def manage_plan(context: SlashContext, words: str) -> SlashResult:
    """Do what the first word names if the other words fit it; any other text is a task to plan."""
    name, *rest = words.split() or [""]
    match name, rest:
        case "list", []:
            return _list_saved(context)
        case "save", [plan]:
            return _save(context, plan)
        case "use", [plan, *_] if len(rest) == 1 or "=" in rest[1] or plan in _find_names(context):
            return await _use(context, plan, rest[1:])
        case "history", [] | [_] if all(map(_is_number, rest)):
            return _show_history(context, int(rest[0]) if rest else 0)
        case "reopen", [number] if _is_number(number):
            return await _reopen(context, int(number))
        case "abandon", []:
            change = PlanChange(command="abandon", text="the user ended it")
            await context.follow(context.session.change_plan(change, "/plan abandon"))
            tell(context, "The plan is abandoned.")
            return DONE
        case _:
            return await show_plan(context, words)


def list_plan_choices(context: SlashContext | None) -> Iterator[SlashOffer]:
    yield from (SlashOffer(name, meaning) for name, meaning in _OFFERS.items())


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 7


def _find_folder(context: SlashContext) -> Path:
    return Path(context.session.settings.cwd)


def _find_names(context: SlashContext) -> frozenset[str]:
    return frozenset(find_plans(_find_folder(context), context.runtime.env).plans)


def _list_saved(context: SlashContext) -> SlashResult:
    found = find_plans(_find_folder(context), context.runtime.env)
    lines = [f"{one.name:<24} {describe_goal(one)}" for one in found.plans.values()]
    tell(context, *map(one_line, lines or ["There are no saved plans here."]), *map(one_line, found.notices))
    return DONE


def _save(context: SlashContext, name: str) -> SlashResult:
    state = context.session.state
    past = None if state.vibe_plan else next(reversed(list_past(state)), None)
    path = save_plan(name, render_markdown(state, past), _find_folder(context), context.runtime.env)
    tell(context, one_line(f"Wrote {path}. Edit it, and use it: /plan use {name}"))
    return DONE


async def _use(context: SlashContext, name: str, words: list[str]) -> SlashResult:
    saved = find_saved(name, _find_folder(context), context.runtime.env)
    values, more = split_values(words)
    settings = context.session.settings
    plan = read_plan(saved, values, Path(settings.cwd), list(map(Path, settings.add_dirs)))
    if await _is_agreed(context, plan):
        change = begin_saved(name, plan)
        await context.follow(context.session.change_plan(change, write_message(name, plan, more)))
    return DONE


async def _is_agreed(context: SlashContext, plan: ApprovedPlan) -> bool:
    """Show a plan; if it has permissions or a budget, ask for the key. Any other needs no approval."""
    context.renderer.lines((("", line) for line in plain(plan.text).split("\n")), prose=True)
    if not plan.binds:
        return True
    question = OneKey("Approve this plan with all that it names? [y/n] ", "yn", safe="n")
    answer = await context.wait(question.ask(), context.questions.leave)
    if answer.key != "y":
        tell(context, "The plan was not begun.")
    return answer.key == "y"


def _show_history(context: SlashContext, number: int) -> SlashResult:
    state = context.session.state
    past = list_past(state)
    chosen = [one for one in past if one.number == number]
    if number and not chosen:
        raise UsageError(f"There is no earlier plan {number}.", "/plan history lists them.")
    current = render_current(state) if state.turn_open and not number else ""
    texts = [render_past(one) for one in chosen or past] + [current]
    lines = [line for text in texts if text for line in plain(text).split("\n")]
    tell(context, *(lines or ["There are no earlier plans."]))
    return DONE


async def _reopen(context: SlashContext, number: int) -> SlashResult:
    session = context.session
    found = next((one for one in list_past(session.state) if one.number == number), None)
    plan = None
    if found is not None and found.approved_text:
        settings = session.settings
        compilers = Permissions(Path(settings.cwd), list(map(Path, settings.add_dirs))).by_key
        plan = parse_text(found.approved_text, compilers, f"Plan {number}")
        if not await _is_agreed(context, plan):
            return DONE
    change = PlanChange(command="reopen", number=number, plan=plan)
    await context.follow(session.change_plan(change, f"Go on with plan {number}."))
    return DONE
