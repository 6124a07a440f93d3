"""The methods of the protocol: sessions of several folders in one process, each with its own runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from acp import (
    PROTOCOL_VERSION,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
)
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    AuthMethodAgent,
    ClientCapabilities,
    CloseSessionResponse,
    ForkSessionResponse,
    Implementation,
    ListSessionsResponse,
    McpCapabilities,
    PromptCapabilities,
    ResumeSessionResponse,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionForkCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
)

from ...actions.turn.commands import MODES
from ...agent.config.settings import Overrides
from ...agent.models.connect import choose_model
from ...agent.runtime.runtime import Runtime
from ...agent.runtime.version import VERSION
from ...agent.session.session import Session
from ...state.application import ExecutionMode
from ...state.errors import SessionNotFound, UsageError
from ...state.store.sessions.listing import FolderFilter
from ..cli.open_session import tell_notice
from ..terminal.text.sanitize import one_line
from .conversation import Conversation
from .editor_inputs import HandedServer, PromptBlock, servers_of_editor
from .editor_user_input import EditorInput
from .refusals import protocol_errors

if TYPE_CHECKING:
    from acp import Client


_PAGE = 50
_KEYS = AuthMethodAgent(
    id="environment",
    name="A key in the environment",
    description="Set a key such as ANTHROPIC_API_KEY or OPENAI_API_KEY, or SANDBUR_MODEL=demo, in the `env`"
    " of this agent in the editor's settings, then restart it.",
)


class _Place(NamedTuple):
    """The working folder, further folders and tool servers of a session in an editor."""

    cwd: str
    folders: Sequence[str] | None
    servers: Sequence[HandedServer] | None


class EditorAgent:
    """Answers an editor; `overrides` are the flags of the command, which apply to all sessions."""

    def __init__(self, runtime: Runtime, overrides: Overrides) -> None:
        self._runtime = runtime
        self._overrides = overrides
        self._capabilities: ClientCapabilities | None = None
        self._conversations: dict[str, Conversation] = {}
        self._later: set[asyncio.Task[None]] = set()
        is_yolo = runtime.settings.mode == "yolo"
        self._modes: tuple[ExecutionMode, ...] = tuple(one for one in MODES if one != "yolo" or is_yolo)

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: ClientCapabilities | None = None, **_: Any
    ) -> InitializeResponse:
        self._capabilities = client_capabilities
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_info=Implementation(name="sandbur", title="Sandbur", version=VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    additional_directories=SessionAdditionalDirectoriesCapabilities(),
                    fork=SessionForkCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[_KEYS],
        )

    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Check whether a model is available; keys come from the environment, and nothing is sent here."""
        if self._runtime.settings.model is None:
            with protocol_errors():
                choose_model(None, self._runtime.env, False)
        return AuthenticateResponse()

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[HandedServer] | None = None,
        **_: Any,
    ) -> NewSessionResponse:
        place = _Place(cwd, additional_directories, mcp_servers)
        made = await self._open_session(place, lambda runtime: runtime.create())
        self._once_answered(made.introduce())
        return NewSessionResponse(session_id=made.session.id, modes=made.modes, config_options=made.options)

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[HandedServer] | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> LoadSessionResponse:
        loaded = await self._reopen(session_id, _Place(cwd, additional_directories, mcp_servers))
        await loaded.replay()
        self._once_answered(_introduce(loaded))
        return LoadSessionResponse(modes=loaded.modes, config_options=loaded.options)

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[HandedServer] | None = None,
        **_: Any,
    ) -> ResumeSessionResponse:
        """Resume a session whose messages the editor still displays."""
        resumed = await self._reopen(session_id, _Place(cwd, additional_directories, mcp_servers))
        self._once_answered(_introduce(resumed))
        return ResumeSessionResponse(modes=resumed.modes, config_options=resumed.options)

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[HandedServer] | None = None,
        **_: Any,
    ) -> ForkSessionResponse:
        with protocol_errors():
            forked = await self._runtime.fork(session_id)
        made = await self._reopen(forked, _Place(cwd, additional_directories, mcp_servers))
        self._once_answered(made.introduce())
        return ForkSessionResponse(session_id=made.session.id, modes=made.modes, config_options=made.options)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> ListSessionsResponse:
        first = int(cursor) if cursor and cursor.isdecimal() else 0
        with protocol_errors():
            # One more than is returned, to know whether there are more.
            newest = self._runtime.store.roots(None if cwd is None else FolderFilter(cwd))
            found = list(islice(newest, first + _PAGE + 1))
        page = [
            SessionInfo(
                session_id=one.id, cwd=one.cwd, title=one_line(one.title) or None, updated_at=one.updated_at
            )
            for one in found[first : first + _PAGE]
        ]
        after = first + _PAGE
        return ListSessionsResponse(sessions=page, next_cursor=str(after) if after < len(found) else None)

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse:
        with protocol_errors():
            self._open(session_id).set_mode(mode_id)
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        with protocol_errors():
            conversation = self._open(session_id)
            await conversation.choose(config_id, str(value))
        return SetSessionConfigOptionResponse(config_options=conversation.options)

    async def prompt(self, session_id: str, prompt: list[PromptBlock], **_: Any) -> PromptResponse:
        with protocol_errors():
            return await self._open(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        if (conversation := self._conversations.get(session_id)) is not None:
            await conversation.cancel()

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        with protocol_errors():
            conversation = self._open(session_id)
        del self._conversations[session_id]
        await conversation.aclose()
        return CloseSessionResponse()

    async def aclose(self) -> None:
        """Stop all running sessions; every one can be resumed."""
        for task in self._later:
            task.cancel()
        conversations, self._conversations = list(self._conversations.values()), {}
        await asyncio.gather(*(one.aclose() for one in conversations))

    def _open(self, session_id: str) -> Conversation:
        found = self._conversations.get(session_id)
        if found is None:
            raise SessionNotFound(f"Session {session_id[:80]} is not open here.", "Load it first.")
        return found

    async def _reopen(self, session_id: str, place: _Place) -> Conversation:
        if (before := self._conversations.pop(session_id, None)) is not None:
            await before.aclose()
        with protocol_errors():
            state = self._runtime.store.show(session_id).state
        # Approvals that a person gave in the terminal are not valid for an editor that loads the session.
        mode = None if state.execution_mode in self._modes else self._runtime.settings.mode
        return await self._open_session(place, lambda runtime: runtime.resume(session_id), mode)

    async def _open_session(
        self,
        place: _Place,
        open_session: Callable[[Runtime], Awaitable[Session]],
        mode: ExecutionMode | None = None,
    ) -> Conversation:
        """Open a session in a folder, with the tool servers that the editor passes."""
        with protocol_errors():
            overrides = {**self._overrides_of(place), **({"mode": mode} if mode else {})}
            runtime = Runtime.open(overrides, self._runtime.env, tell_notice)
            asks = runtime.user_input = EditorInput(self._client, self._capabilities)
            try:
                session = await open_session(runtime)
                asks.session_id = session.id
            except BaseException:
                await runtime.aclose()
                raise
        opened = Conversation(runtime, session, self._client, self._modes)
        self._conversations[session.id] = opened
        return opened

    def _overrides_of(self, place: _Place) -> Mapping[str, Any]:
        folders = place.folders or ()
        for folder in (place.cwd, *folders):
            if not Path(folder).is_absolute():
                raise UsageError(f"{folder[:200]!r} is not an absolute path.")
        overrides = {
            **self._overrides,
            "cwd": Path(place.cwd),
            "mcp_servers": servers_of_editor(place.servers),
        }
        overrides["add_dirs"] = (*self._overrides.get("add_dirs", ()), *map(Path, folders))
        return overrides

    def _once_answered(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` after the response to the current request, because the editor knows the session only
        then.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._later.add(task)
        task.add_done_callback(self._end_prompt)

    def _end_prompt(self, task: asyncio.Task[None]) -> None:
        self._later.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            tell_notice(str(error))


async def _introduce(conversation: Conversation) -> None:
    await conversation.introduce()
    conversation.ask_again()
