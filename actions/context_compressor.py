"""Compresses a history: a summary replaces the older messages, which stay in the store."""

from collections.abc import Iterator

from ..state.application import ApplicationState, Usage
from ..state.conversation.content import Attachment
from ..state.conversation.messages import Message, Text, ToolResult, ToolUse, runtime_message
from ..state.conversation.transcript import Transcript
from ..state.errors import ContextFull
from ..state.process.crashpoints import reach
from .ports import ModelRequest, Ports, Reply, Toolbox
from .ports.events import Notice, UsageChanged
from .turn.burr_action import Changes, graph_action
from .turn.calls.result_eviction import evict_results
from .turn.model_call import MAX_COMPRESSIONS, call_model

KEEP_SHARE = 0.25
"""Share of the window that the newest messages may fill unchanged."""
_SUMMARY_SHARE = 0.5
_ENOUGH_SHARE = 0.6
"""If eviction leaves at most this share of the history, no summary is made."""
_ASKED_FROM = "prompt"
"""The value of `overflow_from` when a person asked for the compression."""
_LASTING_SHARE = 0.25
LASTING = "[Skill "
"""The prefix of a message repeated unchanged after a compression; a model's messages do not count."""
_MAX_SUMMARY_CHARS = 12_000
_MAX_BLOCK_CHARS = 2_000

_ASK = (
    "Below is the older part of this session. Summarize it for yourself, so that you can go on without"
    " it: what was asked, decided, done and found (names, paths, numbers, results), what failed, what is"
    " still open. At most 600 words. Answer with the summary only.\n\n{older}"
)


@graph_action(
    reads=[
        "overflow_from",
        "chat_history",
        "vibe_plan",
        "active_step_id",
        "tokens_per_byte",
        "equipment",
        "user_input",
    ],
    writes=["chat_history", "vibe_plan", "overflow_from", "return_to", "compressions", "usage", "turn_usage"],
    asks_model="summary",
    step_kind="compression",
    stop_note="It stopped before older messages were to be summarised.",
)
async def context_compressor(state: ApplicationState, ports: Ports) -> Changes:
    """Compress the larger of the active histories, then return to the previous action."""
    found = max(state.chat_history, state.active_history, key=lambda history: history.size_bytes)
    history, count = evict_results(found, ports.toolbox, 1)
    is_asked = state.overflow_from == _ASKED_FROM
    if not is_asked and count and history.size_bytes <= found.size_bytes * _ENOUGH_SHARE:
        ports.emit(Notice(f"{count} older results were put away; the model can read them again."))
        return {**_replace_history(state, found, history), **_hand_back(state, state.compressions + 1)}
    window_bytes = int(ports.model.context_window / state.tokens_per_byte)
    # At most half of a history that the provider rejected earlier than expected.
    kept_bytes = min(int(window_bytes * KEEP_SHARE), history.size_bytes // (8 if is_asked else 2))
    keep = _count_messages_to_keep(history, kept_bytes >> state.compressions)
    older = list(history)[: len(history) - keep]
    if not older:
        if is_asked:
            ports.emit(Notice("Nothing is old enough to be summarized."))
        return _hand_back(state, MAX_COMPRESSIONS)
    if ports.hooks is not None:
        await ports.hooks.before_compression()
    if not is_asked:
        notice = "The conversation gets too long for the model: compressing the older part."
        ports.emit(Notice(notice, "compression"))
    text, used = "", Usage()
    if reply := await _summarize(state, ports, older, int(window_bytes * _SUMMARY_SHARE)):
        text, used = reply.message.text.strip(), reply.usage + reply.discarded
        ports.emit(UsageChanged(state.turn_usage + used, reply.usage))
    reach("compaction_mid")
    summary = text[:_MAX_SUMMARY_CHARS] or _render_messages(older, _MAX_SUMMARY_CHARS)
    if ports.hooks is not None:
        await ports.hooks.after_compression(summary)
    opening = runtime_message(f"{_quote_essentials(state)}\n\nSummary of what came before:\n{summary}")
    lasting = _lasting(older, ports.toolbox, int(window_bytes * _LASTING_SHARE))
    shorter = history.compact(opening, keep, lasting)
    if is_asked:
        notice = f"A summary stands for {len(older)} messages now: {found.size_bytes:,} bytes have become"
        ports.emit(Notice(f"{notice} {shorter.size_bytes:,}. /uncompact brings them back.", "compression"))
    return {
        **_replace_history(state, found, shorter),
        **_hand_back(state, state.compressions + 1),
        "usage": state.usage + used,
        "turn_usage": state.turn_usage + used,
    }


async def _summarize(
    state: ApplicationState, ports: Ports, older: list[Message], max_chars: int
) -> Reply | None:
    """Ask the model for a summary; None if not even that request fits."""
    asked = runtime_message(_ASK.format(older=_render_messages(older, max_chars)) + _focus(state))
    request = ModelRequest(
        ports.requests.system,
        ports.requests.offer(state.equipment).specs,
        (Transcript.of(asked),),
        purpose="summary",
    )
    try:
        return await call_model(state, ports, request, is_aside=True)
    except ContextFull:
        return None


def _focus(state: ApplicationState) -> str:
    """Return the person's instructions for the summary, if there are any."""
    _, _, words = state.user_input.strip().partition(" ")
    is_asked_for = state.overflow_from == _ASKED_FROM and words.strip()
    return f"\n\nAbove all keep: {words.strip()}" if is_asked_for else ""


def _lasting(older: list[Message], toolbox: Toolbox, most_bytes: int) -> list[Message]:
    """Return the parts of these messages to keep word for word, each once, the newest that fit."""
    found: dict[str, Message] = {}
    for message in reversed(older):
        for text in _lasting_texts(message, toolbox):
            again = runtime_message(text)
            most_bytes -= 0 if text in found else again.size_bytes
            if most_bytes >= 0:
                found.setdefault(text, again)
    return list(found.values())[::-1]


def _lasting_texts(message: Message, toolbox: Toolbox) -> Iterator[str]:
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
    """Return how many of the newest messages stay, possibly 0; calls stay with their results."""
    size = best = 0
    for kept, message in enumerate(reversed(list(history)), 1):
        size += message.size_bytes
        if size > max_bytes:
            break
        if message.role != "tool":
            best = kept
    return best


def _quote_essentials(state: ApplicationState) -> str:
    """Return the facts that a summary must not lose, quoted unchanged."""
    words = state.user_input
    if state.overflow_from == _ASKED_FROM:
        words = next((one.display_text for one in reversed(state.chat_history) if one.origin == "person"), "")
    lines = [f"The user's last message: {words}", f"Mode: {state.execution_mode}"]
    if state.current_goal:
        lines.append(f"Goal: {state.current_goal}")
    lines += [f"Plan step {s.step_id} [{s.status}]: {s.description}" for s in state.vibe_plan]
    return "\n".join(lines)


def _render_messages(messages: list[Message], max_chars: int) -> str:
    """Render messages as plain text of at most about `max_chars`; the oldest are left out."""
    parts: list[str] = []
    total = 0
    for message in reversed(messages):
        part = "\n".join(filter(None, (_block_text(message.role, block) for block in message.blocks)))
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
