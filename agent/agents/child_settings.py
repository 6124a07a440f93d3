"""The settings of a sub-agent's session: those of the session that starts it, and never wider."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ...actions.tools.registry import SERVER_PREFIX
from ...state.application import ExecutionMode
from ...state.session import SessionSettings, SpawnedBy, ToolChoice
from ..runtime.agent_definition import Definition
from ..runtime.prompts import sub_agent_prompt
from ..session.session import Session
from .agent_spec import AgentSpec

_BY_FREEDOM: tuple[ExecutionMode, ...] = ("plan", "interactive", "auto-edit", "yolo")
_TOOLS_TO_START = ("task",)
"""Whether an agent has this tool depends on the agents that it may start, and not on its list of tools."""
_RULES = ("allow", "ask", "deny", "add_dirs", "sandbox", "allow_net", "variables")
"""What a sub-agent takes from its parent again each time it is opened."""


def narrow_mode(wish: ExecutionMode | None, parent: ExecutionMode) -> ExecutionMode:
    """Return the wish, but nothing freer than the mode of the parent."""
    is_narrower = wish is not None and _BY_FREEDOM.index(wish) < _BY_FREEDOM.index(parent)
    return wish if wish is not None and is_narrower else parent


def make_child_settings(
    parent: Session,
    spec: AgentSpec,
    spawned_by: SpawnedBy,
    model: str = "",
    skills: Sequence[str] = (),
) -> SessionSettings:
    """Return the settings of a new sub-agent that a file describes, or that is like its parent.

    `skills` are the texts of the skills that it has read when it begins.
    """
    settings = parent.settings
    instructions = "\n\n".join(filter(None, (spec.instructions, *skills)))
    prompt = sub_agent_prompt(
        settings.system_prompt, instructions, Path(settings.cwd), tuple(map(Path, settings.add_dirs))
    )
    changes: dict[str, Any] = {
        "system_prompt": prompt,
        "spawned_by": spawned_by,
        "model": model or spec.model or settings.model,
        "effort": spec.effort or settings.effort,
        "mode": narrow_mode(spec.mode, parent.state.execution_mode),
        "tool_choice": _narrow_tools(parent, spec),
        "has_planning": settings.has_planning and not spec.instructions,
        "output_schema": None,
        "done_tool": "",
        "imported_seq": None,
    }
    return settings.model_copy(update=changes)


def make_program_settings(
    parent: Session, definition: Definition, prompt: str, spawned_by: SpawnedBy
) -> SessionSettings:
    """Return the settings of a new sub-agent that a program defines."""
    settings, own = parent.settings, definition.overrides
    named = definition.model.name if definition.model is not None else own.get("model")
    rules = {key: tuple(dict.fromkeys((*getattr(settings, key), *own.get(key, ())))) for key in _RULES[:3]}
    output = definition.output
    changes: dict[str, Any] = {
        **rules,
        "system_prompt": prompt,
        "spawned_by": spawned_by,
        "model": named or settings.model,
        "effort": own.get("effort") or settings.effort,
        "mode": narrow_mode(own.get("mode"), parent.state.execution_mode),
        "tool_choice": ToolChoice(never=settings.tool_choice.never),
        "agent": definition.source,
        "agent_file": definition.file,
        "has_shipped_tools": definition.has_builtin_tools,
        "has_planning": definition.has_planning,
        "own_tools": {},
        "output_schema": None if output is None else output.output_schema,
        "done_tool": definition.done_tool,
        "imported_seq": None,
    }
    return settings.model_copy(update=changes)


def renew_child_settings(stored: SessionSettings, parent: Session) -> SessionSettings:
    """Return the stored settings of a sub-agent with the present rules of its parent."""
    now = {key: getattr(parent.settings, key) for key in _RULES}
    return stored.model_copy(update=now)


def _narrow_tools(parent: Session, spec: AgentSpec) -> ToolChoice:
    """Return the tools of the parent that the agent may use."""
    choice, names = parent.settings.tool_choice, tuple(parent.ports.toolbox)
    others = () if spec.mcp_servers is None else _list_tools_of_others(names, spec.mcp_servers)
    never = tuple(dict.fromkeys((*choice.never, *spec.disallowed_tools, *others)))
    if spec.tools is None:
        return choice.model_copy(update={"never": never})
    only = tuple(_match(names, (*spec.tools, *_TOOLS_TO_START)))
    # Without a name, `only` would mean all tools.
    return choice.model_copy(update={"only": only, "never": never if only else names})


def _list_tools_of_others(names: Iterable[str], servers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tools of the tool servers that an agent does not name."""
    own = tuple(f"{SERVER_PREFIX}{server}__" for server in servers)
    return tuple(name for name in names if name.startswith(SERVER_PREFIX) and not name.startswith(own))


def _match(names: Iterable[str], patterns: tuple[str, ...]) -> Iterable[str]:
    return (name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))
