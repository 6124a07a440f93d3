"""Adds the tools that results activate to the session. The next request offers them."""

from collections.abc import Iterable
from typing import Any

from ....state.application import ApplicationState
from ....state.conversation.messages import Equipment, ToolResult
from ...ports import Ports
from ...ports.events import ToolsChanged


def merge_equipment(state: ApplicationState, results: Iterable[ToolResult]) -> dict[str, Any]:
    """Return the state changes for the tools that the results activate; empty if no tool is new."""
    found = state.equipment
    for result in results:
        found = found if result.equips is None else found.merge(result.equips)
    return {} if found == state.equipment else {"equipment": found}


def announce_tool_changes(before: Equipment, after: Equipment, ports: Ports) -> None:
    """Emit `ToolsChanged` with the tools that the next request adds and removes."""
    if before == after:
        return
    old, new = ({spec.name: spec for spec in ports.requests.offer(one).specs} for one in (before, after))
    if old != new:
        ports.emit(
            ToolsChanged(
                added=tuple(name for name in new if name not in old),
                removed=tuple(name for name in old if name not in new),
                groups=tuple(name for name in after.groups if name not in before.groups),
            )
        )
