"""Commands that change a session or switch to another one: `/model`, `/budget`, `/permissions`,

`/fork`, `/resume`, `/rename`, `/export` and `/clear`.
"""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from math import isfinite
from pathlib import Path
from weakref import WeakKeyDictionary

from ....actions.tools.registry import load_declared_traits
from ....actions.workspace.paths import format_count
from ....agent.config.settings import SETTINGS
from ....agent.models.aliases import model_of
from ....agent.policy.rules.rules import parse_rule
from ....agent.session.session import Session
from ....state.errors import UsageError
from ....state.session import SessionSummary
from ....state.store.store import Store
from ...commands.sessions.transfer import write_export
from ...commands.setup.config import spell_source
from ...terminal.lines import usage_text
from ...terminal.text.sanitize import one_line
from ..picker import pick_session
from .command import DONE, EditorContext, SlashContext, SlashOffer, SlashResult, tell, warn
from .picking import can_pick, pick, wait_for_pick

_MOST_OFFERED = 50
_RECENT_S = 5.0
KINDS = ("allow", "ask", "deny")
_MEANINGS = {"allow": "runs without a question", "ask": "is always asked about", "deny": "never runs"}
_CHANGED = SlashResult(goes_on=True)


async def change_model(context: SlashContext, words: str) -> SlashResult:
    """Change the model; the next request uses it."""
    session, runtime = context.session, context.runtime
    if not words and can_pick(context):
        question = "Which model? Another one: /model PROVIDER/MODEL."
        words = await pick(context, question, list_model_choices(context), session.settings.model)
        if words in ("", session.settings.model):
            return DONE
    if not words:
        stand_ins = session.settings.fallback_models
        more = f", then {', '.join(stand_ins)}" if stand_ins else ""
        tell(context, f"The model is {session.ports.model.name}{more}. Another one: /model PROVIDER/MODEL")
        return DONE

    model = model_of(words, runtime.settings.aliases)
    opened = await runtime.reopen(session, model=model, agent=session.settings.agent)
    context.enter(opened)
    await context.follow(opened.note(f"/model {model}", f"The model is {opened.ports.model.name} now."))
    return _CHANGED


async def change_model_in_editor(context: EditorContext, words: str) -> str:
    """Change the model, or return which one is used."""
    if not words:
        name = context.session.ports.model.name
        return f"The model is {name}. Another one: `/model PROVIDER/MODEL`"
    await context.change_model(words)
    return f"The model is {context.session.ports.model.name} now."


def list_model_choices(context: SlashContext | None) -> Iterator[SlashOffer]:
    """Yield the models of the settings and of earlier sessions as completions."""
    if context is None:
        return
    settings, session = context.runtime.settings, context.session
    names = [settings.model, session.settings.model, *session.settings.fallback_models]
    yield from (SlashOffer(name, f"means {model}") for name, model in settings.aliases.items())
    used = (one.model for one in recent_sessions(context.runtime.store))
    yield from (SlashOffer(name) for name in dict.fromkeys([*filter(None, names), *used]))


async def change_budget(context: SlashContext, words: str) -> SlashResult:
    """Set the cost limit of one run of this session, in US dollars."""
    session, runtime = context.session, context.runtime
    if not words:
        tell(context, *_budget_lines(context))
        return DONE
    budget = None if words == "off" else _amount(words)
    opened = await runtime.reopen(session, max_budget_usd=budget)
    context.enter(opened)
    message = "No budget of its own any more." if budget is None else f"A run may cost {budget:g} USD now."
    await context.follow(opened.note(f"/budget {words}", message))
    return _CHANGED


def _amount(words: str) -> float:
    try:
        value = float(words.removeprefix("$").removesuffix("USD").strip())
    except ValueError:
        value = -1.0
    if not (isfinite(value) and value > 0):
        raise UsageError(f"`{words[:40]}` is not an amount above 0.", "Write /budget 2.50, or /budget off.")
    return value


