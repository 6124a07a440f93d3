"""Parses Markdown agents: the keys of the front matter, in the format of Claude Code."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from functools import cache
from pathlib import Path
from typing import cast, get_args

from ....actions.tools.registry import SERVER_PREFIX, load_declared_traits
from ....state.application import ExecutionMode
from ....state.errors import ConfigError
from ....state.session import Effort
from ...extensions.markdown_files import split_front_matter
from .agent_spec import AgentSpec, Isolation
from .front_matter import FrontMatter, Notices, fold, split_names

KEYS = (
    "name", "description", "tools", "disallowedTools", "model", "permissionMode", "maxTurns", "skills",
    "mcpServers", "hooks", "memory", "background", "effort", "isolation", "color", "initialPrompt",
)  # fmt: skip
_MEANT = {"allowedtools": "tools", "mode": "permissionMode", "prompt": "initialPrompt", "turns": "maxTurns"}
"""Folded key of another format -> the key with that meaning."""
_COLORS = ("red", "blue", "green", "yellow", "purple", "orange", "pink", "cyan")
EFFORTS: Mapping[str, Effort] = {level: level for level in cast("tuple[Effort, ...]", get_args(Effort))}
_OWN_MODES = cast("tuple[ExecutionMode, ...]", get_args(ExecutionMode))
_MODES: Mapping[str, ExecutionMode | None] = {
    "default": "interactive",
    "acceptEdits": "auto-edit",
    "bypassPermissions": "yolo",
    "dontAsk": None,
    "auto": None,
    **{mode: mode for mode in _OWN_MODES},
}
"""Value of `permissionMode` -> the mode; None if Sandbur has no such mode."""
_ISOLATIONS: Mapping[str, Isolation] = {"none": "", "copy": "copy", "worktree": "copy"}
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}|[a-z0-9][a-z0-9_-]{0,63}/[!-~]{1,200}")
"""An alias, or provider and model."""
_MOST_NAME, _MOST_DESCRIPTION, _MOST_PROMPT = 64, 1024, 20_000
_ENTRY = re.compile(r"([^\s()]+)\s*(?:\((.*)\))?", re.DOTALL)
_EVERY_TOOL = "*"
_STARTS_AGENTS = re.compile("agent|task", re.IGNORECASE)


def parse_agent(path: Path, text: str, models: Container[str], notices: Notices) -> AgentSpec:
    """Return the agent that a file describes; raises `ConfigError` with file, line and key.

    `models` are the aliases and the models without a provider.
    """
    marked = split_front_matter(text)
    if not marked.entries:
        raise ConfigError(f"{path}, line 1: the file has no keys between two lines `---` at its beginning.")
    for line in marked.ignored_lines[:1]:
        notices.add("the line is not `key: value`, and is ignored.", path, line)
    fields = FrontMatter(path, marked.entries, notices)
    fields.report_unknown_keys(KEYS, _MEANT)
    name = _read_name(fields, path)
    tools, may_start = read_tools(fields, name)
    disallowed_tools, may_start_none = _read_disallowed_tools(fields)
    runs_in_background = fields.switch("background")
    _report_unused_keys(fields, runs_in_background)
    spec = AgentSpec(
        name=name,
        description=_read_description(fields),
        instructions=marked.body,
        model=read_model(fields, models),
        tools=tools,
        disallowed_tools=disallowed_tools,
        may_start=() if may_start_none else may_start,
        mode=_read_mode(fields),
        max_turns=fields.count("maxTurns"),
        skills=fields.names("skills") or (),
        mcp_servers=_read_servers(fields),
        effort=fields.choice("effort", EFFORTS),
        isolation=_read_isolation(fields),
        runs_in_background=runs_in_background,
        memory=fields.text("memory")[:_MOST_NAME],
        color=_read_color(fields),
        initial_prompt=fields.text("initialPrompt")[:_MOST_PROMPT],
        source=path,
    )
    if not spec.instructions:
        raise ConfigError(f"{path}: the file has no instructions. Write them below the second line `---`.")
    return spec


def normalize_name(name: str) -> str:
    """Return the name in the characters `a-z`, `0-9` and `-`; empty if it has none of these."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()[: 4 * _MOST_NAME]).strip("-")[:_MOST_NAME].strip("-")


def _read_name(fields: FrontMatter, path: Path) -> str:
    given = " ".join(fields.text("name").split()) or path.stem
    name = normalize_name(given)
    if not name:
        fields.refuse("name", f"is {given[:_MOST_NAME]!r}; it should be of a-z, 0-9 and -")
    if name != given:
        fields.notice("name", f"should be of a-z, 0-9 and -: {given[:_MOST_NAME]!r} is called `{name}`")
    return name


def _read_description(fields: FrontMatter) -> str:
    # Files of other agents write line ends as `\n`.
    description = " ".join(fields.text("description").replace("\\n", " ").split())
    if not description:
        fields.refuse("description", "is missing", "Say there when the agent is of use.")
    return description[:_MOST_DESCRIPTION]


def read_model(fields: FrontMatter, models: Container[str]) -> str:
    model = fields.text("model")
    if not model or model.lower() == "inherit":
        return ""
    if not _MODEL.fullmatch(model):
        fields.refuse("model", f"is {model[:40]!r}; it should be PROVIDER/MODEL, an alias, or inherit")
    if model in models or "/" in model:
        return model
    fields.notice(
        "model",
        f"is `{model}`, which is not an alias here: the agent uses the model of the session that starts it."
        f" `sandbur config set aliases.{model} PROVIDER/MODEL` makes it one",
    )
    return ""


