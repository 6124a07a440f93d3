"""`Agent`: a model, instructions and tools that a program runs as a durable agent."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, cast

from typing_extensions import TypeForm

from ...actions.ports import Model, TokenCounter, Tool, UserInput
from ...actions.ports.events import Event
from ...actions.tools.functions.decorator import index_tools
from ...actions.turn.output.types import TypedOutput, output_format_of
from ...state.application import ExecutionMode
from ...state.conversation.messages import Message, UserContent
from ...state.errors import ConfigError, SessionHeld, UsageError
from ...state.process.cancellation import run_in_background
from ...state.session import Effort, SandboxWish
from ..config.load import parse_extension_file
from ..runtime.agent_definition import Definition, Instructions
from ..runtime.runtime import Runtime
from ..session.run import Limits
from ..session.session import Session
from .arguments import require_fitting, require_values
from .hooks import HasHooks
from .result import OutputT, RunResult
from .session import AgentSession
from .stream import EventStream, StreamedRun

if TYPE_CHECKING:
    from ..extensions.middleware.middleware import Middleware


class Agent(HasHooks, Generic[OutputT]):
    """An agent that stores every step before it begins the next one.

    By default its sessions are in the store of the command `sandbur`, which can list, approve
    and resume them.

    Args:
        model: `provider/model`, or an object that is a `sandbur.Model`. None: the default of the command.
        instructions: The system instructions: a text, or a function of the new session, sync or async.
        tools: Functions, decorated with `sandbur.tool` or plain, and tools of `sandbur.workspace_tools()`.
        output: The type of its answer: a pydantic model, a dataclass or another type with a schema. `str` or
            None: a text.
        require_done: Whether every run must end with the tool that is marked by `@tool(done=True)`.
        mode: Which calls run without approval: `interactive`, `plan`, `auto-edit` or `yolo`.
        allow, ask, deny: Rules, such as `refund` or `fetch_page(https://example.org/*)`.
        limits: The limits of one run.
        store: `sqlite:///PATH`, `postgresql://...` or `mysql://...`. None: the command's store.
        cwd, add_dirs: The folders that its file tools may use; None: the current folder.
        effort: How much the model reasons: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
        token_counter: Counts the tokens of a request; None: the model if it can count, else an estimate.
        middleware: Middleware around its model calls and tool calls, and observers of its runs.
        user_input: Asks a person the questions of its tools and servers; None: nobody is there to answer.
        mcp_servers: MCP servers: the path of a `.mcp.json`, or the value of `mcpServers` in such a file.
        groups: Groups of its tools (`@tool(needs=...)`) that are active from the start.
        available_groups: Groups that the model may activate.
        max_listed_tools: With more tools than this, the model finds tools by a search. None: 40.
        planning: `auto`: the model may make plans if it has tools; `off`: it gets no planning tools.
        max_result_tokens: A longer result is stored, and the model gets a part of it. None: 20,000.
        env: The environment variables to use instead of those of the process.

    Raises `SandburError` for an argument that does not fit; the message says what to do.
    """

    _runtime: Runtime | None = None

    def __init__(
        self,
        model: str | Model | None = None,
        *,
        instructions: Instructions = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        output: TypeForm[OutputT] = str,
        require_done: bool = False,
        name: str = "",
        mode: ExecutionMode = "interactive",
        allow: Sequence[str] = (),
        ask: Sequence[str] = (),
        deny: Sequence[str] = (),
        limits: Limits | None = None,
        fallback_models: Sequence[str] = (),
        store: str | None = None,
        cwd: str | Path | None = None,
        add_dirs: Sequence[str | Path] = (),
        sandbox: SandboxWish = "off",
        allow_net: Sequence[str] = (),
        compress_at: float = 0.8,
        effort: Effort | None = None,
        token_counter: TokenCounter | None = None,
        middleware: Sequence[Middleware] = (),
        user_input: UserInput | None = None,
        mcp_servers: str | Path | Mapping[str, Any] | None = None,
        groups: Sequence[str] = (),
        available_groups: Sequence[str] = (),
        max_listed_tools: int | None = None,
        max_result_tokens: int | None = None,
        planning: Literal["auto", "off"] = "auto",
        env: Mapping[str, str] | None = None,
    ) -> None:
        require_fitting(locals())
        self.name, self.output, self._env = name, output, env
        self._typed = _output_type(output)
        given = _collect_settings(
            limits or Limits(), cwd, add_dirs, mcp_servers, model=_name_of(model), mode=mode, allow=allow,
            ask=ask, deny=deny, store=store, fallback_models=fallback_models, sandbox=sandbox,
            allow_net=allow_net, compress_at=compress_at, effort=effort, groups=groups,
            available_groups=available_groups, max_listed_tools=max_listed_tools,
            max_result_tokens=max_result_tokens,
        )  # fmt: skip
        made = _make_definition(model, instructions, as_tools(tools), require_done, tuple(middleware), given)
        form, may_plan = self._typed and self._typed.format, planning == "auto" and made.has_tools
        made = replace(made, token_counter=token_counter, user_input=user_input)
        self._definition = replace(made, output=form, has_planning=may_plan)
        self._module = sys._getframe(1).f_globals.get("__name__", "")  # pyright: ignore[reportPrivateUsage]
        self._users, self._entered, self._streams = 0, set[str](), set[StreamedRun]()
        self._sessions, self._ending = dict[str, Session](), dict[str, asyncio.Task[None]]()  # by id

    @property
    def definition(self) -> Definition:
        """The definition from which the runtime opens sessions."""
        return self.definition_of(self._source())

    def definition_of(self, source: str) -> Definition:
        """Return the definition, with `source` as the name by which the agent can be loaded again."""
        layers = (*self._definition.middleware, self.hook_middleware)
        return replace(self._definition, source=source, middleware=layers)

    async def run(self, message: UserContent, *, session_id: str | None = None) -> RunResult[OutputT]:
        """Send a message and return the result of the run, in a new session or in the session of this id."""
        async with self, self.session(session_id) as session:
            return await session.run(message)

    def run_sync(self, message: UserContent, *, session_id: str | None = None) -> RunResult[OutputT]:
        """Do what `run` does without an event loop; raises `UsageError` if one is running."""
        if _is_in_loop():
            raise UsageError(
                "run_sync cannot be called where an event loop is running.", "Write `await agent.run(...)`."
            )
        return asyncio.run(self.run(message, session_id=session_id))

    def stream(self, message: UserContent, *, session_id: str | None = None) -> EventStream:
        """Send a message and return the stream of the run's events; the last event is a `RunFinished`."""
        return EventStream(
            lambda run: self._stream_events(run, message, session_id),
            lambda run: self._begin_stream(run, session_id),
        )

    def session(
        self, session_id: str | None = None, *, variables: Mapping[str, str] | None = None
    ) -> AgentSession[OutputT]:
        """Return a session for `async with`: a new one, or the one of this id, created if it does not exist.

        Entering a session that is open, here or in another process, raises `SessionHeld`. `variables`
        are the values of `{var.NAME}` in its HTTP tools; the session stores them.
        """
        parse = None if self._typed is None else self._typed.parse
        return AgentSession(partial(self._open_session, session_id, variables), self._close_session, parse)

    async def history(self, session_id: str) -> tuple[Message, ...]:
        """Return the global history of a stored session; raises `SessionNotFound`."""
        async with self:
            store = cast("Runtime", self._runtime).store
            view = await asyncio.to_thread(store.show, session_id)
            history = tuple(view.state.chat_history)
            for file in (file for message in history for file in message.files):
                await asyncio.to_thread(file.load)
            return history

    async def observe(self, session_id: str, message: str) -> None:
        """Add a message to the history of a session without a reply; it is stored when this returns.

        A session that is open elsewhere takes it with its next model call. The session is created if it does
        not exist.
        """
        async with self:
            if (session := self._sessions.get(session_id)) is not None:
                await session.observe(message)
                return
            with suppress(SessionHeld):
                async with self.session(session_id) as opened:
                    await opened.observe(message)
                    return
            await cast("Runtime", self._runtime).leave_message(session_id, "observe", message)

    async def delete(self, session_id: str) -> None:
        """Delete a session from the store; raises `SessionNotFound` or `SessionHeld`."""
        async with self:
            await asyncio.to_thread(cast("Runtime", self._runtime).store.delete, session_id)

    async def __aenter__(self) -> Self:
        """Keep the store and the connections open until the end of the block."""
        await self._use()
        cast("Runtime", self._runtime).keep_connections()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        abandoned = [run for run in self._streams if run.is_abandoned]
        await run_in_background(self._exit(abandoned))

    async def _exit(self, abandoned: Sequence[StreamedRun]) -> None:
        try:
            for run in abandoned:
                await run.close()
            await cast("Runtime", self._runtime).drop_connections()
        finally:
            await self._leave()

    async def _begin_stream(self, run: StreamedRun, session_id: str | None) -> None:
        await self._end_abandoned_runs(session_id)
        run.session_id = session_id or ""
        self._streams.add(run)

    async def _stream_events(
        self, run: StreamedRun, message: UserContent, session_id: str | None
    ) -> AsyncGenerator[Event]:
        try:
            async with self.session(session_id) as session, session.stream(message) as events:
                run.session_id, run.interrupt = session.id, session.interrupt
                async for event in events:
                    yield event
        finally:
            self._streams.discard(run)

    async def _end_abandoned_runs(self, session_id: str | None) -> None:
        """End the abandoned streams of a session and wait until the session is closed."""
        for run in [run for run in self._streams if run.session_id == session_id]:
            if run.is_abandoned or run.is_own:
                await run.close()
        ending = None if session_id is None else self._ending.get(session_id)
        if ending is not None and not ending.get_loop().is_closed():
            await asyncio.wait([ending])

    async def _open_session(self, session_id: str | None, variables: Mapping[str, str] | None) -> Session:
        await self._end_abandoned_runs(session_id)
        # The lease does not separate two objects of one session in one process.
        if session_id is not None and session_id in self._entered:
            raise SessionHeld(f"Session {session_id} is open already.", "Let the first one end, or share it.")
        session_id = str(uuid.uuid4()) if session_id is None else session_id
        self._entered.add(session_id)
        async with AsyncExitStack() as undo:
            undo.callback(self._entered.discard, session_id)
            await self._use()
            undo.push_async_callback(self._leave)
            runtime = cast("Runtime", self._runtime)
            if runtime.store.index.exists(session_id):
                await runtime.require_free(session_id)
                session = await runtime.resume(session_id, variables=variables)
            else:
                session = await runtime.create(_check_id(session_id), variables=variables)
            undo.pop_all()
        self._sessions[session_id] = session
        return session

    async def _close_session(self, session: Session, run: StreamedRun | None) -> None:
        ending = self._ending[session.id] = asyncio.ensure_future(self._close(session, run))
        await run_in_background(ending)

    async def _close(self, session: Session, run: StreamedRun | None) -> None:
        try:
            if run is not None:
                await run.close()
            await session.interrupt()
            if self._runtime is not None:
                await self._runtime.let_go(session)
        finally:
            self._entered.discard(session.id)
            self._sessions.pop(session.id, None)
            self._ending.pop(session.id, None)
            await self._leave()

    async def _use(self) -> None:
        if self._runtime is None:
            env = os.environ if self._env is None else self._env
            self._runtime = Runtime.open({}, env, definition=self.definition)
        self._users += 1

    async def _leave(self) -> None:
        self._users -= 1
        runtime = self._runtime
        if self._users == 0 and runtime is not None:
            self._runtime = None
            await run_in_background(runtime.aclose())

    def _source(self) -> str:
        """Return `module:name` of the variable that holds this agent; None if there is none."""
        module = sys.modules.get(self._module)
        if module is None or self._module == "__main__":
            return ""
        name = next((name for name, value in vars(module).items() if value is self), "")
        return f"{self._module}:{name}" if name else ""


