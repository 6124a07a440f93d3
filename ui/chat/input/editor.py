"""Lets the person change a text in the editor of their choice."""

import asyncio
import os
import shlex
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ...headless import clean
from ...terminal.drive import ctrl_c_left_alone


class EditorFailed(Exception):
    """The text stays as it was; the message says why."""


def chosen_editor(environment: Mapping[str, str]) -> list[str]:
    """Return the words that start $VISUAL or $EDITOR; empty without one. Raises `EditorFailed`."""
    named = environment.get("VISUAL") or environment.get("EDITOR") or ""
    try:
        return shlex.split(named)
    except ValueError:
        raise EditorFailed(f"The editor {named} cannot be started: a quote is not closed.") from None


async def in_editor(editor: list[str], text: str, suffix: str = ".txt") -> str:
    """Return the text as the editor left it; the file is readable for its owner only.

    Raises `EditorFailed`.
    """
    descriptor, name = tempfile.mkstemp(prefix="sandbur-", suffix=suffix)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        with ctrl_c_left_alone():
            code = await _ended(await asyncio.create_subprocess_exec(*editor, name))
        if code != 0:
            raise EditorFailed(f"{editor[0]} ended with an error; nothing was changed.")
        return clean(path.read_text("utf-8", errors="replace"))
    except OSError as error:
        raise EditorFailed(f"The editor {editor[0]} cannot be started: {error.strerror}.") from None
    finally:
        path.unlink(missing_ok=True)


async def _ended(process: asyncio.subprocess.Process) -> int:
    try:
        return await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.terminate()
        raise
