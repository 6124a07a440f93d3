"""Remembers the fields of a state as they were last written, and computes the smallest JSON that updates
them.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from ..conversation.content import Source
from ..conversation.messages import Message
from ..conversation.transcript import LogBook, Transcript


@cache
def _adapters(model: type[BaseModel]) -> dict[str, TypeAdapter[Any]]:
    # The annotation lacks the metadata of the field, which stored fields do not use.
    fields = model.model_fields.items()
    return {name: TypeAdapter(cast(type[Any], field.annotation)) for name, field in fields}


def encode_field(model: type[BaseModel], name: str, value: Any, book: LogBook, is_brief: bool = False) -> str:
    """Return a field as JSON. With `is_brief`, default values of a record are left out."""
    adapter = _adapters(model)[name]
    return adapter.dump_json(value, context={"log_book": book}, exclude_defaults=is_brief).decode()


def decode_fields(model: type[BaseModel], fields: dict[str, Any], book: LogBook) -> dict[str, Any]:
    """Return every field of `model`. Fields that are missing in `fields` get their defaults."""
    empty = model()
    values = {name: getattr(empty, name) for name in model.model_fields}
    adapters = _adapters(model)
    known = {name: value for name, value in fields.items() if name in adapters}
    values |= {
        name: adapters[name].validate_python(value, context={"log_book": book})
        for name, value in known.items()
    }
    return values


def encode_message(message: Message) -> str:
    return message.model_dump_json(exclude_none=True)


def parse_message(body: str, contents: Source | None = None) -> Message | None:
    """Return a stored message, or None if it cannot be parsed.

    Its files are read from `contents` when they are needed.
    """
    try:
        return Message.model_validate_json(body, context={"contents": contents})
    except ValidationError:
        return None


PATCH = "$patch"
"""The key of a change of single list elements: {"$patch": {"2": element}, "length": 3}."""

_UNSET = object()


_MANY_SPANS = 5
"""The least number of spans of a history for a patch. A history with fewer spans is written completely."""


def _make_patch(old: list[str], new: list[str]) -> str:
    """Return a patch that turns the JSON list `old` into `new`."""
    changed = {n: text for n, text in enumerate(new) if n >= len(old) or old[n] != text}
    patch = ",".join(f'"{n}":{text}' for n, text in changed.items())
    return f'{{"{PATCH}":{{{patch}}},"length":{len(new)}}}'


def _split_spans(encoded: str) -> list[str]:
    """Return the JSON of each span of an encoded history."""
    return [f"[{inner}]" for inner in encoded[2:-2].split("],[")] if len(encoded) > 2 else []


class WrittenFields:
    """Remembers each field by its identity and its JSON, so that unchanged fields cost nothing."""

    def __init__(self, model: type[BaseModel], book: LogBook) -> None:
        self._model = model
        self._book = book
        self._values: dict[str, Any] = {}
        self._encoded: dict[str, str] = {}
        self._elements: dict[str, list[tuple[Any, str]]] = {}
        self._spans: dict[str, list[str]] = {}

    @property
    def values(self) -> Mapping[str, Any]:
        """Return the fields of the last `take`."""
        return self._values

    @property
    def is_empty(self) -> bool:
        return not self._encoded

    def differ_from(self, values: Mapping[str, Any]) -> bool:
        return any(self._values.get(name, _UNSET) is not value for name, value in values.items())

    def take(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Remember `values`. Return the JSON of the changed fields by name."""
        changes: dict[str, str] = {}
        for name, value in values.items():
            if self._values.get(name, _UNSET) is value:
                continue
            if isinstance(value, tuple):
                change = self._take_tuple(name, cast("tuple[Any, ...]", value))
            elif isinstance(value, Transcript):
                change = self._take_transcript(name, value)
            else:
                change = self._take_one(name, value)
            self._values[name] = value
            if change is not None:
                changes[name] = change
        return changes

    def whole(self) -> dict[str, str]:
        """Return the JSON of every field."""
        return dict(self._encoded)

    def _take_one(self, name: str, value: Any) -> str | None:
        encoded = encode_field(self._model, name, value, self._book, is_brief=True)
        if self._encoded.get(name) == encoded:
            return None
        self._encoded[name] = encoded
        return encoded

    def _take_tuple(self, name: str, value: tuple[Any, ...]) -> str | None:
        """Encode only new elements. The others are recognized by identity."""
        before = self._elements.get(name)
        known = {id(element): encoded for element, encoded in before or ()}
        after = [(element, known.get(id(element)) or self._element(name, element)) for element in value]
        self._elements[name] = after
        encoded = "[" + ",".join(text for _, text in after) + "]"
        if self._encoded.get(name) == encoded:
            return None
        self._encoded[name] = encoded
        if before is None:
            return encoded
        return min(encoded, _make_patch([text for _, text in before], [text for _, text in after]), key=len)

    def _take_transcript(self, name: str, value: Transcript) -> str | None:
        """Encode only the new spans of a history with many spans, so that each step costs the same."""
        encoded = encode_field(self._model, name, value, self._book)
        if self._encoded.get(name) == encoded:
            return None
        self._encoded[name] = encoded
        before, after = self._spans.get(name), _split_spans(encoded)
        self._spans[name] = after
        if before is None or len(after) < _MANY_SPANS:
            return encoded
        return min(encoded, _make_patch(before, after), key=len)

    def _element(self, name: str, element: Any) -> str:
        return encode_field(self._model, name, (element,), self._book)[1:-1]