def _budget_lines(context: SlashContext) -> Iterator[str]:
    own, usual = context.session.settings.max_budget_usd, context.runtime.settings.max_budget_usd
    budget = usual if own is None else own
    where = "as it is configured" if own is None else "as you chose in this session"
    if budget is None:
        yield "A run may cost whatever it costs. A limit: /budget USD"
    else:
        yield f"A run may cost {budget:g} USD, {where}."
    spent = context.session.state.turn_usage.cost_usd
    yield "What the last turn cost is not known." if spent is None else f"The last turn cost {spent:.4f} USD."


async def show_cost(context: SlashContext, words: str) -> SlashResult:
    """Print the tokens and the cost of the session and of its last turn."""
    state, glyphs = context.session.state, context.renderer.glyphs
    tell(
        context,
        f"Session    {usage_text(state.usage, glyphs)}",
        f"Last turn  {usage_text(state.turn_usage, glyphs)}",
        *_budget_lines(context),
    )
    return DONE


async def change_permissions(context: SlashContext, words: str) -> SlashResult:
    """List the rules of this session, add one, or remove one."""
    session = context.session
    kind, _, rule = words.partition(" ")
    rule = rule.strip()
    if not words:
        context.renderer.lines((("", one_line(line)) for line in _rule_lines(context)), prose=True)
        return DONE
    if kind not in (*KINDS, "remove") or not rule:
        raise UsageError("Name a change and a rule.", "/permissions allow|ask|deny|remove RULE")
    if kind == "remove":
        changed = _without(session, rule)
        message = f"`{rule}` is removed from the rules of this session."
    else:
        parse_rule(rule, {*load_declared_traits(), *session.ports.toolbox})
        rules = getattr(session.settings, kind)
        changed = {kind: tuple(dict.fromkeys((*rules, rule)))}
        message = f"`{rule}` {_MEANINGS[kind]} in this session."
    session.rules.change(**changed)
    await context.follow(session.note(f"/permissions {kind} {rule}", message))
    return _CHANGED


def _without(session: Session, rule: str) -> dict[str, tuple[str, ...]]:
    found = {
        kind: tuple(one for one in getattr(session.settings, kind) if one != rule)
        for kind in KINDS
        if rule in getattr(session.settings, kind)
    }
    if not found:
        raise UsageError(f"`{rule[:80]}` is not a rule of this session.", "/permissions lists them.")
    return found


def _rule_lines(context: SlashContext) -> Iterator[str]:
    settings, session = context.runtime.settings, context.session
    rows = {row.key: row for row in SETTINGS if row.key in KINDS}
    yield f"Mode {session.state.execution_mode}; rules take precedence over it: deny, then ask, then allow."
    for kind in reversed(KINDS):
        for rule in getattr(session.settings, kind):
            places = spell_source(settings.rule_sources.get((kind, rule), ()), rows[kind])
            yield f"  {kind:<5}  {rule}   ({', '.join(places) or 'this session'})"
    if not any(getattr(session.settings, kind) for kind in KINDS):
        yield "  There are no rules. /permissions allow RULE adds one."


def list_rule_choices(context: SlashContext | None) -> Iterator[SlashOffer]:
    yield from (SlashOffer(kind, f"calls that it matches {meaning}") for kind, meaning in _MEANINGS.items())
    yield SlashOffer("remove", "remove a rule from this session")


async def fork(context: SlashContext, words: str) -> SlashResult:
    """Fork the session after the given step, or after its last step, and enter the fork."""
    old, runtime = context.session, context.runtime
    if not _is_stored(context):
        warn(context, "There are no messages yet, so there is nothing to copy.")
        return DONE
    if words and not (words.isascii() and words.isdigit() and len(words) < 16):
        raise UsageError(f"`{words[:40]}` is not the number of a step.", "/steps lists them.")
    forked = await runtime.fork(old.id, int(words) if words else None)
    opened = await runtime.resume(forked)
    opened.change_mode(old.state.execution_mode)
    await _enter(context, opened)
    tell(context, f"The chat continues in {forked}; {old.id} is unchanged.")
    return SlashResult(goes_on=True)


