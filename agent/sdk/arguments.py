"""Checks the arguments of `Agent(...)`. An error names the argument, its value and the values that it
accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from typing_extensions import TypedDict, TypeForm

from ...actions.ports import Model, TokenCounter, Tool, UserInput
from ...actions.tools.functions.decorator import index_tools, with_brought
from ...actions.tools.functions.injection import require_overrides
from ...actions.turn.flows.flow import Flow
from ...actions.turn.output.format import OutputFormat
from ...actions.turn.output.types import TypedOutput, output_format_of
from ...actions.turn.plan.decision_tools import RESERVED_NAMES
from ...state.application import ExecutionMode
from ...state.errors import ConfigError, UsageError, WrongType
from ...state.lazy_dataclass import dataclass
from ...state.process.cancellation import is_in_loop
from ...state.session import Effort, SandboxWish
from ..config.load import parse_extension_file
from ..config.values import read_values
from ..extensions.middleware.middleware import Middleware
from ..runtime.agent_definition import (
    NAMELESS_FIRST,
    Definition,
    HandoffDefinition,
    HistoryFilter,
    Instructions,
    KnowledgeSource,
    SubAgentDefinition,
    is_agent,
)
from ..runtime.compaction import Compaction, compaction_settings, find_summary_model
from ..runtime.memory_store import MemoryStore
from ..runtime.tool_servers import OnElicitation
from ..session.run_limits import Limits
from .checks import require_names, require_ports, require_texts
from .runs.result import OutputT

if TYPE_CHECKING:
    from .agent import Agent


class AgentArguments(TypedDict, total=False):
    """The arguments of `Agent` by name. The docstring of `Agent` describes them."""

    model: str | Model | None
    instructions: Instructions | Sequence[str | Callable[..., Any]]
    tools: Iterable[Tool | Callable[..., Any]]
    output: Any
    require_done: bool
    name: str
    description: str
    agents: Sequence[Any]
    handoffs: Sequence[Any]
    knowledge: Sequence[KnowledgeSource]
    mode: ExecutionMode
    allow: Sequence[str]
    ask: Sequence[str]
    deny: Sequence[str]
    limits: Limits | None
    fallback_models: Sequence[str]
    store: str | None
    cwd: str | Path | None
    add_dirs: Sequence[str | Path]
    sandbox: SandboxWish
    allow_net: Sequence[str]
    compress_at: float
    compaction: Compaction | None
    effort: Effort | None
    token_counter: TokenCounter | None
    middleware: Sequence[Middleware]
    flows: Sequence[Flow]
    user_input: UserInput | None
    mcp_servers: str | Path | Mapping[str, Any] | None
    on_elicitation: OnElicitation | None
    groups: Sequence[str] | Mapping[str, str]
    available_groups: Sequence[str] | Mapping[str, str]
    max_listed_tools: int | None
    max_result_tokens: int | None
    planning: Literal["auto", "off"]
    plans: bool
    memory: Literal["off", "agent", "static", "both"] | MemoryStore
    memory_extraction: Literal["off", "propose", "keep"]
    memory_scopes: Sequence[Literal["user", "project", "agent"]]
    strict_tools: bool
    env: Mapping[str, str] | None
    dependency_overrides: Mapping[Callable[..., Any], Callable[..., Any]]
    output_validators: Sequence[Callable[..., Any]]


_LISTS = {
    "allow": "rules",
    "ask": "rules",
    "deny": "rules",
    "fallback_models": "models",
    "allow_net": "domains",
    "groups": "names of groups",
    "available_groups": "names of groups",
    "add_dirs": "folders",
    "memory_scopes": "names of scopes",
}
_DESCRIBED = ("groups", "available_groups")
"""The lists of names that may also be dicts of names and descriptions."""
_OBJECTS: Mapping[str, tuple[type[object], str]] = {
    "limits": (Limits, "sandbur.Limits, such as Limits(timeout_s=60)"),
    "compaction": (Compaction, "sandbur.Compaction, such as Compaction(kind='truncate')"),
}


def require_model(model: Any) -> None:
    is_model = callable(getattr(model, "stream", None)) and isinstance(getattr(model, "name", None), str)
    if model is None or isinstance(model, str) or is_model:
        return
    raise _wrong("model", model, "a text such as 'openai/gpt-5', or an object that is a sandbur.Model")


def require_fitting(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments. Raises `WrongType` for one of the wrong type."""
    require_model(given["model"])
    _require_list("tools", given["tools"], "functions and tools")
    _require_list("middleware", given["middleware"], "objects of sandbur.Middleware")
    for layer in given["middleware"]:
        if not isinstance(layer, Middleware):
            raise _wrong("middleware", layer, "a list of objects of sandbur.Middleware")
    _require_list("flows", given["flows"], "objects of sandbur.Flow")
    for one in given["flows"]:
        if not isinstance(one, Flow):
            raise _wrong("flows", one, "a list of objects of sandbur.Flow")
    for name, of_what in _LISTS.items():
        _require_list(name, given[name], of_what)
        for one in given[name]:
            if not isinstance(one, str | Path):
                raise _wrong(f"{name}=[...]", one, f"texts, the {of_what}")
    _require_objects(given)
    _require_instructions(given["instructions"])
    _require_overrides(given["dependency_overrides"])
    _require_list("output_validators", given["output_validators"], "functions")
    require_names("env", given["env"])
    require_ports(given)
    _require_planning(given)
    _require_labels(given["name"], given["description"])
    _require_knowledge(given["knowledge"])
    _require_memory(given["memory"], given["memory_extraction"])
    _require_scopes(given["memory_scopes"], given["name"])
    given["agents"] = _require_agents("agents", given["agents"])
    given["handoffs"] = _require_agents("handoffs", given["handoffs"], given["name"])
    _require_one_of_each_name(given["handoffs"], given["name"])
    _require_paths(given)
    return given


