"""Opens a chat: asks about trust first, then opens the session while the person types."""

import asyncio
from importlib import import_module

from ...agent.runtime.runtime import Runtime
from ...agent.session.session import Session
from ..cli.open_session import open_runtime, open_session, read_attachments
from ..commands.chat import ChatCommand
from ..headless.headless import DEMO_GOAL, clean, refuse_yolo
from .decisions.consent import ask_about_links, ask_about_texts, ask_about_tools, ask_to_trust, knows_yolo
from .input.composer import Leave
from .input.wait_for_input import at_prompt
from .picker import pick_session
from .repl import Chat
from .sending import Sending

_NO_YOLO = "Yolo mode stays off: the mode is interactive."


async def chat(command: ChatCommand) -> int:
    """Open a session and run the chat until the person leaves; return the exit code."""
    async with open_runtime(command) as runtime:
        try:
            asked = await at_prompt(_ask_first(runtime, command), _leave_by_cancelling)
        except Leave as leaving:
            return leaving.exit_code
        if asked is None:
            return await _run_chat(runtime, command)
    async with open_runtime(asked) as runtime:
        return await _run_chat(runtime, asked)


async def _ask_first(runtime: Runtime, command: ChatCommand) -> ChatCommand | None:
    """Ask about trust and yolo mode; return the command to use instead, or None if nothing changed."""
    settings = runtime.settings
    refuses_yolo = settings.mode == "yolo" and not await knows_yolo(settings.home, _NO_YOLO)
    if not command.continues:
        await ask_about_links(settings.cwd)
        await ask_about_tools(settings.cwd)
        await ask_about_texts(settings.cwd)
    trusted = [await ask_to_trust(path) for path in (settings.untrusted_config, *settings.untrusted_files)]
    if not any(trusted) and not refuses_yolo:
        return None
    mode = {"mode": "interactive"} if refuses_yolo else {}
    return command.but(overrides={**command.overrides, **mode})


def _leave_by_cancelling(exit_code: int) -> bool:
    """Return False, so that a signal cancels the question; this restores the terminal."""
    return False


async def _run_chat(runtime: Runtime, command: ChatCommand) -> int:
    first = DEMO_GOAL if command.name == "demo" and command.prompt is None else command.prompt
    refuse_yolo(first or "")
    talk = Chat(runtime, Sending(read_attachments(command)), command.verbose)
    runtime.accepts_changed = True
    talk.greet()
    try:
        if command.continues or first is not None:
            picked = None
            if command.resume == "":
                choice = pick_session(runtime.store, runtime.settings.cwd)
                picked = await at_prompt(choice, _leave_by_cancelling)
            talk.enter(await open_session(runtime, command, picked, or_demo=True))
            if command.continues:
                talk.recall(runtime.settings.resume == "go" or runtime.flags.get("mode") == "yolo")
        else:
            first = await talk.read_while(_open_in_background(runtime, command))
        return await talk.run(clean(first) if first is not None else None)
    except Leave as leaving:
        return talk.part(leaving.exit_code)


async def _open_in_background(runtime: Runtime, command: ChatCommand) -> Session:
    """Open a new session while the person can type."""
    await asyncio.to_thread(_import_session)
    return await open_session(runtime, command, or_demo=True)


def _import_session() -> None:
    """Import the modules that opening a session needs."""
    for name in ("session.session", "graph", "runtime.prompts", "runtime.wiring"):
        import_module(f"...agent.{name}", __package__)