def merge(fields: dict[str, Any], delta: str) -> None:
    """Update decoded fields with the JSON of a later step."""
    for name, value in cast(dict[str, Any], json.loads(delta)).items():
        if isinstance(value, dict) and PATCH in value:
            patch = cast(dict[str, Any], value)
            elements = [*fields.get(name, ())][: patch["length"]]
            elements += [None] * (patch["length"] - len(elements))
            for index, element in patch[PATCH].items():
                elements[int(index)] = element
            fields[name] = elements
        else:
            fields[name] = value


UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What reading the content of a damaged step raises."""


def merge_steps(steps: Sequence[tuple[int, str]], foreign_until: int) -> tuple[int, dict[str, Any]]:
    """Return how many of the steps can be read, up to the first damaged one, and the fields after them.

    Each step has its number and its JSON; those up to `foreign_until` were imported.
    """
    fields: dict[str, Any] = {}
    was_foreign = False
    for count, (seq, delta) in enumerate(steps):
        before = fields
        fields = void_approvals(fields) if was_foreign and seq > foreign_until else dict(fields)
        try:
            merge(fields, delta)
        except UNREADABLE:
            return count, void_approvals(before) if was_foreign else before
        was_foreign = seq <= foreign_until
    return len(steps), void_approvals(fields) if was_foreign else fields


def void_approvals(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields without the approvals and the mode of another session or machine.

    What the steps of a plan may do was not approved here.
    """
    steps = cast("Sequence[dict[str, Any] | None]", fields.get("vibe_plan") or ())
    plan = [step and {key: value for key, value in step.items() if key != "allows"} for step in steps]
    changed = {"vibe_plan": plan} if plan else {}
    calls = cast("Sequence[dict[str, Any] | None]", fields.get("pending_tool_calls") or ())
    pending = [call and {**call, **_void_call(call)} for call in calls]
    return {**fields, **changed, "execution_mode": "interactive", "pending_tool_calls": pending}


def _void_call(call: Mapping[str, Any]) -> Mapping[str, Any]:
    settled: dict[str, Any] = {"settled_as": None, "settled_result": ""} if call.get("settled_as") else {}
    if hook := call.get("hook"):
        settled |= {"hook": {**hook, "decision": ""}}
    if call.get("decision") != "approved":
        return settled
    return {
        **settled,
        "decision": "undecided",
        "decided_by": "policy",
        "reason": "it was approved elsewhere",
    }
