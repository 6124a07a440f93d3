"""Edits a text in the person's editor."""

import asyncio
import os
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ....state.process.temporaries import make_prefix
from ...headless.headless import clean
from ...terminal.drive import ctrl_c_left_alone


class EditorFailed(Exception):
    """The editor did not work, so the text is unchanged; the message is the reason."""


def choose_editor() -> Sequence[str]:
    """Return the command of $VISUAL or $EDITOR, or an empty list if neither variable is set.

    Raises `EditorFailed` if the command cannot be parsed.
    """
    try:
        return shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    except ValueError:
        raise EditorFailed("$EDITOR cannot be read: a quote in it is not closed.") from None


async def in_editor(editor: Sequence[str], text: str, suffix: str = ".txt") -> str:
    """Edit a text with the command `editor` in a temporary file with mode 0600, and return the new text.

    Raises `EditorFailed` if the editor cannot be started or ends with an error.
    """
    descriptor, name = tempfile.mkstemp(prefix=make_prefix("edit"), suffix=suffix)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        with ctrl_c_left_alone():
            code = await _wait_for_editor(await asyncio.create_subprocess_exec(*editor, name))
        if code != 0:
            raise EditorFailed(f"{editor[0]} ended with an error; nothing was changed.")
        # Reading bytes keeps the line ends as they are.
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
