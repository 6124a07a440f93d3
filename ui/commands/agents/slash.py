"""`/agents` and `/back`: lists the sub-agents of the session, opens the session of one, and goes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ....agent.history.sub_agents import SubAgentRecord, list_children, read_sub_agents
from ....state.errors import UsageError
from ....state.session import SessionSummary
from ...chat.menu import Choice, Picker
from ...chat.picker import preview_lines, state_of
from ...chat.slash.command import DONE, SlashContext, SlashOffer, SlashResult, tell
from ...chat.slash.picking import can_pick, wait_for_pick
from ...chat.slash.session_commands import enter_session
from ...terminal.status import count_all_tokens, short_count
from ...terminal.text.sanitize import one_line

_MOST_READ = 100
"""The sub-agents whose name, description and tokens are displayed."""
_MOST_OFFERED = 50


async def visit_agent(context: SlashContext, words: str) -> SlashResult:
    """List the sub-agents of the session, or open the session of one: by its number, id or name."""
    store, session = context.runtime.store, context.session
    if words == "..":
        return await go_back(context, "")
    children = await store.database.offload(lambda: list_children(store, session.id))
    if not children:
        back = " /back goes to the session that started it." if session.settings.spawned_by else ""
        tell(context, f"This session has started no sub-agents.{back}")
        return DONE
    agents = await store.database.offload(lambda: read_sub_agents(store, children[:_MOST_READ]))
    if words:
        chosen = _find(agents, children, words)
    elif can_pick(context):
        chosen = await _pick(context, agents)
    else:
        context.renderer.lines((("", line) for line in _list_lines(agents, len(children))), prose=True)
        chosen = ""
    return await enter_session(context, chosen) if chosen else DONE


async def go_back(context: SlashContext, words: str) -> SlashResult:
    """Open the session whose call started this one."""
    by = context.session.settings.spawned_by
    if by is None:
        raise UsageError("This session is not a sub-agent.", "/agents lists those that it started.")
    if not context.runtime.store.index.exists(by.session_id):
        raise UsageError(f"The session {by.session_id} that started this one was deleted.")
    return await enter_session(context, by.session_id)


def list_agent_choices(context: SlashContext | None) -> Iterator[SlashOffer]:
    """Yield the sub-agents of the session as completions."""
    if context is None:
        return
    if context.session.settings.spawned_by is not None:
        yield SlashOffer("..", "the session that started this one")
    for found in list_children(context.runtime.store, context.session.id)[:_MOST_OFFERED]:
        yield SlashOffer(found.id[:8], one_line(f"{found.status}: {found.title}"))


def _find(agents: Sequence[SubAgentRecord], children: Sequence[SessionSummary], words: str) -> str:
    """Return the id of the sub-agent that a number of the list, the start of an id or a name means."""
    if words.isascii() and words.isdigit() and len(words) < 5 and 0 < int(words) <= len(children):
        return children[int(words) - 1].id
    named = [one.id for one in agents if one.name == words]
    matches = named or [one.id for one in children if one.id.startswith(words.lower())]
    if len(matches) == 1:
        return matches[0]
    if matches:
        some = ", ".join(match[:13] for match in matches[:5])
        raise UsageError(f"{words[:40]!r} means {len(matches)} sub-agents: {some}.", "Use more of the id.")
    raise UsageError(f"There is no sub-agent {words[:40]!r} in this session.", "/agents lists them.")


async def _pick(context: SlashContext, agents: Sequence[SubAgentRecord]) -> str:
    """Return the id of the sub-agent that the person picks; empty if the person goes back."""
    store, known = context.runtime.store, {one.id: one.summary for one in agents}

    async def preview(name: str) -> Sequence[str]:
        return await preview_lines(store, known[name])

    lines = zip(agents, _describe_all(agents), strict=True)
    choices = [Choice(one.id, line, f"{line} {one.id} {one.summary.title}") for one, line in lines]
    picker = Picker("Step into which sub-agent? /back returns here.", choices, "goes back", preview=preview)
    return await wait_for_pick(context, picker.run(), picker.leave)


def _list_lines(agents: Sequence[SubAgentRecord], count: int) -> Iterator[str]:
    for number, line in enumerate(_describe_all(agents), 1):
        yield f"{number:>3}  {line}"
    if count > len(agents):
        yield f"     and {count - len(agents):,} more: sandbur sessions --children ID"
    yield "/agents N opens the session of one, and /back returns."


def _describe_all(agents: Sequence[SubAgentRecord]) -> Iterator[str]:
    """Yield a line for each sub-agent: state, name, tokens, id and description."""
    now = datetime.now(UTC)
    width = max((len(one_line(one.name)) for one in agents), default=0)
    for one in agents:
        tokens = count_all_tokens(one.usage)
        used = "? tokens" if tokens is None else f"{short_count(tokens)} tokens"
        state, _ = state_of(one.summary, now)
        name, what = one_line(one.name), one_line(one.description)
        yield f"{state:<14} {name:<{width}}  {used:>12}  {one.id[:8]}  {what}"
