"""An editor for tests: the client of the Agent Client Protocol library, connected to a real `sandbur acp`."""

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import RequestError, connect_to_agent, spawn_agent_process, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    PermissionOption,
    PromptResponse,
    RequestPermissionResponse,
    ToolCallUpdate,
)
from support.commands.command import Command
from support.commands.warm_process import WarmProcess, streams_of
from support.commands.warm_start import can_be_warm

Answer = Callable[["Asked"], str | None]
"""Picks an option by its id; None leaves the question without an answer."""


@dataclass(frozen=True)
class Asked:
    session_id: str
    call: ToolCallUpdate
    options: list[PermissionOption]

    @property
    def ids(self) -> list[str]:
        return [option.option_id for option in self.options]

    @property
    def words(self) -> str:
        """The whole text of the question."""
        parts = (getattr(part, "content", None) for part in self.call.content or ())
        return "\n".join(getattr(part, "text", "") for part in parts)


@dataclass
class Editor:
    """Collects updates, and answers questions with `answer`."""

    answer: Answer = lambda asked: "once"
    updates: list[tuple[str, Any]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    forms: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The schemas of the forms that it was to show."""
    filled: Any = None
    """What the person does with a form: the response; None leaves it open."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    agent: Any = None
    process: Any = None

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self.news.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        asked = Asked(session_id, tool_call, options)
        self.asked.append(asked)
        self.news.set()
        picked = self.answer(asked)
        if picked is None:
            await asyncio.Event().wait()
        if picked == "cancelled":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=str(picked)))

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append(mode.model_dump(mode="json", by_alias=True, exclude_none=True))
        self.news.set()
        if self.filled is None:
            await asyncio.Event().wait()
        return self.filled

    async def prompt(self, session_id: str, *blocks: Any) -> PromptResponse:
        parts = [text_block(block) if isinstance(block, str) else block for block in blocks]
        return await asyncio.wait_for(self.agent.prompt(session_id=session_id, prompt=parts), 60)

    def kinds(self, session_id: str | None = None) -> list[str]:
        return [update.session_update for owner, update in self.updates if session_id in (None, owner)]

    def of(self, kind: str) -> list[Any]:
        return [update for _, update in self.updates if update.session_update == kind]

    @property
    def output(self) -> str:
        """The output of the calls so far, as the editor displays it."""
        parts = [part for update in self.of("tool_call_update") for part in update.content or ()]
        return "\n".join(getattr(getattr(part, "content", None), "text", "") for part in parts)

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update.content.text for update in self.of(kind))

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until the condition holds; it is checked after each update and question."""
        async with asyncio.timeout(60):
            while not holds():
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def editing(
    command: Command,
    *words: str,
    answer: Answer = lambda asked: "once",
    capabilities: ClientCapabilities | None = None,
    **env: str,
) -> AsyncGenerator[Editor]:
    """Yield an editor that is connected to `sandbur acp`, which the warm server starts if possible."""
    full = {**command.env, **env}
    if not can_be_warm(full):
        async with editing_from_cold(
            command, *words, answer=answer, capabilities=capabilities, **env
        ) as editor:
            yield editor
        return
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = WarmProcess(("acp", *words), command.folder, full, **streams)
    async with streams_of(process) as (reader, writer):
        editor = Editor(answer, process=process)
        editor.agent = connect_to_agent(editor, writer, reader, use_unstable_protocol=True)
        try:
            await editor.agent.initialize(protocol_version=1, client_capabilities=capabilities)
            yield editor
        finally:
            await editor.agent.close()


@asynccontextmanager
async def editing_from_cold(
    command: Command,
    *words: str,
    answer: Answer = lambda asked: "once",
    capabilities: ClientCapabilities | None = None,
    **env: str,
) -> AsyncGenerator[Editor]:
    """Yield an editor whose library starts `sandbur acp` itself, as any editor does."""
    editor = Editor(answer)
    line = command.line("acp", *words)
    with Path(os.devnull).open("w") as nothing:  # noqa: ASYNC230
        async with spawn_agent_process(
            editor, line[0], *line[1:], env={**command.env, **env}, cwd=command.folder,
            transport_kwargs={"stderr": nothing, "shutdown_timeout": 60.0}, use_unstable_protocol=True,
        ) as (agent, process):  # fmt: skip
            editor.agent, editor.process = agent, process
            await agent.initialize(protocol_version=1, client_capabilities=capabilities)
            yield editor


async def catch_refusal(work: Any) -> RequestError:
    """Await `work`, and return the protocol error that it raises."""
    try:
        await work
    except RequestError as error:
        return error
    raise AssertionError("nothing was refused")
