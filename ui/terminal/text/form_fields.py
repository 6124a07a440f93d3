"""The fields of a form that a tool or a tool server asks a person to fill in, and their typed values."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite, nan
from typing import Any, cast

from ....state.lazy_dataclass import dataclass
from .sanitize import one_line

MOST_FIELDS = 30
_MOST_CHOICES = 100
_YES, _NO = ("y", "yes", "true"), ("n", "no", "false")
_NAMES = {"integer": "a whole number", "number": "a number", "boolean": "yes or no", "array": "a list"}


class WrongValue(Exception):
    """The typed text is not a valid value of the field; the message says what to type."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One value of a form. Its texts are untrusted, and made safe for a terminal."""

    name: str
    """The key of the value."""
    label: str
    kind: str
    """The `type` of its schema, or `string`."""
    choices: tuple[str, ...] = ()
    """The possible values, or the parts of a list; empty: any."""
    labels: tuple[str, ...] = ()
    """What the person reads for each choice."""
    is_required: bool = False
    default: Any = None

    @property
    def hint(self) -> str:
        """Describe the value in a few words."""
        kind = _NAMES.get(self.kind, "")
        optional = "" if self.is_required else "optional"
        default = "" if self.default is None else f"default {one_line(_write(self.default))}"
        return ", ".join(filter(None, (kind, default or optional)))

    def parse(self, text: str) -> Any:
        """Return the value of a typed text that is not empty; raises `WrongValue`."""
        if self.kind == "array":
            return [self._choose(part.strip()) for part in text.split(",") if part.strip()]
        if self.choices:
            return self._choose(text)
        if self.kind == "boolean":
            return _parse_boolean(text)
        return _parse_number(text, self.kind) if self.kind in ("integer", "number") else text

    def _choose(self, text: str) -> str:
        """Return the choice that a number, a value or a label names."""
        if not self.choices or text in self.choices:
            return text
        if text in self.labels:
            return self.choices[self.labels.index(text)]
        if text.isdecimal() and 1 <= int(text[:9]) <= len(self.choices):
            return self.choices[int(text) - 1]
        raise WrongValue(f"Type a number from 1 to {len(self.choices)}.")


def fields_of(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Return the fields of the schema of an object; what a server wrote wrongly is ignored."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return ()
    names: list[Any] = cast("list[Any]", required) if isinstance(required, list) else []
    return tuple(
        _field_of(name, cast("dict[str, Any]", about) if isinstance(about, dict) else {}, name in names)
        for name, about in cast("dict[str, Any]", properties).items()
    )


def _field_of(name: str, about: dict[str, Any], is_required: bool) -> FormField:
    title, description = about.get("title"), about.get("description")
    label = title if isinstance(title, str) and title else name
    more = f" ({description})" if isinstance(description, str) and description else ""
    kind = about.get("type")
    items = about.get("items")
    listed = cast("dict[str, Any]", items) if kind == "array" and isinstance(items, dict) else about
    values, labels = _choices_of(listed)
    return FormField(
        name,
        one_line(f"{label}{more}"),
        kind if isinstance(kind, str) else "string",
        values,
        labels,
        is_required,
        about.get("default"),
    )


def _choices_of(about: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the values and the labels of a choice, in any of the forms of the protocol."""
    titled = about.get("oneOf") or about.get("anyOf")
    if isinstance(titled, list):
        rows = [cast("dict[str, Any]", row) for row in cast("list[Any]", titled) if isinstance(row, dict)]
        pairs = [(row["const"], row.get("title")) for row in rows if isinstance(row.get("const"), str)]
    else:
        values = _texts(about.get("enum"))
        names = _texts(about.get("enumNames"))
        pairs = list(zip(values, names if len(names) == len(values) else values, strict=True))
    pairs = pairs[:_MOST_CHOICES]
    labels = tuple(one_line(label if isinstance(label, str) else value) for value, label in pairs)
    return tuple(value for value, _ in pairs), labels


def _texts(value: Any) -> Sequence[str]:
    return (
        [one for one in cast("list[Any]", value) if isinstance(one, str)] if isinstance(value, list) else []
    )


def _parse_boolean(text: str) -> bool:
    if text.lower() in _YES:
        return True
    if text.lower() in _NO:
        return False
    raise WrongValue("Type y or n.")


def _parse_number(text: str, kind: str) -> float:
    try:
        value = int(text) if kind == "integer" else float(text)
    except ValueError:
        value = nan
    if isinstance(value, float) and not isfinite(value):
        raise WrongValue(f"Type {_NAMES[kind]}.")
    return value


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
