"""Compresses a history: replaces the older messages by a summary. The messages stay in the store."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from ..state.application import ApplicationState, Usage
from ..state.conversation.content import Attachment
from ..state.conversation.messages import Message, Text, ToolResult, ToolUse, runtime_message
from ..state.conversation.transcript import Transcript
from ..state.errors import ContextFull
from ..state.process.crashpoints import reach
from .ports import ModelRequest, Ports, Reply, Toolbox
from .ports.events import Compacted, Notice, UsageChanged
from .turn.burr_action import Changes, graph_action
from .turn.calls.result_eviction import evict_results
from .turn.model_call import MAX_COMPRESSIONS, call_model
from .turn.session_page import is_page_message
from .workspace.paths import format_count

KEEP_SHARE = 0.25
"""The share of the model's window that the newest messages may fill unchanged."""
_SUMMARY_SHARE = 0.5
_ENOUGH_SHARE = 0.6
"""If the history after eviction is at most this share of its old size, no summary is made."""
_ASKED_FROM = "prompt"
"""The value of `overflow_from` if a person requested the compression."""
_LASTING_SHARE = 0.25
LASTING = "[Skill "
"""The prefix of a message that is repeated unchanged after a compression, unless a model wrote the message.
"""
_MAX_SUMMARY_CHARS = 12_000
_MAX_BLOCK_CHARS = 2_000

SUMMARY_HEAD = "Summary of what came before:\n"
"""What precedes a summary in the first message of a compressed history."""
_ASK = (
    "Below is the older part of this session. Summarize it for yourself, so that you can go on without"
    " it: what was asked, decided, done and found (names, paths, numbers, results), what failed, what is"
    " still open. At most 600 words. Answer with the summary only.\n\n{messages}"
)
_MESSAGES = "{messages}"
"""The placeholder for the older messages in the request for a summary."""


@graph_action(
    reads=[
        "overflow_from",
        "chat_history",
        "vibe_plan",
        "active_step_id",
        "tokens_per_byte",
        "equipment",
        "user_input",
        "plan_usage",
    ],
    writes=[
        "chat_history",
        "vibe_plan",
        "overflow_from",
        "return_to",
        "compressions",
        "usage",
        "turn_usage",
        "plan_usage",
    ],
    asks_model="summary",
    step_kind="compression",
    stop_note="It stopped before older messages were to be summarised.",
)
async def context_compressor(state: ApplicationState, ports: Ports) -> Changes:
    """Compress the larger one of the active histories, then return to the previous action."""
    rules, is_asked = ports.requests.compaction, state.overflow_from == _ASKED_FROM
    if rules.kind == "off" and not is_asked:
        raise ContextFull(
            "The conversation does not fit into the model's window, and compaction is off.",
            'Resume with `compaction = "summary"` or "truncate", or with a model that has a larger window.',
        )
    found = max(state.chat_history, state.active_history, key=lambda history: history.size_bytes)
    history, count = evict_results(found, ports.toolbox, 1)
    if not is_asked and count and history.size_bytes <= found.size_bytes * _ENOUGH_SHARE:
        ports.emit(Notice(f"{count} older results became one line each; the model can read them again."))
        ports.emit(_describe_change(state, ports, "results", count, found, history))
        return {**_replace_history(state, found, history), **_hand_back(state, state.compressions + 1)}
    window_bytes = int(ports.model.context_window / state.tokens_per_byte)
    keep = _count_kept(state, history, rules.keep_messages, window_bytes)
    older = list(history)[: len(history) - keep]
    if not older:
        if is_asked:
            ports.emit(Notice("Nothing is old enough to be summarized."))
        return _hand_back(state, MAX_COMPRESSIONS)
    lasting = _find_lasting(older, ports.toolbox, int(window_bytes * _LASTING_SHARE))
    if is_asked and _compact(state, history, keep, lasting, "").size_bytes >= found.size_bytes:
        # Not even an empty summary would make room, so no model is asked for one.
        return _refuse_growth(state, ports)
    summary, used = await _replacement_of(state, ports, older, int(window_bytes * _SUMMARY_SHARE))
    shorter = _compact(state, history, keep, lasting, summary)
    if is_asked and shorter.size_bytes >= found.size_bytes:
        return {**_refuse_growth(state, ports), **state.add_usage(used)}
    kind = "truncate" if rules.kind == "truncate" else "summary"
    ports.emit(_describe_change(state, ports, kind, len(older), found, shorter))
    if is_asked:
        what = "A note" if kind == "truncate" else "A summary"
        notice = (
            f"{what} now replaces {format_count(len(older), 'message')}: {found.size_bytes:,} bytes became"
        )
        ports.emit(Notice(f"{notice} {shorter.size_bytes:,}. /uncompact restores them.", "compression"))
    return {
        **_replace_history(state, found, shorter),
        **_hand_back(state, state.compressions + 1),
        **state.add_usage(used),
    }


