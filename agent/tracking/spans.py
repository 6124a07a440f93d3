"""Calls of models and tools as Burr's spans with attributes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from agent.tracking.entries import SpanDraft
from agent.tracking.messages import message_view
from agent.tracking.recording import CallMove, body_of
from agent.tracking.texts import Texts
from state.store.clock import text_of
from state.trace import ModelCalled

Json = dict[str, Any]

_SHORT = 400
_NAME_CHARS = 60
_FIRST = ("tool", "arguments", "outcome", "result", "duration_ms", "decision", "decided_by", "who", "reason")
_LAST = ("call_id", "arguments_sha256")


def model_span(called: ModelCalled, new: Sequence[Json], texts: Texts) -> SpanDraft:
    """Return the span of a model call; `new` are the messages that the call before had not sent."""
    request = called.request
    said = {
        "model": called.model,
        "finish": called.finish,
        "usage": called.usage.model_dump() if called.error is None else None,
        "latency": {"first_ms": called.first_ms, "duration_ms": called.duration_ms, "pieces": called.pieces},
        "request": {
            "messages": sum(count for count, _ in request.histories),
            "bytes": sum(size for _, size in request.histories),
            "histories": [{"messages": count, "bytes": size} for count, size in request.histories],
            "forced_tool": request.forced_tool,
            "system_and_tools_sha256": request.fixed_sha256,
        },
        "new_messages": [message_view(message, texts, _SHORT) for message in new],
        "retries": [texts.shown(notice) for notice in called.notices],
        "reply": message_view(called.reply.model_dump(), texts) if called.reply is not None else None,
        "error": failure_text(called.error.code, called.error.message, texts) if called.error else None,
    }
    told = {name: value for name, value in said.items() if value not in (None, [])}
    return SpanDraft(
        f"chat {called.model}", called.began_at, later(called.began_at, called.duration_ms), told
    )


def tool_spans(
    moves: Iterable[CallMove],
    facts: Mapping[str, Json],
    arguments: Mapping[str, Any],
    files: Mapping[str, Sequence[str]],
    results: Mapping[str, Json],
    texts: Texts,
) -> list[SpanDraft]:
    """Return a span for every start of a call, and for every end of one that never started here.

    Those whose end is not recorded are open.
    """
    spans: list[SpanDraft] = []
    told: dict[str, Json] = {}
    open_spans: dict[str, SpanDraft] = {}
    for move in moves:
        if move.move not in ("started", "finished"):
            continue
        call_id, body = move.call_id, body_of(move)
        if call_id not in told:
            known = {**facts.get(call_id, {}), "arguments": arguments.get(call_id, "")}
            told[call_id] = {"call_id": call_id, **texts.value(known)}
        known = told[call_id]
        known |= {name: texts.value(value) for name, value in body.items() if name != "result"}
        if move.move == "started":
            open_spans[call_id] = _opened(known, move.at)
            spans.append(open_spans[call_id])
        elif move.move == "finished":
            span = open_spans.pop(call_id, None)
            if span is None:
                span = _opened(known, move.at)
                spans.append(span)
            span.ended_at = move.at
            span.attributes |= {**known, **_ending(call_id, files, results, texts)}
    for span in spans:
        span.attributes = _in_order(span.attributes)
    return spans


def _in_order(told: Json) -> Json:
    """Put first what a person looks for first."""
    first = {name: told[name] for name in _FIRST if name in told}
    last = {name: told[name] for name in _LAST if name in told}
    return first | {name: value for name, value in told.items() if name not in last} | last


def _opened(known: Json, at: str) -> SpanDraft:
    """Name a span by its tool and its first argument that is a text."""
    arguments = known.get("arguments")
    values = cast("Json", arguments).values() if isinstance(arguments, dict) else ()
    subject = next((value for value in values if isinstance(value, str)), "")
    name = " ".join(f"{known.get('tool', 'tool')} {subject}"[:_NAME_CHARS].split())
    return SpanDraft(name, at, None, dict(known))


def _ending(
    call_id: str, files: Mapping[str, Sequence[str]], results: Mapping[str, Json], texts: Texts
) -> Json:
    ending: Json = {}
    if (result := results.get(call_id)) is not None:
        ending["duration_ms"] = result.get("duration_ms")
        ending["result"] = texts.shown(str(result.get("content", "")), _SHORT)
    if changed := files.get(call_id):
        ending["changed_files"] = [texts.shown(path) for path in changed]
    return ending


def failure_text(code: str, message: str, texts: Texts) -> str:
    return texts.shown(f"{code}: {message}")


def later(at: str, duration_ms: int) -> str:
    """Return a time that much later; the same if it cannot be read."""
    try:
        return text_of(datetime.fromisoformat(at) + timedelta(milliseconds=duration_ms))
    except (ValueError, OverflowError):
        return at
