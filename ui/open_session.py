"""From the flags to an open session: new, resumed, forked or picked."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..state.errors import UsageError
from .terminal.terminal import say

if TYPE_CHECKING:
    from ..agent.config.settings import Said
    from ..agent.runtime import Runtime
    from ..agent.session.session import Session
    from .commands.chat import ChatCommand
    from .grammar import Command


def said_by(command: "Command") -> "Said":
    """Return the settings of the command line, its folders as they are."""
    said = dict(command.settings)
    if said.get("cwd") is not None:
        said["cwd"] = Path.cwd()
    said["add_dirs"] = tuple(_folder(path, "--add-dir") for path in said.get("add_dirs", ()))
    return said


def enter_folder(path: Path | None) -> None:
    """Make -C the working folder, so that every later relative path starts there."""
    if path is not None:
        try:
            os.chdir(_folder(path, "-C"))
        except OSError as error:
            raise UsageError(f"The folder {path} cannot be entered: {error.strerror}.") from None


@asynccontextmanager
async def opened(command: "Command") -> "AsyncGenerator[Runtime]":
    """Open the runtime for the flags, and close it."""
    from ..agent.runtime import Runtime
    from .terminal.sanitize import plain

    runtime = Runtime.open(said_by(command), os.environ, lambda notice: say(plain(notice)))
    try:
        yield runtime
    finally:
        await runtime.aclose()


async def open_session(
    runtime: "Runtime", command: "ChatCommand", picked: str | None = None, or_demo: bool = False
) -> "Session":
    """Return the session that the flags name; `picked` answers `-r` without an ID.

    `or_demo`: without any model a new session takes the demo.
    """
    if not command.continues:
        return await runtime.create(command.session_id, or_demo)
    found = picked or _named_session(runtime, command)
    if command.fork_session:
        found = await runtime.fork(found)
    return await runtime.resume(found)


def _named_session(runtime: "Runtime", command: "ChatCommand") -> str:
    if command.resume:
        return runtime.store.find(command.resume)
    if command.resume is not None:
        raise UsageError("-r needs the ID of a session here.", "`sandbur sessions` lists them.")
    # What somebody else made may name any folder; to go on with it is for a person to say.
    here = [found for found in runtime.store.sessions(cwd=str(Path.cwd())) if not found.is_foreign]
    if not here:
        raise UsageError(
            "There is no session of this folder yet.",
            "`sandbur sessions` lists all of them; an imported one is resumed by its ID.",
        )
    return here[0].id


def _folder(path: Path, flag: str) -> Path:
    if not path.is_dir():
        reason = "is not a folder" if path.exists() else "does not exist"
        raise UsageError(f"{flag}: {path} {reason}.")
    return path.resolve()
