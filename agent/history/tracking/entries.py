"""Builds the entries of Burr's log as JSON."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any, NamedTuple, cast

from ....state.calls import parent_call_id_of
from ....state.conversation.messages import Message, ToolResult
from ....state.lazy_dataclass import dataclass
from ....state.process.clock import format_time
from ....state.store.call_moves import find_recorded_result
from ....state.store.recording import CallMove
from ....state.trace import ModelCalled
from .texts import Json, Texts, message_view


@dataclass(slots=True)
class SpanDraft:
    """A span that has no sequence number yet."""

    name: str
    began_at: str
    ended_at: str | None
    attributes: Json = field(default_factory=dict[str, Any])
    below: list["SpanDraft"] = field(default_factory=list["SpanDraft"])
    """The spans of the calls that the tool of this call made."""


def begin_entry(seq: int, at: str, action: str, inputs: Json) -> Json:
    return {"type": "begin_entry", "start_time": at, "action": action, "inputs": inputs, "sequence_id": seq}


def end_entry(
    seq: int, at: str, action: str, state: Json, result: Json | None = None, exception: str | None = None
) -> Json:
    return {
        "type": "end_entry",
        "end_time": at,
        "action": action,
        "result": result,
        "exception": exception,
        "state": state,
        "sequence_id": seq,
    }


def attributes(seq: int, span_id: str | None, values: Mapping[str, Any], at: str) -> list[Json]:
    """Return an attribute for each value. Without a span the attributes belong to the step."""
    return [
        {
            "type": "attribute",
            "key": key,
            "action_sequence_id": seq,
            "span_id": span_id,
            "value": value,
            "tags": {},
            "time_logged": at,
        }
        for key, value in values.items()
    ]


def spans(seq: int, drafts: Sequence[SpanDraft]) -> tuple[list[Json], list[Json]]:
    """Return the spans of a step in the order of their beginnings, and their attributes."""
    found: list[Json] = []
    span_facts: list[Json] = []
    for place, parent, draft in _place_spans("", drafts):
        span_id = f"{seq}:{place}"
        found.append(_span(seq, span_id, f"{seq}:{parent}" if parent else None, draft))
        span_facts += attributes(seq, span_id, draft.attributes, draft.began_at)
    return found, span_facts


def _place_spans(parent: str, drafts: Sequence[SpanDraft]) -> Iterator[tuple[str, str, SpanDraft]]:
    """Yield each span after its place and the place of its parent, which is empty for the outer spans.

    The UI sorts places as texts and indents a span by the dots in its place, such as `2.07`.
    """
    width = len(str(len(drafts)))
    for number, draft in enumerate(sorted(drafts, key=lambda draft: draft.began_at)):
        place = f"{parent}.{number:0{width}d}" if parent else f"{number:0{width}d}"
        yield place, parent, draft
        yield from _place_spans(place, draft.below)


def _span(seq: int, span_id: str, parent_id: str | None, draft: SpanDraft) -> Json:
    begin: Json = {
        "type": "begin_span",
        "start_time": draft.began_at,
        "action_sequence_id": seq,
        "span_id": span_id,
        "span_name": draft.name,
        "parent_span_id": parent_id,
        "span_dependencies": [],
    }
    end = {"type": "end_span", "end_time": draft.ended_at, "action_sequence_id": seq, "span_id": span_id}
    return {"begin_entry": begin, "end_entry": end if draft.ended_at is not None else None}


_SHORT = 400
_NAME_CHARS = 60
_FIRST = ("tool", "arguments", "outcome", "result", "duration_ms", "decision", "decided_by", "who", "reason")
_LAST = ("call_id", "arguments_sha256")


def model_span(called: ModelCalled, new: Sequence[Message | None], texts: Texts) -> SpanDraft:
    """Return the span of a model call. `new` are the messages that the previous call did not contain."""
    request = called.request
    values = {
        "model": called.model,
        "finish": called.finish,
        "usage": called.total_usage.model_dump() if called.error is None else None,
        **_insights(called),
        "latency": {"first_ms": called.first_ms, "duration_ms": called.duration_ms, "pieces": called.pieces},
        "request": {
            "messages": sum(count for count, _ in request.histories),
            "bytes": sum(size for _, size in request.histories),
            "histories": [{"messages": count, "bytes": size} for count, size in request.histories],
            "forced_tool": request.forced_tool,
            "system_and_tools_sha256": request.fixed_sha256,
        },
        "new_messages": [message_view(message, texts, _SHORT) for message in new],
        "retries": [texts.format_text(notice) for notice in called.notices],
        "reply": message_view(called.reply, texts) if called.reply is not None else None,
        "error": failure_text(called.error.code, called.error.message, texts) if called.error else None,
    }
    span_facts = {name: value for name, value in values.items() if value not in (None, [])}
    return SpanDraft(
        f"chat {called.model}", called.began_at, add_duration(called.began_at, called.duration_ms), span_facts
    )


def _insights(called: ModelCalled) -> Json:
    """Return the values that Burr's front end adds up, under the names that it expects."""
    if called.error is not None:
        return {}
    return {
        "gen_ai.response.model": called.model.partition("/")[2] or called.model,
        "gen_ai.usage.prompt_tokens": called.usage.input_tokens,
        "gen_ai.usage.completion_tokens": called.usage.output_tokens,
    }