async def resume(context: SlashContext, words: str) -> SlashResult:
    """Enter another session: the given one, or one that the person picks."""
    runtime = context.runtime
    name = runtime.store.find(words) if words else await _pick(context)
    if not name:
        return DONE
    if name == context.session.id:
        tell(context, "This is the session that you are in.")
        return DONE
    return await enter_session(context, name, _way_back(context))


async def enter_session(context: SlashContext, name: str, notes: Iterable[str] = ()) -> SlashResult:
    """Enter the stored session of this id, and ask at once about a call that waits there.

    `notes` are printed before its last messages.
    """
    runtime = context.runtime
    opened = await runtime.resume(name)
    await _enter(context, opened)
    tell(context, *notes)
    context.recall()
    asks = bool(opened.state.calls_to_decide)
    may_ask = opened.next_action == "human_confirm" and not context.asks
    if asks and may_ask and not runtime.store.index.is_held(name):
        # A question is asked at once, as at the start of a chat; everything else waits for Enter.
        await context.follow(opened.carry_on())
    return SlashResult(goes_on=True)


async def _enter(context: SlashContext, opened: Session) -> None:
    """Enter another session, and release the earlier one."""
    old = context.session
    context.enter(opened)
    await context.runtime.let_go(old)


async def _pick(context: SlashContext) -> str:
    runtime = context.runtime
    return await wait_for_pick(context, pick_session(runtime.store, runtime.settings.cwd), lambda _: False)


async def rename(context: SlashContext, words: str) -> SlashResult:
    kept = await context.session.rename(words)
    tell(context, f"The session is called: {one_line(kept)}")
    return DONE


async def export(context: SlashContext, words: str) -> SlashResult:
    """Write the session to a file: JSON lines, or a report if the file extension is one of a report."""
    if not _is_stored(context):
        warn(context, "There are no messages yet, so there is nothing to write.")
        return DONE
    session_id = context.session.id
    file = Path(context.session.settings.cwd, words or f"sandbur-{session_id[:8]}.jsonl")
    form = {".html": "html", ".md": "md"}.get(file.suffix, "jsonl")
    if file.exists():
        raise UsageError(f"{file} exists already.", "Name another file: /export FILE")
    store = context.runtime.store
    lines = await store.database.offload(lambda: write_export(store, session_id, form, file))
    tell(context, f"Exported {format_count(lines, 'line')} to {one_line(str(file))}.")
    return DONE


async def clear(context: SlashContext, words: str) -> SlashResult:
    """Start a new session in this chat; the earlier one stays in the store."""
    old = context.session
    left = _way_back(context)
    opened = await context.runtime.create()
    if opened.settings.model != old.settings.model:
        opened = await context.runtime.reopen(opened, model=old.settings.model)
    if opened.state.execution_mode != old.state.execution_mode:
        opened.change_mode(old.state.execution_mode)
    await _enter(context, opened)
    tell(context, "A new session begins.", *left)
    return DONE


def _way_back(context: SlashContext) -> list[str]:
    return [f"The one before: /resume {context.session.id[:8]}"] if _is_stored(context) else []


def _is_stored(context: SlashContext) -> bool:
    return context.runtime.store.index.exists(context.session.id)


_recent: WeakKeyDictionary[Store, tuple[float, list[SessionSummary]]] = WeakKeyDictionary()


def recent_sessions(store: Store) -> list[SessionSummary]:
    """Return the newest sessions from a short-lived cache, because each key press calls this."""
    now = time.monotonic()
    if store not in _recent or now - _recent[store][0] > _RECENT_S:
        _recent[store] = now, list(islice(store.roots(), _MOST_OFFERED))
    return _recent[store][1]


def list_session_choices(context: SlashContext | None) -> Iterator[SlashOffer]:
    """Yield the sessions that can be resumed as completions."""
    if context is None:
        return
    for found in recent_sessions(context.runtime.store):
        yield SlashOffer(found.id[:8], one_line(f"{found.status}: {found.title}"))
