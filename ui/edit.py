"""Lets the person change the arguments of a call: in their editor, or on a line."""

import asyncio
import json
import os
import shlex
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ui.calls import fields
from ui.signals import ctrl_c_left_alone
from ui.stdin import clean


class BadEdit(Exception):
    """The changed text cannot be used; the message says why."""


async def edited_arguments(arguments: str, ask_line: Callable[[str], Awaitable[str | None]]) -> str | None:
    """Return the new JSON arguments, None if nothing was changed; raises `BadEdit`.

    A call that has a command is edited as that command, any other as its JSON.
    """
    values = fields(arguments)
    command = values.get("command")
    text = command if isinstance(command, str) else _pretty(arguments, values)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    new = await _in_editor(shlex.split(editor), text) if editor else await ask_line(text)
    if new is None or new.strip() == text.strip():
        return None
    if isinstance(command, str):
        return json.dumps({**values, "command": new.rstrip("\n")}, ensure_ascii=False)
    if not fields(new):
        raise BadEdit("The arguments must be a JSON object; nothing was changed.")
    return new.strip()


def _pretty(arguments: str, values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) if values else arguments


async def _in_editor(editor: list[str], text: str) -> str:
    """Return the text as the editor left it; the file is readable for its owner only."""
    descriptor, name = tempfile.mkstemp(prefix="sandbur-", suffix=".txt")
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        with ctrl_c_left_alone():
            process = await asyncio.create_subprocess_exec(*editor, name)
            code = await process.wait()
        if code != 0:
            raise BadEdit(f"{editor[0]} ended with an error; nothing was changed.")
        return clean(path.read_text("utf-8", errors="replace"))
    except OSError as error:
        raise BadEdit(f"The editor {editor[0]} cannot be started: {error.strerror}.") from None
    finally:
        path.unlink(missing_ok=True)