def _compact(
    state: ApplicationState, history: Transcript, keep: int, lasting: Sequence[Message], summary: str
) -> Transcript:
    opening = runtime_message(f"{_quote_essentials(state)}\n\n{summary}")
    return history.compact(opening, keep, lasting)


def _refuse_growth(state: ApplicationState, ports: Ports) -> Changes:
    """Leave the history as it is, because what would replace the older messages is no shorter."""
    ports.emit(Notice("Nothing was changed: a summary would be longer than the messages that it replaces."))
    return _hand_back(state, MAX_COMPRESSIONS)


async def _replacement_of(
    state: ApplicationState, ports: Ports, older: list[Message], max_chars: int
) -> tuple[str, Usage]:
    """Return the text that replaces the older messages, and the token usage of the model call that
    wrote it.
    """
    is_asked, is_cut = state.overflow_from == _ASKED_FROM, ports.requests.compaction.kind == "truncate"
    if ports.hooks is not None:
        await ports.hooks.before_compression()
    if not is_asked:
        act = "leaving out" if is_cut else "compressing"
        notice = f"The conversation is too long for the model: {act} the older part."
        ports.emit(Notice(notice, "compression"))
    text, used = "", Usage()
    if not is_cut and (reply := await _summarize(state, ports, older, max_chars)):
        text, used = reply.message.text.strip(), reply.usage + reply.discarded
        ports.emit(UsageChanged(state.turn_usage + used, reply.usage))
    reach("compaction_mid")
    summary = text[:_MAX_SUMMARY_CHARS] or _render_messages(older, _MAX_SUMMARY_CHARS)
    words = f"{SUMMARY_HEAD}{summary}"
    if is_cut:
        words = summary = f"[{len(older)} earlier messages are left out.]"
    if ports.hooks is not None:
        await ports.hooks.after_compression(summary)
    return words, used


