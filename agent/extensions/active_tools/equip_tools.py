"""The tool `equip_tools`: the model activates a group of tools that the person has made available."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from ....actions.ports import Tool, ToolContext, ToolOutcome, ToolTraits
from ....actions.tools.builtin import BuiltinTool
from ....actions.tools.schema import PlainText, ToolArguments
from ....state.conversation.messages import Equipment

_DESCRIPTION = (
    "Make a group of further tools active for the rest of the session. Their descriptions come with the next"
    " message. Do it once the work needs them, not before: it makes the session read everything anew."
    " The groups:"
)
_MOST_GROUPS = 100
_MOST_TOOLS = 20
"""Of a group, in its line."""


class EquipToolsArguments(ToolArguments):
    group: PlainText = Field(description="The name of the group.")


class EquipTools(BuiltinTool[EquipToolsArguments]):
    traits = ToolTraits(subject="group", is_quiet=True, equips="groups")

    def __init__(self, tools: Mapping[str, Tool], groups: Sequence[str]) -> None:
        """`groups` are the groups that may be activated."""
        self._members = {
            group: [name for name, tool in tools.items() if group in tool.traits.groups] for group in groups
        }
        self._members = {group: names for group, names in self._members.items() if names}
        lines = [
            f"- {group}: {_join_names(names)}" for group, names in list(self._members.items())[:_MOST_GROUPS]
        ]
        super().__init__("equip_tools", "\n".join((_DESCRIPTION, *lines)), EquipToolsArguments)

    async def run(self, arguments: EquipToolsArguments, context: ToolContext) -> ToolOutcome:
        names = self._members.get(arguments.group)
        if names is None:
            known = ", ".join(list(self._members)[:_MOST_GROUPS])
            return ToolOutcome(
                "error", f"There is no group {arguments.group[:80]!r} to be had. There are: {known}."
            )
        message = f"The group {arguments.group} is active now: {_join_names(names)}."
        return ToolOutcome("ok", message, equips=Equipment(groups=(arguments.group,)))


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_TOOLS} more" if len(names) > _MOST_TOOLS else ""
    return f"{', '.join(names[:_MOST_TOOLS])}{more}"