def _output_type(output: TypeForm[OutputT]) -> TypedOutput[OutputT] | None:
    """Return the parser of an output type; None for a text."""
    return None if cast("object", output) in (str, None) else output_format_of(output)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _find_done_tool(tools: Sequence[Tool]) -> str:
    """Return the name of the tool that ends runs; raises `UsageError` unless there is exactly one."""
    names = [tool.spec.name for tool in tools if tool.traits.is_done_tool]
    if len(names) == 1:
        return names[0]
    if names:
        raise UsageError(
            f"require_done takes one tool that ends the run; there are {', '.join(names)}.",
            "Mark one with done=True; others can return TaskComplete(...), which ends the run as well.",
        )
    raise UsageError(
        "require_done needs one tool that ends the run; there is none.", "Mark it: @tool(done=True)."
    )


def _name_of(model: str | Model | None) -> str | None:
    return model if model is None or isinstance(model, str) else model.name


def _make_definition(
    model: str | Model | None,
    instructions: Instructions,
    tools: tuple[Tool, ...],
    require_done: bool,
    middleware: tuple[Middleware, ...],
    overrides: Mapping[str, Any],
) -> Definition:
    return Definition(
        overrides=overrides,
        model=None if isinstance(model, str) else model,
        instructions=instructions,
        has_builtin_tools=False,
        tools=tools,
        done_tool=_find_done_tool(tools) if require_done else "",
        middleware=middleware,
    )


