"""Texts that leave the chat or come into it: `/copy` and `/editor`."""

import asyncio
import base64
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ....agent.session.run import answer
from ....state.errors import UsageError
from .command import DONE, SlashContext, SlashOffer, SlashResult, tell, warn

_MAX_BYTES = 100_000
"""Terminals take no more by their escape sequence."""
_WAIT_S = 5.0
_CODE = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PROGRAMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
)
"""What has to be set, and the program."""


async def copy(context: SlashContext, words: str) -> SlashResult:
    """Put the last answer, or its last block of code, on the clipboard."""
    if words not in ("", "code"):
        raise UsageError("/copy takes the last answer.", "/copy code takes its last block of code.")
    text = _last_answer(context)
    if words == "code":
        blocks = _CODE.findall(text)
        text = blocks[-1] if blocks else ""
    if not text:
        warn(context, "There is no code in the last answer." if words else "There is no answer yet.")
        return DONE
    ways = [
        *(["the terminal"] if _told_terminal(context, text) else []),
        *(await _piped(text, os.environ)),
    ]
    if ways:
        tell(context, f"Copied {len(text):,} characters, by {' and '.join(ways)}.")
    else:
        warn(
            context, "Nothing here has a clipboard: no terminal, and none of wl-copy, xclip, xsel and pbcopy."
        )
    return DONE


def _last_answer(context: SlashContext) -> str:
    if found := answer(context.session.state):
        return found
    history = reversed(context.session.state.chat_history)
    return next((one.text for one in history if one.origin == "model" and one.text.strip()), "")


def _told_terminal(context: SlashContext, text: str) -> bool:
    """Hand the text over by OSC 52; whether the terminal takes it nobody is told."""
    console, body = context.renderer.console, text.encode("utf-8", "replace")
    if not console.is_terminal or len(body) > _MAX_BYTES:
        return False
    console.file.write(f"\x1b]52;c;{base64.b64encode(body).decode()}\x07")
    console.file.flush()
    return True


async def _piped(text: str, env: Mapping[str, str]) -> list[str]:
    """Return the program that has taken the text, if there is one."""
    for needed, command in _PROGRAMS:
        if (needed and not env.get(needed)) or shutil.which(command[0]) is None:
            continue
        if await _taken(command, text):
            return [command[0]]
    return []


async def _taken(command: Sequence[str], text: str) -> bool:
    null = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=null, stderr=null
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(_WAIT_S):
            await process.communicate(text.encode("utf-8", "replace"))
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        return False
    return process.returncode == 0


async def edit_message(context: SlashContext, words: str) -> SlashResult:
    """Write a message in the editor; it is put on the line, not sent yet."""
    text = await edited(words, ".md")
    if text.strip():
        context.composer.put_in(text.rstrip("\n"))
    return DONE


async def edited(text: str, suffix: str) -> str:
    """Return a text as the person's editor leaves it; raises `UsageError`."""
    from ..input.editor import EditorFailed, chosen_editor, in_editor

    try:
        editor = chosen_editor()
        if not editor:
            raise UsageError("There is no editor.", "Set VISUAL or EDITOR.")
        return await in_editor(editor, text, suffix)
    except EditorFailed as problem:
        raise UsageError(str(problem)) from None


def offered_parts(_: SlashContext | None) -> list[SlashOffer]:
    return [SlashOffer("code", "the last block of code only")]
