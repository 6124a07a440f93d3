"""Edits a text in the person's editor."""

import asyncio
import os
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...headless.headless import clean
from ...terminal.drive import ctrl_c_left_alone


class EditorFailed(Exception):
    """The text is unchanged; the message says why."""


def choose_editor() -> Sequence[str]:
    """Return the command of $VISUAL or $EDITOR; empty if neither is set. Raises `EditorFailed`."""
    try:
        return shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    except ValueError:
        raise EditorFailed("$EDITOR cannot be read: a quote in it is not closed.") from None


async def in_editor(editor: Sequence[str], text: str, suffix: str = ".txt") -> str:
    """Return the edited text; only the owner can read the temporary file.

    Raises `EditorFailed`.
    """
    descriptor, name = tempfile.mkstemp(prefix="sandbur-", suffix=suffix)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        with ctrl_c_left_alone():
            code = await _wait_for_editor(await asyncio.create_subprocess_exec(*editor, name))
        if code != 0:
            raise EditorFailed(f"{editor[0]} ended with an error; nothing was changed.")
        # As bytes: no line end becomes another one.
        return clean(path.read_bytes().decode("utf-8", "replace"))
    except OSError as error:
        raise EditorFailed(f"The editor {editor[0]} cannot be started: {error.strerror}.") from None
    finally:
        path.unlink(missing_ok=True)


async def _wait_for_editor(process: asyncio.subprocess.Process) -> int:
    try:
        return await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.terminate()
        raise