def tool_spans(
    moves: Iterable[CallMove],
    facts: Mapping[str, Json],
    arguments: Mapping[str, Any],
    files: Mapping[str, Sequence[str]],
    results: Mapping[str, ToolResult],
    texts: Texts,
) -> list[SpanDraft]:
    """Return a span for each start of a call, and for each end without a start.

    A span whose end is not recorded is open. Calls that a tool made are below the span of the tool's call.
    """
    spans: list[tuple[str, SpanDraft]] = []
    span_facts: dict[str, Json] = {}
    open_spans: dict[str, SpanDraft] = {}
    for move in moves:
        if move.move not in ("started", "finished"):
            continue
        call_id = move.call_id
        if call_id not in span_facts:
            known = {**facts.get(call_id, {}), "arguments": arguments.get(call_id, "")}
            span_facts[call_id] = {"call_id": call_id, **texts.value(known)}
        known = span_facts[call_id]
        known |= {name: texts.value(value) for name, value in move.body.items() if name != "result"}
        if move.move == "started":
            open_spans[call_id] = _open_span(known, move.at)
            spans.append((call_id, open_spans[call_id]))
        elif move.move == "finished":
            span = open_spans.pop(call_id, None)
            if span is None:
                span = _open_span(known, move.at)
                spans.append((call_id, span))
            span.ended_at = move.at
            result = results.get(call_id) or find_recorded_result(move)
            span.attributes |= {**known, **_ending(result, files.get(call_id, ()), texts)}
    for _, span in spans:
        span.attributes = _in_order(span.attributes)
    return _nest(spans)


def _nest(spans: Sequence[tuple[str, SpanDraft]]) -> list[SpanDraft]:
    """Return the outer spans. Each nested call is put below the last span of its parent that began before it.

    A nested call that a person approved runs before its parent starts again, so it is below the next span of
    its parent.
    """
    parents: dict[str, list[SpanDraft]] = {}
    for call_id, span in spans:
        parents.setdefault(call_id, []).append(span)
    outer: list[SpanDraft] = []
    for call_id, span in spans:
        above = parents.get(parent_call_id_of(call_id), [])
        earlier = [one for one in above if one.began_at <= span.began_at]
        (earlier[-1].below if earlier else above[0].below if above else outer).append(span)
    return outer


def _in_order(span_facts: Json) -> Json:
    """Sort the attributes by their importance for a reader."""
    first = {name: span_facts[name] for name in _FIRST if name in span_facts}
    last = {name: span_facts[name] for name in _LAST if name in span_facts}
    return first | {name: value for name, value in span_facts.items() if name not in last} | last


def _open_span(known: Json, at: str) -> SpanDraft:
    """Return a span without an end, named after the tool and its first text argument."""
    arguments = known.get("arguments")
    values = cast("Json", arguments).values() if isinstance(arguments, dict) else ()
    subject = next((value for value in values if isinstance(value, str)), "")
    name = " ".join(f"{known.get('tool', 'tool')} {subject}"[:_NAME_CHARS].split())
    return SpanDraft(name, at, None, dict(known))


def _ending(result: ToolResult | None, changed: Sequence[str], texts: Texts) -> Json:
    ending: Json = {}
    if result is not None:
        ending["duration_ms"] = result.duration_ms
        ending["result"] = texts.format_text(result.content, _SHORT)
    if changed:
        ending["changed_files"] = [texts.format_text(path) for path in changed]
    return ending


