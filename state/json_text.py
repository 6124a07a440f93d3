"""Reads JSON that a model or an older version wrote, which may be anything."""

import json
from typing import Any, cast


def json_or_text(text: str) -> Any:
    """Return the value of a JSON text; what is no JSON stays text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def json_object(text: str) -> dict[str, Any] | None:
    """Return the object that a JSON text is; None if it is none, or no JSON."""
    value = json_or_text(text)
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def subject_of(arguments: str) -> str:
    """Return the first argument of a call that is a text; empty if there is none."""
    values = (json_object(arguments) or {}).values()
    return next((value for value in values if isinstance(value, str)), "")