def _require_labels(name: Any, description: Any) -> None:
    """Raise unless a name and a description are texts that can be displayed; both may be empty."""
    for argument, value, most in (
        ("name", name, _MOST_NAME_CHARS),
        ("description", description, _MOST_DESCRIPTION_CHARS),
    ):
        if not isinstance(value, str):
            raise _wrong(argument, value, "a text")
        if value and not value.strip():
            raise UsageError(f"Agent: `{argument}` has only spaces.", "Write a text, or leave it out.")
        if len(value) > most:
            raise UsageError(f"Agent: `{argument}` has {len(value)} characters; {most} are the most.")
        if _CONTROL.search(value if argument == "name" else value.translate(_LAYOUT)):
            raise UsageError(f"Agent: `{argument}` has control characters: {value[:_MOST_NAME_CHARS]!r}.")


def _require_planning(given: Mapping[str, Any]) -> None:
    if given["planning"] not in ("auto", "off"):
        raise UsageError(f"Agent: planning={given['planning']!r} is not possible.", 'It is "auto" or "off".')
    if given["plans"] and given["planning"] == "off":
        raise UsageError("Agent: plans=True needs planning.", 'Leave planning="off" out.')


def _require_knowledge(value: Any) -> None:
    _require_list("knowledge", value, "objects of sandbur.KnowledgeBase")
    for base in value:
        if not isinstance(base, KnowledgeSource):
            raise _wrong("knowledge", base, "a list of objects of sandbur.KnowledgeBase")


def _require_memory(value: Any, extraction: Any) -> None:
    if isinstance(value, str):
        return
    if isinstance(value, type) or not isinstance(value, MemoryStore):
        raise _wrong("memory", value, 'a text such as "agent", or an object that is a sandbur.MemoryStore')
    if extraction != "off":
        raise UsageError(
            "Agent: memory_extraction needs the built-in memory.",
            'Write memory="agent", or leave memory_extraction out.',
        )


def _require_scopes(scopes: Any, name: str) -> None:
    known = ("user", "project", "agent")
    if unknown := [one for one in scopes if one not in known]:
        raise UsageError(
            f"Agent: {str(unknown[0])[:40]!r} in memory_scopes is not a scope of memory.",
            f"There are: {', '.join(known)}.",
        )
    if tuple(scopes) == ("agent",) and not name:
        raise UsageError("Agent: the memory of an agent needs its name.", "Write Agent(name=...).")


def _require_instructions(given: Any) -> None:
    parts = cast("Sequence[object]", given) if isinstance(given, list | tuple) else [given]
    for part in parts:
        if not isinstance(part, str) and not callable(part):
            raise _wrong("instructions", part, "a text, a function that returns one, or a list of them")


def _require_overrides(given: Any) -> None:
    if not isinstance(given, Mapping):
        raise _wrong("dependency_overrides", given, "a mapping of providers to their replacements")
    require_overrides(cast("Mapping[Callable[..., Any], Callable[..., Any]]", given))


def require_values(overrides: Mapping[str, Any]) -> None:
    """Raise `UsageError` for a value that its setting does not allow."""
    read_values(overrides, "Agent(...)", lambda key: f"`{key}`")


def _require_list(name: str, value: Any, of_what: str) -> None:
    is_other = isinstance(value, Mapping) and name not in _DESCRIBED
    if is_other or isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise _wrong(name, value, f"a list of {of_what}", f"Write {name}=[{_example(value)}].")


def _example(value: Any) -> str:
    return repr(value) if isinstance(value, str) else getattr(value, "__name__", "...")