def _count_kept(state: ApplicationState, history: Transcript, wanted: int, window_bytes: int) -> int:
    """Return the number of the newest messages that stay: as many as the rules request, fewer if they do not
    fit.
    """
    is_asked = state.overflow_from == _ASKED_FROM
    if wanted and not state.compressions:
        messages = list(history)
        wanted = min(wanted, len(messages))
        while 0 < wanted < len(messages) and messages[-wanted].role == "tool":
            wanted += 1
        if wanted < len(messages):
            return wanted
    # A history that the provider rejected earlier than expected is reduced to half of its size at most.
    kept_bytes = min(int(window_bytes * KEEP_SHARE), history.size_bytes // (8 if is_asked else 2))
    return _count_messages_to_keep(history, kept_bytes >> state.compressions)


def _describe_change(
    state: ApplicationState,
    ports: Ports,
    kind: Literal["summary", "truncate", "results"],
    messages: int,
    old: Transcript,
    new: Transcript,
) -> Compacted:
    """Return the event that describes a shortened history, with the estimated tokens of a request before and
    after.
    """
    histories = {id(one): one for one in (state.chat_history, state.active_history)}.values()
    before = ports.requests.offer(state.equipment).size_bytes + sum(one.size_bytes for one in histories)
    after = before - old.size_bytes + new.size_bytes
    return Compacted(kind, messages, int(before * state.tokens_per_byte), int(after * state.tokens_per_byte))


async def _summarize(
    state: ApplicationState, ports: Ports, older: list[Message], max_chars: int
) -> Reply | None:
    """Ask the model for a summary. Return None if even the request for the summary is too large."""
    prompt, messages = ports.requests.compaction.prompt or _ASK, _render_messages(older, max_chars)
    prompt = prompt if _MESSAGES in prompt else f"{prompt}\n\n{_MESSAGES}"
    asked = runtime_message(prompt.replace(_MESSAGES, messages) + _focus(state))
    request = ModelRequest(
        ports.requests.system,
        ports.requests.offer(state.equipment).specs,
        (Transcript.of(asked),),
        purpose="summary",
        strict_tools=ports.requests.strict_tools,
    )
    if (model := ports.requests.summary_model) is not None:
        ports = replace(ports, model=model)
    try:
        return await call_model(state, ports, request, is_aside=True)
    except ContextFull:
        return None


def _focus(state: ApplicationState) -> str:
    """Return the person's instructions for the summary, or an empty text."""
    _, _, words = state.user_input.strip().partition(" ")
    is_asked_for = state.overflow_from == _ASKED_FROM and words.strip()
    return f"\n\nAbove all keep: {words.strip()}" if is_asked_for else ""


def _find_lasting(older: list[Message], toolbox: Toolbox, most_bytes: int) -> list[Message]:
    """Return the messages that a compression repeats word for word: each once, the newest that fit
    `most_bytes`.
    """
    found: dict[str, Message] = {}
    for message in reversed(older):
        for text in _list_lasting_texts(message, toolbox):
            again = runtime_message(text)
            most_bytes -= 0 if text in found else again.size_bytes
            if most_bytes >= 0:
                found.setdefault(text, again)
    return list(found.values())[::-1]


def _list_lasting_texts(message: Message, toolbox: Toolbox) -> Iterator[str]:
    if message.origin in ("person", "runtime") and message.text.startswith(LASTING):
        yield message.text
    for result in message.tool_results:
        tool = toolbox.get(result.tool)
        if tool is not None and tool.traits.outlasts_compression and result.outcome == "ok":
            content = result.content
            yield content if content.startswith(LASTING) else f"{LASTING}text]\n{content}"


def _replace_history(state: ApplicationState, old: Transcript, new: Transcript) -> Changes:
    return state.replace_history(new) if old is state.active_history else {"chat_history": new}


def _hand_back(state: ApplicationState, compressions: int) -> Changes:
    return {"overflow_from": None, "return_to": state.overflow_from, "compressions": compressions}


def _count_messages_to_keep(history: Transcript, max_bytes: int) -> int:
    """Return how many of the newest messages stay, possibly 0. A call and its result stay together."""
    size = best = 0
    for kept, message in enumerate(reversed(list(history)), 1):
        size += message.size_bytes
        if size > max_bytes:
            break
        if message.role != "tool":
            best = kept
    return best


def _quote_essentials(state: ApplicationState) -> str:
    """Return the facts that the summary must contain, quoted unchanged."""
    words = state.user_input
    if state.overflow_from == _ASKED_FROM:
        words = next((one.display_text for one in reversed(state.chat_history) if one.origin == "person"), "")
    lines = [f"The user's last message: {words}", f"Mode: {state.execution_mode}"]
    if state.current_goal:
        lines.append(f"Goal: {state.current_goal}")
    lines += [f"Plan step {s.step_id} [{s.status}]: {s.description}" for s in state.vibe_plan]
    return "\n".join(lines)


def _render_messages(messages: list[Message], max_chars: int) -> str:
    """Render messages as plain text of about `max_chars` characters at most. The oldest messages are left out
    first, and the page of the session always: it stays in view as it is.
    """
    parts: list[str] = []
    total = 0
    of_page = {one.call_id for message in messages for one in message.tool_results if one.page is not None}
    for message in reversed(messages):
        if is_page_message(message):
            continue
        blocks = (block for block in message.blocks if getattr(block, "call_id", "") not in of_page)
        part = "\n".join(filter(None, (_block_text(message.role, block) for block in blocks)))
        total += len(part)
        if total > max_chars:
            parts.append("(earlier messages are left out)")
            break
        parts.append(part)
    return "\n".join(reversed(parts))


def _block_text(role: str, block: object) -> str:
    match block:
        case Text():
            return f"{role}: {_cut(block.text)}"
        case ToolUse():
            return f"call {block.tool}: {_cut(block.arguments)}"
        case ToolResult():
            return f"result ({block.outcome}): {_cut(block.display_text)}"
        case Attachment():
            return f"{role}: {block.label}"
        case _:
            return ""


def _cut(text: str) -> str:
    if len(text) <= _MAX_BLOCK_CHARS:
        return text
    half = _MAX_BLOCK_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