def failure_text(code: str, message: str, texts: Texts) -> str:
    return texts.format_text(f"{code}: {message}")


def add_duration(at: str, duration_ms: int) -> str:
    """Return a time plus `duration_ms`; the same time if it cannot be parsed."""
    try:
        return format_time(datetime.fromisoformat(at) + timedelta(milliseconds=duration_ms))
    except (ValueError, OverflowError):
        return at


def stream(seq: int, began_at: str, first_at: str, ended_at: str, pieces: int) -> list[Json]:
    """Return the entries for a streamed reply: its begin, first item and end."""
    place = {"action_sequence_id": seq, "span_id": None}
    return [
        {"type": "begin_stream", "stream_init_time": began_at, **place},
        {"type": "first_item_stream", "first_item_time": first_at, **place},
        {"type": "end_stream", "end_time": ended_at, "items_streamed": pieces, **place},
    ]


_APP = re.compile(r"(?P<session>.+?)(?:~step-(?P<step>.+)|~steps-(?P<first>\d{1,12})-(?P<last>\d{1,12}))?")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_ESCAPE = re.compile(r"((?:~[0-9A-F]{2})+)")
_NO_WORD = re.compile(r"[^\w.,@+]+")
_NO_SEGMENT = re.compile(r"[^\w.,@+$: -]+")
_MAX_TITLE_CHARS = 48
_UNTITLED = "-"
"""The slug for a missing title. No other slug begins with it."""
_BETWEEN, _CUT = " · ", "…"
_LEAST_TITLE_CHARS, _MAX_FACT_CHARS = 16, 20


class AppName(NamedTuple):
    """The name of a run page: of a session, of the work on one plan step, or of older steps."""

    session_id: str
    step_id: str | None = None
    first: int | None = None
    last: int | None = None


def app_id(name: AppName) -> str:
    """Return the name of a page as one segment of a URL."""
    session = _escape(name.session_id)
    if name.step_id is not None:
        return f"{session}~step-{_escape(name.step_id)}"
    if name.first is not None:
        return f"{session}~steps-{name.first}-{name.last}"
    return session


def app_name(text: str) -> AppName | None:
    """Parse a value of `app_id`; return None if it is not one."""
    found = _APP.fullmatch(text)
    if found is None:
        return None
    session, step, first, last = found["session"], found["step"], found["first"], found["last"]
    return AppName(
        _unescape(session),
        None if step is None else _unescape(step),
        None if first is None else int(first),
        None if last is None else int(last),
    )


def project_id(cwd: str) -> str:
    """Return an id for a working folder: its last part and a short hash."""
    digest = hashlib.sha256(cwd.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_slug(PurePath(cwd).name) or 'folder'}-{digest}"


def partition_key(title: str) -> str | None:
    """Return a session's title as one readable segment of a URL. All pages of the session share it."""
    return _slug(title)[:_MAX_TITLE_CHARS].rstrip("-.") or None


def make_listed_key(key: str | None, *facts: str) -> str:
    """Return a partition key with facts after it, because Burr's list of runs shows this key but no tags.

    The list does not scroll. So the title is cut, and the columns after it stay visible.
    """
    segments = _BETWEEN.join(_NO_SEGMENT.sub(":", fact).strip()[:_MAX_FACT_CHARS] for fact in facts)
    title, room = key or _UNTITLED, max(_LEAST_TITLE_CHARS, _MAX_TITLE_CHARS - len(_BETWEEN + segments))
    return _BETWEEN.join((title if len(title) <= room else title[: room - 1] + _CUT, segments))


def is_listed_as(listed: str, key: str | None) -> bool:
    """Return whether `listed` is this key, or a value that `make_listed_key` makes of it."""
    title = listed.partition(_BETWEEN)[0]
    return (key or _UNTITLED).startswith(title[:-1]) if title.endswith(_CUT) else title == (key or _UNTITLED)


def _slug(text: str) -> str:
    return _NO_WORD.sub("-", text[:200]).strip("-._")


def _escape(text: str) -> str:
    return _UNSAFE.sub(
        lambda match: "".join(f"~{byte:02X}" for byte in match[0].encode("utf-8", "replace")), text
    )


def _unescape(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: bytes.fromhex(match[1].replace("~", "")).decode("utf-8", "replace"), text
    )
