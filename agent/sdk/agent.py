"""`Agent`: a model, instructions and tools, which a program runs as a durable agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from typing_extensions import TypeForm, Unpack

from ...actions.ports import Formatter, Model, TokenCounter, Tool, UserInput
from ...actions.ports.events import Event
from ...actions.turn.flows.flow import Flow
from ...state.application import ExecutionMode
from ...state.conversation.messages import UserContent
from ...state.errors import UsageError, WrongType
from ...state.session import Effort, SandboxWish
from ..extensions.extension import load
from ..extensions.middleware.agent_hooks import HasHooks
from ..runtime.agent_definition import (
    AgentParts,
    Definition,
    Instructions,
    find_calling_module,
    find_variable,
)
from ..runtime.compaction import Compaction
from ..runtime.memory_store import MemoryStore
from ..runtime.tool_servers import OnElicitation
from ..session.run_limits import Limits
from .agent_sessions import HasSessions
from .arguments import (
    AgentArguments,
    Handoff,
    KnowledgeSource,
    as_sub_agent,
    as_tools,
    define_agent,
    define_handoffs,
    forbid_loop,
    parse_output_type,
    require_fitting,
)
from .checks import require_list, require_path
from .file_agents import complete_agent, join_arguments, parse_agent_text, read_agent_text, restore_for
from .open_sessions import OpenSessions
from .runs.request import (
    NewRunArguments,
    RunInstructions,
    RunRequest,
    find_labels,
    make_request,
)
from .runs.result import OutputT, RunResult
from .runs.rules import OutputValidator, RunRules, split_instructions
from .runs.stream import EventStream, StreamedRun
from .runs.trial_runs import RunsTrials
from .session import AgentSession, run_request, stream_request
from .stored_sessions import SessionArguments, read_session_id

if TYPE_CHECKING:
    from ..extensions.middleware.middleware import Middleware

OwnT = TypeVar("OwnT")
ValidatorT = TypeVar("ValidatorT", bound=Callable[..., Any])


def _define(local: Mapping[str, Any]) -> tuple[dict[str, Any], RunRules[Any], Definition, str, Any]:
    """Return the arguments of an agent, the rules for its runs, its definition, its name and its output."""
    given = require_fitting({key: value for key, value in local.items() if key != "self"})
    typed = parse_output_type(given["output"])
    of_session, of_run = split_instructions(given["instructions"])
    rules = RunRules[Any](typed, of_run, list(map(OutputValidator, given["output_validators"])))
    definition = define_agent(given, of_session, typed and typed.format)
    return given, rules, definition, given["name"], given["output"]


class Agent(HasHooks, HasSessions[OutputT], RunsTrials[OutputT], Generic[OutputT]):
    """An agent that stores every step before it begins the next one.

    By default its sessions are in the store of the command `sandbur`, which can list, approve
    and resume them.

    Args:
        model: `provider/model`, or an object that is a `sandbur.Model`. None: the default of the command.
        instructions: The system instructions: a text, or a function of the new session, sync or async. A
            function that takes a `RunContext` writes instructions for each run, which come with its message;
            a list may hold texts and such functions.
        tools: Functions, decorated with `sandbur.tool` or plain, and tools of `sandbur.workspace_tools()`.
        output: The type of its answer: a pydantic model, a dataclass or another type with a schema. `str` or
            None: a text.
        name, description: What other agents know it by, if they may start it.
        agents: Agents that it may start as sub-agents, by the tool `task`; each needs a name and a
            description.
        handoffs: Agents that it may give the conversation to, by the tool `hand_off`; a `Handoff` says what
            of the conversation one gets.
        knowledge: Objects of `sandbur.KnowledgeBase`, which it searches and cites by the tool `retrieve`.
        require_done: Whether every run must end with the tool that is marked by `@tool(done=True)`.
        mode: Which calls run without approval: `interactive`, `plan`, `auto-edit` or `yolo`.
        allow, ask, deny: Rules, such as `refund` or `fetch_page(https://example.org/*)`.
        limits: The limits of one run.
        store: `sqlite:///PATH`, `postgresql://...`, `mysql://...` or `memory:`. None: the command's store.
        cwd, add_dirs: The folders that its file tools may use; None: the current folder.
        compress_at: The share of the model's window at which older messages make room.
        compaction: How they make room, and by which model.
        effort: How much the model reasons: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
        token_counter: Counts the tokens of a request; None: the model if it can count, else an estimate.
        formatter: Decides how messages are sent to a model that is named; None: the built-in formats.
        middleware, flows: Layers around its calls and observers of its runs; answers without a model call.
        user_input: Asks a person the questions of its tools and servers; None: there is no person to answer.
        mcp_servers: MCP servers: the path of a `.mcp.json`, or the value of `mcpServers` in such a file.
        on_elicitation: Answers MCP servers: an async function of an `Elicitation`; None declines.
        groups: Groups of its tools (`@tool(needs=...)`) that are active at first; a dict describes them.
        available_groups: Groups that the model may activate and take back; also a dict.
        max_listed_tools: With more tools than this, the model finds tools by a search. None: 40.
        planning: `auto`: the model may make plans if it has tools; `off`: it gets no planning tools.
        plans: Whether the model may propose plans that bind its calls, see `docs/plans.md`.
        memory: How it uses facts that outlive sessions: `off`, `agent` (by a tool), `static` (those that
            match come with a message) or `both`; or an object of `sandbur.MemoryStore`, used by a tool.
        memory_extraction: What happens to facts that a model finds in its sessions after their runs: `off`,
            `propose` (they wait for a decision) or `keep` (those that the person wrote are kept).
        memory_scopes: Which facts the built-in memory uses: some of `user`, `project`, `agent`. Empty: all;
            for the workers of a server all but those of the project.
        max_result_tokens: A longer result is stored, and the model gets a part of it. None: 20,000.
        strict_tools: Whether a provider that can do so enforces the schemas of the tools.
        env: The environment variables to use instead of those of the process.
        dependency_overrides: Providers of `Depends` and their replacements, for tests: `{get_db: fake_db}`.
        output_validators: Functions that check an output; see `output_validator`.

    Raises `SandburError` for an argument that does not fit; the message says what to do.
    """

    def __init__(
        self,
        model: str | Model | None = None,
        *,
        instructions: Instructions | RunInstructions | Sequence[str | RunInstructions] = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        output: TypeForm[OutputT] = str,
        require_done: bool = False,
        name: str = "",
        description: str = "",
        agents: Sequence[Agent[Any]] = (),
        handoffs: Sequence[Agent[Any] | Handoff] = (),
        knowledge: Sequence[KnowledgeSource] = (),
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
        compaction: Compaction | None = None,
        effort: Effort | None = None,
        token_counter: TokenCounter | None = None,
        formatter: Formatter | None = None,
        middleware: Sequence[Middleware] = (),
        flows: Sequence[Flow] = (),
        user_input: UserInput | None = None,
        mcp_servers: str | Path | Mapping[str, Any] | None = None,
        on_elicitation: OnElicitation | None = None,
        groups: Sequence[str] | Mapping[str, str] = (),
        available_groups: Sequence[str] | Mapping[str, str] = (),
        max_listed_tools: int | None = None,
        max_result_tokens: int | None = None,
        planning: Literal["auto", "off"] = "auto",
        plans: bool = False,
        memory: Literal["off", "agent", "static", "both"] | MemoryStore = "off",
        memory_extraction: Literal["off", "propose", "keep"] = "off",
        memory_scopes: Sequence[Literal["user", "project", "agent"]] = (),
        strict_tools: bool = True,
        env: Mapping[str, str] | None = None,
        dependency_overrides: Mapping[Callable[..., Any], Callable[..., Any]] = MappingProxyType({}),
        output_validators: Sequence[Callable[..., Any]] = (),
    ) -> None:
        self._arguments, self._rules, self._definition, self.name, self.output = _define(locals())
        self._module, self._open = find_calling_module(), OpenSessions(lambda: self.definition, env)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        model: str | Model | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        middleware: Sequence[Middleware] = (),
        flows: Sequence[Flow] = (),
        agents: Sequence[Agent[Any]] = (),
        limits: Limits | None = None,
        store: str | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Agent[Any]:
        """Return the agent that a JSON, YAML or TOML file describes.

        `tools`, `middleware` and `flows` are added to its own, `agents` are those that it may start; the
        other arguments replace what it says.
        With an `output_schema`, results are JSON values of it. A session goes on with the file that it began
        with, even if that has changed. Raises `ConfigError` with file, line and key.
        """
        given = {"model": model, "limits": limits, "store": store, "cwd": cwd, "env": env, "agents": agents}
        given |= {
            "tools": (own := as_tools(require_list("tools", tools, "functions and tools"))),
            "middleware": require_list("middleware", middleware, "objects of sandbur.Middleware"),
            "flows": require_list("flows", flows, "objects of sandbur.Flow"),
        }
        require_path(path)
        module = find_calling_module()
        names = frozenset(tool.spec.name for tool in own)
        parts = parse_agent_text(read_agent_text(Path(path)), env, names)

        def make(found: AgentParts) -> Agent[Any]:
            made: Agent[Any] = Agent(**join_arguments(found, given))
            made._definition, made._rules = complete_agent(found, made._definition)
            return made

        agent = make(parts)
        agent._module = module
        restore = restore_for(
            parts.file,
            lambda: agent.definition,
            lambda older: make(older)._define_as(agent.definition.source),
            lambda stored: parse_agent_text(stored, env, names),
        )
        agent._definition = replace(agent._definition, restore=restore)
        return agent

    @property
    def description(self) -> str:
        """What the agent does, as other agents and clients of a server read it."""
        return self._arguments["description"]

    @property
    def handoffs(self) -> tuple[Agent[Any] | Handoff, ...]:
        """The agents that it may give the conversation to."""
        return tuple(self._arguments["handoffs"])

    @property
    def definition(self) -> Definition:
        """Return the definition from which the runtime opens sessions."""
        return self._define_as(find_variable(self._module, self) or self._definition.source)

    def _define_as(self, source: str) -> Definition:
        """Return the definition, with `source` as the name by which the agent can be loaded again."""
        layers = (*self._definition.middleware, self._hook_middleware)
        return replace(
            self._definition,
            source=source,
            middleware=layers,
            agents=tuple(map(as_sub_agent, self._arguments["agents"])),
            handoffs=define_handoffs(self.handoffs),
            run_rules=self._rules,
            name=self.name,
        )

    def as_tool(self, name: str = "", description: str = "") -> Tool:
        """Return a tool whose calls start the agent as a sub-agent: with its own session, tools and history.

        Raises `UsageError` without a name or a description, here or in the agent.
        """
        sub_agent = as_sub_agent(self, name, description)
        made: Tool = load(".agent.agents.agent_tool:AgentTool")(sub_agent.name, sub_agent)
        return made

    @overload
    async def run(
        self, message: UserContent, *, output: None = None, **options: Unpack[NewRunArguments]
    ) -> RunResult[OutputT]: ...
    @overload
    async def run(
        self, message: UserContent, *, output: type[OwnT], **options: Unpack[NewRunArguments]
    ) -> RunResult[OwnT]: ...
    @overload
    async def run(
        self, message: UserContent, *, output: TypeForm[OwnT], **options: Unpack[NewRunArguments]
    ) -> RunResult[OwnT]: ...
    async def run(
        self,
        message: UserContent,
        *,
        output: TypeForm[Any] | None = None,
        **options: Unpack[NewRunArguments],
    ) -> RunResult[Any]:
        """Send a message and return the result of the run, in a new session or in that of `session_id`.

        `output` is the type of this answer, in place of the agent's. The other arguments, such as `deps`,
        `model` and `on_approval`, are for this run, too; `app`, `user` and `tags` are kept by a new session.
        """
        request = make_request(output, options)
        async with self, self._session_of(options) as session:
            return await run_request(session, message, request)

    @overload
    def run_sync(
        self, message: UserContent, *, output: None = None, **options: Unpack[NewRunArguments]
    ) -> RunResult[OutputT]: ...
    @overload
    def run_sync(
        self, message: UserContent, *, output: type[OwnT], **options: Unpack[NewRunArguments]
    ) -> RunResult[OwnT]: ...
    @overload
    def run_sync(
        self, message: UserContent, *, output: TypeForm[OwnT], **options: Unpack[NewRunArguments]
    ) -> RunResult[OwnT]: ...
    def run_sync(
        self,
        message: UserContent,
        *,
        output: TypeForm[Any] | None = None,
        **options: Unpack[NewRunArguments],
    ) -> RunResult[Any]:
        """Do the same as `run` without an event loop; raises `UsageError` if one is running."""
        forbid_loop()
        return asyncio.run(self.run(message, output=output, **options))

    def stream(
        self,
        message: UserContent,
        *,
        output: TypeForm[Any] | None = None,
        **options: Unpack[NewRunArguments],
    ) -> EventStream:
        """Send a message and return the stream of the run's events; the last event is a `RunFinished`.

        The arguments are those of `run`.
        """
        request = make_request(output, options)
        session_id = read_session_id(options.get("session_id"))
        return EventStream(
            lambda run: self._stream_events(run, message, request, options),
            lambda run: self._open.begin_stream(run, session_id),
        )

    def _session_of(self, options: NewRunArguments) -> AgentSession[OutputT]:
        labels = cast("SessionArguments", find_labels(options))
        return self.session(options.get("session_id"), deps=options.get("deps"), **labels)

    def output_validator(self, function: ValidatorT) -> ValidatorT:
        """Add a function that checks each output, as a decorator: `@agent.output_validator`.

        The function takes the output, and `RunContext` and `Depends` parameters. If it raises
        `ModelRetry(reason)` or `ValueError`, the model answers again, at most three times in a row.
        """
        self._rules.validators.append(OutputValidator(function))
        return function

    def __deepcopy__(self, memo: dict[int, Any]) -> Agent[OutputT]:
        raise UsageError(
            "An agent cannot be copied deeply: its model, store and tools hold connections.",
            "Write agent.clone(...), which shares them.",
        )

    def clone(self, **changes: Unpack[AgentArguments]) -> Agent[OutputT]:
        """Return another agent with the arguments of this one, except the changed ones.

        Objects such as tools and middleware are shared. A changed `output` changes the type of the agent, so
        annotate the result.
        """
        if unknown := changes.keys() - self._arguments.keys():
            raise WrongType(f"Agent takes no argument `{min(unknown)}`.")
        kept = {**self._arguments, "output_validators": [each.function for each in self._rules.validators]}
        arguments: dict[str, Any] = {**kept, **changes}
        made: Agent[OutputT] = Agent(**arguments)
        made._module = find_calling_module()
        return made

    async def _stream_events(
        self, run: StreamedRun, message: UserContent, request: RunRequest[Any], options: NewRunArguments
    ) -> AsyncGenerator[Event]:
        try:
            async with (
                self._session_of(options) as session,
                stream_request(session, message, request) as events,
            ):
                run.session_id, run.interrupt = session.id, session.interrupt
                async for event in events:
                    yield event
        finally:
            self._open.end_stream(run)


def define_as(agent: Agent[Any], source: str) -> Definition:
    """Return the definition of an agent, with `source` as the name by which it can be loaded again."""
    return agent._define_as(source)  # pyright: ignore[reportPrivateUsage]


def make_recorder(agent: Agent[Any], model: Model, name: str) -> Agent[str]:
    """Return an agent without instructions and tools, whose sessions are in the store of another one."""
    given = agent._arguments  # pyright: ignore[reportPrivateUsage]
    place = {key: given[key] for key in ("store", "cwd", "env")}
    return Agent(model, name=name, planning="off", **place)