def _require_objects(given: Mapping[str, Any]) -> None:
    for name, (kind, expected) in _OBJECTS.items():
        if given[name] is not None and not isinstance(given[name], kind):
            raise _wrong(name, given[name], expected)


def _require_paths(given: Mapping[str, Any]) -> None:
    for name in ("cwd", "store"):
        if given[name] is not None and not isinstance(given[name], str | Path):
            raise _wrong(name, given[name], "a text")
    servers = given["mcp_servers"]
    if servers is not None and not isinstance(servers, str | Path | Mapping):
        raise _wrong("mcp_servers", servers, "the path of a .mcp.json, or what one has under `mcpServers`")


def _wrong(name: str, value: Any, expected: str, hint: str = "") -> WrongType:
    what = value.__name__ if isinstance(value, type) else type(value).__name__
    article = "an" if what[:1].lower() in "aeiou" else "a"
    kind = f"the class {what}" if isinstance(value, type) else f"{article} {what}"
    return WrongType(f"Agent: `{name}` takes {expected}, and not {kind}.", hint)


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


_SETTINGS = (
    "mode", "allow", "ask", "deny", "store", "fallback_models", "sandbox", "allow_net", "compress_at",
    "effort", "groups", "available_groups", "max_listed_tools", "max_result_tokens", "strict_tools",
    "memory_scopes",
)  # fmt: skip
"""The arguments that set the setting of the same name."""


def define_agent(
    given: Mapping[str, Any], instructions: Instructions, output: OutputFormat | None
) -> Definition:
    """Return the definition of an agent from its arguments by name; raises `UsageError`."""
    model, tools = given["model"], as_tools(given["tools"])
    made = Definition(
        overrides=_collect_settings(given),
        model=None if isinstance(model, str) else model,
        instructions=instructions,
        has_builtin_tools=False,
        tools=tools,
        done_tool=_find_done_tool(tools) if given["require_done"] else "",
        middleware=tuple(given["middleware"]),
        flows=tuple(given["flows"]),
        dependency_overrides=dict(given["dependency_overrides"]),
        output=output,
        token_counter=given["token_counter"],
        formatter=given["formatter"],
        summary_model=find_summary_model(given["compaction"]),
        on_elicitation=given["on_elicitation"],
        user_input=given["user_input"],
        name=given["name"],
        knowledge=tuple(given["knowledge"]),
        memory_store=None if isinstance(given["memory"], str) else given["memory"],
    )
    return replace(made, has_planning=given["planning"] == "auto" and made.has_tools)


_MOST_NAME_CHARS = 64
_MOST_DESCRIPTION_CHARS = 10_000
_AGENT_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_-]{{0,{_MOST_NAME_CHARS - 1}}}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LAYOUT = dict.fromkeys(map(ord, "\n\r\t"))
"""Control characters that a description may have."""


def require_agent_name(name: str) -> None:
    """Raise `UsageError` for a name that no agent can have which others start."""
    if not _AGENT_NAME.fullmatch(name):
        raise UsageError(
            f"An agent that others start needs a name of letters, digits, _ and -, not {name!r}.",
            'Write Agent(..., name="reviewer", description="...").',
        )


def as_sub_agent(agent: Agent[Any], name: str = "", description: str = "") -> SubAgentDefinition:
    """Return an agent as another one starts it; raises `UsageError` without a name or a description."""
    require_texts(name=name, description=description)
    name, description = name or agent.name, description or agent.description
    require_agent_name(name)
    if not description.strip():
        raise UsageError(
            f"The agent {name} needs a description: the model of the other agent reads when to start it.",
            'Write Agent(..., description="Reviews a change.").',
        )
    return SubAgentDefinition(name=name, description=description, definition=agent.definition)


@dataclass(frozen=True, slots=True)
class Handoff:
    """An agent for `Agent(handoffs=[...])` with another history than the texts of the conversation."""

    agent: Agent[Any]
    history: HistoryFilter = "texts"
    """What the agent reads first: `texts` (what the user and the agents wrote, without calls), a number (the
    newest of these texts), None (nothing), or a function that takes the messages and returns messages."""

    def __post_init__(self) -> None:
        if not is_agent(self.agent):
            raise WrongType(f"Handoff takes an agent, not {type(self.agent).__name__}.")
        given: Any = self.history
        is_count = isinstance(given, int) and not isinstance(given, bool) and given > 0
        if not (given is None or given == "texts" or is_count or callable(given)):
            raise WrongType(
                f"Handoff: `history` is {given!r}.",
                'It is "texts", a number, None, or a function of messages.',
            )


def define_handoffs(given: Sequence[Any]) -> tuple[HandoffDefinition, ...]:
    """Return the definitions of the agents that an agent may give the conversation to.

    Each is an agent, or a `Handoff` with an agent and a history.
    """
    return tuple(map(_define_handoff, given))


