"""Collects the tools of a session: built-in, from the agent, installed packages, the project and tool
servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ....actions.masking.masker import make_value_label
from ....actions.ports import CallsTools, HoldsSecrets, Masker, Tool, Toolbox, ToolSource, implements
from ....actions.tools.registry import FindsService, toolbox_of, with_reader
from ....actions.turn.plan.decision_tools import RESERVED_NAMES
from ....state.errors import ConfigError, UnknownTool
from ....state.session import SessionSettings
from ...runtime.agent_definition import Definition
from ...runtime.wiring import tool_digest
from .selection import complete_groups, select_tools

if TYPE_CHECKING:
    from ....actions.tools.shell.sandbox.sandbox import Sandbox


class Equipped(NamedTuple):
    toolbox: dict[str, Tool]
    own: Mapping[str, str]
    """Name -> digest of the declaration, for every tool that is not built in."""
    notices: tuple[str, ...]


async def equip(
    session: SessionSettings,
    definition: Definition,
    brought: Sequence[Tool] = (),
    sources: Sequence[ToolSource] = (),
    search: FindsService | None = None,
    sandbox: Sandbox | None = None,
    is_new: bool = False,
) -> Equipped:
    """Return the tools of a session and messages about them. `brought` are the tools that its middleware
    adds, `sources` are those of the agent and of extensions.

    Raises `ConfigError` if two tools have the same name. A name of a tool or group that does not exist raises
    `UnknownTool` if `is_new` is true; in a resumed session it becomes a notice.
    """
    shipped: dict[str, Tool] = {}
    if definition.has_builtin_tools:
        shipped = toolbox_of(session.network_tools, search, sandbox)
    own = rename_duplicates((*definition.tools, *brought), shipped)
    notices: list[str] = []
    for source in sources:
        own |= rename_duplicates(await source.tools(), {**shipped, **own})
        notices += source.notices()
    digests = {name: tool_digest(tool.spec) for name, tool in own.items()}
    notices += differences(session.own_tools, digests)
    choice = session.tool_choice
    if not own and not any((choice.only, choice.never, choice.groups, choice.available_groups)):
        return Equipped(with_reader(shipped, session), digests, tuple(notices))

    found = select_tools(shipped | own, choice)
    if found.unknown and is_new:
        raise UnknownTool(found.unknown[0])
    return Equipped(
        complete_groups(found.tools, session), digests, (*notices, *found.unknown, *found.unreachable)
    )


def bind_callers(toolbox: Toolbox) -> Toolbox:
    """Return the tools in the same order. Tools that call other tools are bound to them."""
    if not any(implements(tool, CallsTools) for tool in toolbox.values()):
        return toolbox
    callable_tools = {name: tool for name, tool in toolbox.items() if not tool.traits.is_of_flow}
    return {
        name: tool.with_tools(callable_tools) if implements(tool, CallsTools) else tool
        for name, tool in toolbox.items()
    }


def rename_duplicates(tools: Iterable[Tool], taken: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return the tools by name.

    Raises `ConfigError` if two tools have the same name, or if a tool has a name that the graph uses.
    """
    found: dict[str, Tool] = {}
    for tool in tools:
        name = tool.spec.name
        if name in RESERVED_NAMES:
            raise ConfigError(f"A tool cannot be called {name}: the graph uses that name.", "Rename it.")
        other = found.get(name) or taken.get(name)
        if other is not None:
            both = f"{_origin(other)} and {_origin(tool)}"
            raise ConfigError(f"There are two tools called {name}: {both}.", "Rename one of them.")
        found[name] = tool
    return found


def _origin(tool: Tool) -> str:
    """Return where a tool comes from, for a message."""
    return getattr(tool, "origin", "") or f"{type(tool).__module__}.{type(tool).__qualname__}"


def differences(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return one sentence for each tool of the session that is gone or has changed."""
    gone = [name for name in then if name not in now]
    other = [name for name in then if name in now and now[name] != then[name]]
    notices: list[str] = []
    if gone:
        notices.append(
            f"This session had tools that are missing now: {_join_names(gone)}. Their calls cannot run;"
            " resume the session with the agent that has these tools: --agent MODULE:NAME."
        )
    if other:
        notices.append(f"Tools of this session have changed since it began: {_join_names(other)}.")
    return notices


_MOST_NAMED = 12


def _join_names(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def learn_secrets(tools: Iterable[Tool], masker: Masker) -> None:
    """Add the secrets that the tools send to the session's masker."""
    for tool in tools:
        if implements(tool, HoldsSecrets):
            found = {(value, make_value_label(name)) for name, value in tool.secrets().items()}
            masker.references.exact_values.update(found)
