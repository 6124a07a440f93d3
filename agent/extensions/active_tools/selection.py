"""Selects the tools of a session by the person's allow and deny lists and by tool group."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from ....actions.ports import Tool, ToolTraits
from ....actions.tools.registry import load_declared_traits, with_reader
from ....actions.tools.similar_names import suggest_names
from ....state.errors import ConfigError
from ....state.session import SessionSettings, ToolChoice
from .equip_tools import EquipTools
from .search_tools import SearchTools


class Selected(NamedTuple):
    tools: dict[str, Tool]
    unknown: tuple[str, ...]
    """One sentence for each name in the person's lists that matches neither a tool nor a group."""
    unreachable: tuple[str, ...]
    """One sentence for each group whose tools are left out, because it is neither active nor available."""


def select_tools(tools: Mapping[str, Tool], choice: ToolChoice) -> Selected:
    """Return the tools that the choice allows the model to use, now or after it activates a group."""
    there = {name: tool for name, tool in tools.items() if _is_wanted(name, tool.traits, choice)}
    within_reach = {*active_groups(choice), *choice.available_groups}
    kept = {
        name: tool
        for name, tool in there.items()
        if is_named(name, tool.traits, choice) or within_reach.issuperset(tool.traits.groups)
    }
    missing: dict[str, list[str]] = {}
    for name in there.keys() - kept.keys():
        for group in tools[name].traits.groups:
            if group not in within_reach:
                missing.setdefault(group, []).append(name)
    return Selected(kept, tuple(_unknown(tools, choice)), tuple(_describe_unreachable(missing)))


def active_groups(choice: ToolChoice) -> frozenset[str]:
    """Return the groups that are active when the session begins."""
    return frozenset((*choice.groups, *choice.only)) - {*choice.never}


def is_named(name: str, traits: ToolTraits, choice: ToolChoice) -> bool:
    """Return whether the person's list names this tool itself, not only its group."""
    return any(_means(entry, name, traits) for entry in choice.only)


def _is_wanted(name: str, traits: ToolTraits, choice: ToolChoice) -> bool:
    if any(_means(entry, name, traits) or entry in traits.groups for entry in choice.never):
        return False
    if not choice.only or traits.is_of_flow:
        # What a flow brings is the person's own; no model gets it.
        return True
    return any(_means(entry, name, traits) or entry in traits.groups for entry in choice.only)


def _means(entry: str, name: str, traits: ToolTraits) -> bool:
    """Return whether an entry matches a tool: by name, glob, server, or its name in other agents."""
    return fnmatchcase(name, entry) or name.startswith(f"{entry}__") or entry.lower() in traits.also_called


def _unknown(tools: Mapping[str, Tool], choice: ToolChoice) -> Iterable[str]:
    groups = {group for tool in tools.values() for group in tool.traits.groups}
    for where, entries in (("--tools", choice.only), ("--disallowed-tools", choice.never)):
        for entry in entries:
            if entry not in groups and not any(_means(entry, *named) for named in _traits(tools)):
                what = "neither a tool nor a group of this session"
                problem = f"{where} names `{entry}`, which is {what}."
                yield f"{problem} {suggest_names(entry, (*tools, *groups))}".rstrip()
    for where, entries in (("groups", choice.groups), ("available_groups", choice.available_groups)):
        for entry in entries:
            if entry not in groups:
                problem = f"`{where}` names `{entry}`, but no tool is in such a group."
                yield f"{problem} {suggest_names(entry, groups)}".rstrip()


def _traits(tools: Mapping[str, Tool]) -> Iterable[tuple[str, ToolTraits]]:
    return ((name, tool.traits) for name, tool in tools.items())


_MOST_NAMED = 5


def _describe_unreachable(missing: Mapping[str, list[str]]) -> Iterable[str]:
    for group, names in missing.items():
        named = ", ".join(sorted(names)[:_MOST_NAMED])
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        yield (
            f"The group {group} of tools is neither active nor available, so these are not offered:"
            f" {named}{more}. Name it in `groups` or `available_groups`."
        )


def complete_groups(tools: Mapping[str, Tool], session: SessionSettings) -> dict[str, Tool]:
    """Return the tools of a session, and the tools by which the model activates, finds or reads more.

    Raises `ConfigError` if one of these added tools has the name of another tool.
    """
    choice, whole = session.tool_choice, dict(tools)
    own = {
        name: tool
        for name, tool in tools.items()
        if name not in load_declared_traits() and not tool.traits.is_of_flow
    }
    offered = tuple(group for group in choice.available_groups if group not in active_groups(choice))
    if any(not set(offered).isdisjoint(tool.traits.groups) for tool in own.values()):
        _add(whole, EquipTools(own, offered, choice.group_descriptions, choice.can_reset))
    if choice.most_listed and len(own) > choice.most_listed:
        _add(whole, SearchTools(own, active_groups(choice)))
    return with_reader(whole, session)


def _add(tools: dict[str, Tool], ours: Tool) -> None:
    name = ours.spec.name
    if name in tools:
        raise ConfigError(f"A tool cannot be called {name}: Sandbur has a tool of that name.", "Rename it.")
    tools[name] = ours
