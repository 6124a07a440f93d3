"""Opens the session that the flags select: new, resumed, forked or picked."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...state.errors import SandburError, UsageError, name_session
from ...state.process.garbage import lasting_objects
from ...state.store.sessions.listing import FolderFilter
from ..terminal.terminal import say
from ..terminal.text import theme
from ..terminal.text.sanitize import one_line

if TYPE_CHECKING:
    from ...agent.config.settings import Overrides, Settings
    from ...agent.runtime.runtime import Runtime
    from ...agent.session.session import Session
    from ...state.conversation.attachments import AttachedFile
    from ...state.session import OutputSchema
    from ..commands.chat import ChatCommand
    from .grammar import Command


_WEB = ("https://", "http://")


def read_overrides(command: Command) -> Overrides:
    """Return the settings of the command line, with absolute paths of folders."""
    overrides = dict(command.settings)
    if overrides.get("cwd") is not None:
        overrides["cwd"] = Path.cwd()
    overrides["add_dirs"] = tuple(_folder(path, "--add-dir") for path in overrides.get("add_dirs", ()))
    return overrides


def enter_folder(path: Path) -> None:
    """Make -C the working folder, so that every later relative path starts there."""
    try:
        os.chdir(_folder(path, "-C"))
    except OSError as error:
        raise UsageError(f"The folder {path} cannot be entered: {error.strerror}.") from None


def read_attachments(command: ChatCommand) -> tuple[AttachedFile, ...]:
    """Read the files of `--attach`; a web address is attached as it is, and not read.

    Raises `UsageError` if a file cannot be read or attached.
    """
    if not command.attach:
        return ()
    from ...state.conversation.attachments import attachment_from_path, attachment_from_url

    return tuple(
        attachment_from_url(given) if given.startswith(_WEB) else attachment_from_path(Path(given))
        for given in command.attach
    )


@asynccontextmanager
async def open_runtime(command: Command) -> AsyncGenerator[Runtime]:
    """Open the runtime for the flags, and close it at the end of the context."""
    with lasting_objects():
        from ...agent.runtime.runtime import Runtime

        runtime = Runtime.open(read_overrides(command), os.environ, tell_notice)
    appear(runtime.settings)
    try:
        yield runtime
    finally:
        await runtime.aclose()


def tell_notice(notice: str) -> None:
    """Print a notice about opening the store on stderr."""
    say(one_line(notice))


def appear(settings: Settings) -> None:
    """Apply the theme and the other settings of the screen."""
    if settings.plain or settings.theme != "dark":
        theme.appear(settings.theme, settings.plain)


async def open_session(
    runtime: Runtime, command: ChatCommand, picked: str | None = None, or_demo: bool = False
) -> Session:
    """Open the session that the flags name; `picked` is the session for `-r` without an ID.

    With `or_demo`, a new session uses the demo model if no model is configured.
    """
    if not command.continues:
        schema = None if command.json_schema is None else read_output_schema(command.json_schema)
        try:
            with lasting_objects():
                return await runtime.create(command.session_id, or_demo, schema)
        except SandburError:
            # A configuration that was ignored may be why the session cannot begin.
            for notice in () if command.quiet else runtime.settings.notices:
                tell_notice(notice)
            raise
    found = picked or _find_session(runtime, command)
    with name_session(found):
        if command.fork_session:
            found = await runtime.fork(found)
        with lasting_objects():
            return await runtime.resume(found)


_MOST_SCHEMA_BYTES = 1_000_000


def read_output_schema(path: Path) -> OutputSchema:
    """Read the JSON schema of answers. Raises `UsageError` if the file contains no valid schema."""

    from ...actions.turn.output.format import output_schema

    try:
        content = path.read_bytes()
        if len(content) > _MOST_SCHEMA_BYTES:
            raise UsageError(f"--json-schema: {path} is larger than {_MOST_SCHEMA_BYTES // 1000} KB.")
        return output_schema(json.loads(content))
    except OSError as error:
        raise UsageError(f"--json-schema: {path} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        reason = str(error) if isinstance(error, json.JSONDecodeError) else "it is not text or too deep"
        raise UsageError(f"--json-schema: {path} is not JSON: {reason}.") from None
    except ValueError as error:
        raise UsageError(f"--json-schema: {path} is not a schema for answers: {error}.") from None


def _find_session(runtime: Runtime, command: ChatCommand) -> str:
    if command.resume:
        return runtime.store.find(command.resume)
    if command.resume is not None:
        raise UsageError("Without a chat, -r needs the ID of a session.", "`sandbur sessions` lists them.")
    # An imported session may name any folder, so a person has to name the session.
    here = runtime.store.roots(FolderFilter(str(Path.cwd())))
    found = next((session for session in here if not session.is_foreign), None)
    if found is None:
        raise UsageError(
            "This folder has no session yet.",
            "`sandbur sessions` lists all of them; an imported one is resumed by its ID.",
        )
    return found.id


def _folder(path: Path, flag: str) -> Path:
    try:
        reason = "" if path.is_dir() else "is not a folder" if path.exists() else "does not exist"
    except OSError as error:
        reason = f"cannot be entered: {error.strerror}"
    if reason:
        raise UsageError(f"{flag}: {path} {reason}.")
    return path.resolve()