def _collect_settings(
    limits: Limits,
    cwd: str | Path | None,
    add_dirs: Sequence[str | Path],
    servers: str | Path | Mapping[str, Any] | None,
    **more: Any,
) -> dict[str, Any]:
    """Return the settings that the arguments set, by key, lists as tuples; raises `UsageError`."""
    plain = (str, int, float, type(None))
    overrides = {key: value if isinstance(value, plain) else tuple(value) for key, value in more.items()} | {
        **asdict(limits),
        "cwd": None if cwd is None else Path(cwd).absolute(),
        "add_dirs": tuple(Path(each).absolute() for each in add_dirs),
        "mcp_servers": None if servers is None else _servers(servers),
    }
    overrides = {key: value for key, value in overrides.items() if value not in (None, ())}
    require_values(overrides)
    return overrides


def _servers(given: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return MCP servers by name; raises `UsageError` for a file that cannot be read."""
    if isinstance(given, Mapping):
        return given

    path = Path(given)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"The file {path} cannot be read: {error.strerror}.", "Check the path.") from None
    tables, problems = parse_extension_file("mcp_servers", content, path)
    for problem in problems:
        raise ConfigError(problem)
    return {name: table.model_dump(exclude_defaults=True) for name, table in tables.items()}


def as_tools(tools: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    """Return the tools, with functions wrapped as tools; raises `UsageError` for two tools of one name."""
    given = tuple(tools)
    if not given:
        return ()

    return tuple(index_tools(given).values())


_MOST_ID_CHARS = 64


def _check_id(session_id: str) -> str:
    plain = session_id.isascii() and all(each.isalnum() or each in "-_.:@" for each in session_id)
    if not plain or not 0 < len(session_id) <= _MOST_ID_CHARS:
        raise UsageError(
            f"{session_id[:80]!r} cannot be the id of a session.",
            f"Use up to {_MOST_ID_CHARS} letters, digits and any of - _ . : @",
        )
    return session_id
