"""Which of a call's arguments a report shows besides its subject, and how."""

import json
from typing import Any, cast

from agent.report.account import Call, Cut

_SHORT_CHARS = 160


def shown_arguments(call: Call) -> list[tuple[str, Cut]]:
    """Return (name, value): the whole command where the subject is a part of it, else the JSON.

    Nothing where the subject says everything, or a difference shows what was written.
    """
    if call.arguments.left_out:
        return [("", call.arguments)]
    try:
        value: Any = json.loads(call.arguments.text)
    except (ValueError, RecursionError):
        return [("", call.arguments)] if call.arguments.text.strip() else []
    if not isinstance(value, dict):
        return [("", call.arguments)]
    fields = cast(dict[str, Any], value)
    if call.diffs and call.tool in ("write_file", "edit_file") and any(diff.lines for diff in call.diffs):
        return []
    command = fields.get("command")
    if isinstance(command, str) and call.tool == "run_shell_command":
        rest = {name: field for name, field in fields.items() if name != "command"}
        shown = [("Command", Cut(command))] if "\n" in command or len(command) > _SHORT_CHARS else []
        return [*shown, *([("Options", _pretty(rest))] if rest else [])]
    if len(fields) <= 1 and len(call.arguments.text) <= _SHORT_CHARS:
        return []
    return [("", _pretty(fields))]


def _pretty(fields: dict[str, Any]) -> Cut:
    return Cut(json.dumps(fields, indent=2, ensure_ascii=False))