def read_tools(
    fields: FrontMatter, name: str, key: str = "tools", separators: str = ",\n"
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Return the tools, and the agents that the agent may start."""
    entries = fields.names(key, separators)
    if entries is None:
        return None, None
    tools: dict[str, None] = {}
    agents: dict[str, None] | None = {}
    for entry in entries:
        called, inside = _split_entry(fields, key, entry)
        if not _STARTS_AGENTS.fullmatch(called):
            tools.update(dict.fromkeys(_find_tool(fields, key, called, inside)))
        elif inside is None:
            agents = None
        elif agents is not None:
            agents.update(dict.fromkeys(filter(None, map(normalize_name, split_names(inside)))))
    if _EVERY_TOOL in tools and not agents:
        agents = None
    may_start = None if agents is None else tuple(agents)
    if may_start == (name,):
        fields.notice(key, f"lets the agent `{name}` start only itself")
    return (None if _EVERY_TOOL in tools else tuple(tools)), may_start


def _read_disallowed_tools(fields: FrontMatter) -> tuple[tuple[str, ...], bool]:
    """Return the tools that the agent does not get, and whether it may start no agents."""
    tools: dict[str, None] = {}
    may_start_none = False
    for entry in fields.names("disallowedTools") or ():
        called, inside = _split_entry(fields, "disallowedTools", entry)
        if inside is not None:
            fields.refuse(
                "disallowedTools",
                f"has `{entry[:80]}`: a part of a tool cannot be taken away here",
                "Name the tool alone, or write a deny rule. `tools` names the agents that may be started.",
            )
        if _STARTS_AGENTS.fullmatch(called):
            may_start_none = True
        else:
            tools.update(dict.fromkeys(_find_tool(fields, "disallowedTools", called, None)))
    return tuple(tools), may_start_none


def _split_entry(fields: FrontMatter, key: str, entry: str) -> tuple[str, str | None]:
    """Return the name of an entry such as `Bash(git *)`, and the text in its parentheses, or None if it has
    none.
    """
    found = _ENTRY.fullmatch(entry)
    if found is None:
        fields.refuse(
            key, f"has `{entry[:80]}`, which is not the name of a tool", "Put commas between names."
        )
    return found[1], found[2]


@cache
def _list_own_tools() -> Mapping[str, str]:
    """Return folded name -> name of the tools that ship, also by their names in other agents."""
    own = load_declared_traits()
    others = {fold(other): name for name, traits in own.items() for other in traits.also_called}
    return {**others, **{fold(name): name for name in own}}


def _find_tool(fields: FrontMatter, key: str, called: str, inside: str | None) -> tuple[str, ...]:
    """Return Sandbur's name of a tool, or its own name if it may be another tool; empty if there is no such
    tool.
    """
    if inside is not None:
        fields.notice(key, f"has `{called}(...)`: the whole tool is offered, and the rules judge each call")
    if called.startswith(SERVER_PREFIX):
        return (called,)
    if (own := _list_own_tools().get(fold(called))) is not None:
        return (own,)
    if called[0].isupper() and called.isalnum():
        fields.notice(key, f"names `{called}`, which is not a tool here")
        return ()
    return (called,)


def _read_mode(fields: FrontMatter) -> ExecutionMode | None:
    mode = fields.choice("permissionMode", _MODES)
    word = fields.text("permissionMode")
    if word and mode is None:
        fields.notice(
            "permissionMode", f"is `{word}`, which is not a mode here: the agent has the mode of the parent"
        )
    return mode


def _read_isolation(fields: FrontMatter) -> Isolation:
    if fields.text("isolation") == "worktree":
        fields.notice("isolation", "is `worktree`, which is not offered: the agent works in a copy (`copy`)")
    return fields.choice("isolation", _ISOLATIONS) or ""


def _read_color(fields: FrontMatter) -> str:
    color = fields.text("color").lower()
    if color and color not in _COLORS:
        fields.notice("color", f"is ignored; the colors are: {', '.join(_COLORS)}")
        return ""
    return color


def _read_servers(fields: FrontMatter) -> tuple[str, ...] | None:
    """Return the names of configured servers; a notice says that inline definitions are not used."""
    entry = fields.find("mcpServers")
    if entry is None or not entry.text.strip():
        return None
    is_inline = "{" in entry.text
    names: list[str] = []
    lines = [line for line in entry.block if line.strip() and not line.lstrip().startswith("#")]
    if not lines and not is_inline:
        names = list(fields.names("mcpServers") or ())
    indent = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    for line in lines:
        name = line.strip().removeprefix("-").strip().strip("\"'")
        if len(line) - len(line.lstrip()) > indent:
            continue
        if ":" in name or "{" in name or not line.strip().startswith("-"):
            is_inline = True
        elif name.isprintable():
            names.append(name[:_MOST_NAME])
    if is_inline:
        fields.notice("mcpServers", "defines a server, which is not used: name servers of `sandbur mcp list`")
    return tuple(dict.fromkeys(names))


def _report_unused_keys(fields: FrontMatter, runs_in_background: bool) -> None:
    if fields.text("hooks"):
        fields.notice("hooks", "is not used: the hooks of the session count for its agents, too")
    if fields.text("memory"):
        fields.notice("memory", "is not used yet")
    if runs_in_background:
        fields.notice("background", "is not used: a session waits for the agents that it starts")
