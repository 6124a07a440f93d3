"""From the flags to an open session: new, resumed, forked or picked."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..state.errors import UsageError
from .arguments import Arguments
from .terminal.terminal import say

if TYPE_CHECKING:
    from ..agent.config.settings import RunOptions
    from ..agent.runtime import Runtime
    from ..agent.session.session import Session
    from ..state.application import ExecutionMode


def options_of(arguments: Arguments) -> "RunOptions":
    from ..agent.config.settings import RunOptions

    mode = "yolo" if arguments.yolo else arguments.mode
    return RunOptions(
        model="demo" if arguments.command == "demo" else arguments.model,
        fallback_models=arguments.fallback_model,
        mode=cast("ExecutionMode | None", mode),
        allow=arguments.allow,
        deny=arguments.deny,
        cwd=None if arguments.cd is None else Path.cwd(),
        add_dirs=tuple(_folder(path, "--add-dir") for path in arguments.add_dir),
        max_turns=arguments.max_turns,
        max_budget_usd=arguments.max_budget_usd,
        timeout_s=arguments.timeout,
        store=arguments.store,
    )


def enter_folder(path: Path | None) -> None:
    """Make -C the working folder, so that every later relative path starts there."""
    if path is not None:
        try:
            os.chdir(_folder(path, "-C"))
        except OSError as error:
            raise UsageError(f"The folder {path} cannot be entered: {error.strerror}.") from None


@asynccontextmanager
async def opened(arguments: Arguments) -> "AsyncGenerator[Runtime]":
    """Open the runtime for the flags, and close it."""
    from ..agent.runtime import Runtime
    from .terminal.sanitize import plain

    runtime = Runtime.open(options_of(arguments), os.environ, lambda notice: say(plain(notice)))
    try:
        yield runtime
    finally:
        await runtime.aclose()


async def open_session(
    runtime: "Runtime", arguments: Arguments, picked: str | None = None, or_demo: bool = False
) -> "Session":
    """Return the session that the flags name; `picked` answers `-r` without an ID.

    `or_demo`: without any model a new session takes the demo.
    """
    if not arguments.continues:
        return await runtime.create(arguments.session_id, or_demo)
    found = picked or _named_session(runtime, arguments)
    if arguments.fork_session:
        found = await runtime.fork(found)
    return await runtime.resume(found)


def _named_session(runtime: "Runtime", arguments: Arguments) -> str:
    if arguments.resume:
        return runtime.store.find(arguments.resume)
    if arguments.resume is not None:
        raise UsageError("-r needs the ID of a session here.", "`sandbur sessions` lists them.")
    here = runtime.store.sessions(cwd=str(Path.cwd()))
    if not here:
        raise UsageError("There is no session of this folder yet.", "`sandbur sessions` lists all of them.")
    return here[0].id


def _folder(path: Path, flag: str) -> Path:
    if not path.is_dir():
        reason = "is not a folder" if path.exists() else "does not exist"
        raise UsageError(f"{flag}: {path} {reason}.")
    return path.resolve()