def _define_handoff(given: Any) -> HandoffDefinition:
    if is_agent(given):
        return HandoffDefinition(agent=as_sub_agent(given))
    return HandoffDefinition(agent=as_sub_agent(given.agent), history=given.history)


def _require_agents(argument: str, given: Any, own: str = "") -> tuple[Any, ...]:
    """Return the agents. Raises `WrongType` unless each is an agent, and `UsageError` for two of one name.

    The name `own` is taken.
    """
    _require_list(argument, given, "agents")
    agents: tuple[Any, ...] = tuple(given)
    names = {own} - {""}
    for one in (getattr(each, "agent", each) for each in agents):
        if not is_agent(one):
            raise _wrong(argument, one, "a list of agents, sandbur.Agent")
        name = str(getattr(one, "name", ""))
        if name in names:
            raise UsageError(f"There are two agents called {name!r}.", "Give each its own name.")
        names.add(name)
    return agents


def _require_one_of_each_name(given: Sequence[Any], own: str) -> None:
    """Raise `UsageError` if two agents that hand-offs can reach have one name.

    `own` is the name of the first agent.
    """
    found: dict[str, Any] = {}
    waiting = [getattr(each, "agent", each) for each in given]
    while waiting:
        agent = waiting.pop()
        if found.get(agent.name) is agent:
            continue
        if agent.name in found or agent.name == (own or NAMELESS_FIRST):
            raise UsageError(
                f"Two agents that hand-offs can reach are called {agent.name!r}.", "Give each its own name."
            )
        found[agent.name] = agent
        waiting += [getattr(each, "agent", each) for each in agent.handoffs]


def _collect_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return key -> value of the settings that the arguments set, with lists as tuples; raises
    `UsageError`."""
    cwd, servers = given["cwd"], given["mcp_servers"]
    settings = {key: given[key] for key in _SETTINGS}
    lists = {key: tuple(given[key]) for key in _LISTS if key in settings}
    overrides = settings | {
        **lists,
        **compaction_settings(given["compaction"]),
        "group_descriptions": _describe_groups(given["groups"], given["available_groups"]),
        **asdict(given["limits"] or Limits()),
        "model": _name_of(given["model"]),
        "plan_proposals": given["plans"],
        "memory": _find_mode(given["memory"]),
        "memory_extraction": None if given["memory_extraction"] == "off" else given["memory_extraction"],
        "cwd": None if cwd is None else Path(cwd).absolute(),
        "add_dirs": tuple(Path(each).absolute() for each in given["add_dirs"]),
        "mcp_servers": None if servers is None else _servers(servers),
    }
    overrides = {key: value for key, value in overrides.items() if value not in (None, ())}
    require_values(overrides)
    return overrides


def _find_mode(memory: str | MemoryStore) -> str | None:
    """Return the value of the setting `memory`; None for `off` and for a memory of the program's own."""
    return memory if isinstance(memory, str) and memory != "off" else None


def _describe_groups(*given: Sequence[str] | Mapping[str, str]) -> dict[str, str] | None:
    """Return name -> description of groups, or None if there are no descriptions."""
    found = {name: text for one in given if isinstance(one, Mapping) for name, text in one.items() if text}
    return found or None


def _servers(given: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return MCP servers by name; raises `UsageError` for a file that cannot be read."""
    if isinstance(given, Mapping):
        return given

    path = Path(given)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # a path with a NUL or a lone surrogate is a `ValueError`
        why = error.strerror if isinstance(error, OSError) else "no file has such a name"
        raise UsageError(f"The file {str(path)!r} cannot be read: {why}.", "Check the path.") from None
    tables, problems = parse_extension_file("mcp_servers", content, path)
    for problem in problems:
        raise ConfigError(problem)
    return {name: table.model_dump(exclude_defaults=True) for name, table in tables.items()}


def as_tools(tools: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    """Return the tools, with functions wrapped as tools.

    Raises `UsageError` if two tools have the same name, or if a tool has a name that the graph uses.
    """
    given = tuple(tools)
    if not given:
        return ()
    found = with_brought(index_tools(given))
    if taken := next((name for name in found if name in RESERVED_NAMES), ""):
        raise UsageError(
            f"A tool cannot be called {taken}: the graph uses that name.", 'Rename it: @tool(name="...").'
        )
    return tuple(found.values())


def parse_output_type(output: TypeForm[OutputT]) -> TypedOutput[OutputT] | None:
    """Return the parser for an output type, or None for a text."""
    return None if cast("object", output) in (str, None) else output_format_of(output)


def forbid_loop() -> None:
    """Raise `UsageError` in a running event loop, which a blocking call would stop."""
    if is_in_loop():
        raise UsageError(
            "run_sync cannot be called in a running event loop.", "Write `await agent.run(...)`."
        )
