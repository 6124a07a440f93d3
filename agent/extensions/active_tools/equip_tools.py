"""The tool `equip_tools`: the model activates a group of tools that the person made available."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from ....actions.ports import Tool, ToolContext, ToolOutcome, ToolTraits
from ....actions.tools.builtin import BuiltinTool
from ....actions.tools.schema import PlainText, ToolArguments
from ....state.conversation.messages import Equipment

_DESCRIPTION = (
    "Make a group of further tools active for the rest of the session. Their descriptions come with the next"
    " message. Do it once the work needs them, not before: it makes the model read the whole session again."
    " The groups:"
)
_MOST_GROUPS = 100
_MOST_TOOLS = 20
"""The most tools of a group that its line names."""


class EquipToolsArguments(ToolArguments):
    group: PlainText = Field(description="The name of the group.")


class EquipOrResetArguments(EquipToolsArguments):
    reset: bool = Field(default=False, description="Deactivate the group: its tools are no longer needed.")


class EquipTools(BuiltinTool[EquipToolsArguments]):
    traits = ToolTraits(subject="group", is_quiet=True, equips="groups")

    def __init__(
        self,
        tools: Mapping[str, Tool],
        groups: Sequence[str],
        texts: Mapping[str, str] | None = None,
        can_reset: bool = False,
    ) -> None:
        """`groups` can be activated, and deactivated if `can_reset` is true. `texts` maps a group to its
        purpose."""
        self._members = {
            group: [name for name, tool in tools.items() if group in tool.traits.groups] for group in groups
        }
        self._members = {group: names for group, names in self._members.items() if names}
        lines = [
            _describe_group(group, (texts or {}).get(group, ""), names)
            for group, names in list(self._members.items())[:_MOST_GROUPS]
        ]
        arguments = EquipOrResetArguments if can_reset else EquipToolsArguments
        super().__init__("equip_tools", "\n".join((_DESCRIPTION, *lines)), arguments)

    async def run(self, arguments: EquipToolsArguments, context: ToolContext) -> ToolOutcome:
        names, group = self._members.get(arguments.group), arguments.group
        if names is None:
            known = ", ".join(list(self._members)[:_MOST_GROUPS])
            return ToolOutcome("error", f"There is no group {group[:80]!r}. The groups are: {known}.")
        if isinstance(arguments, EquipOrResetArguments) and arguments.reset:
            message = f"The group {group} is no longer active: {_join_names(names)}."
            return ToolOutcome("ok", message, equips=Equipment(reset_groups=(group,)))
        message = f"The group {group} is active now: {_join_names(names)}."
        return ToolOutcome("ok", message, equips=Equipment(groups=(group,)))


def _describe_group(group: str, text: str, names: Sequence[str]) -> str:
    return f"- {group}: {text} Tools: {_join_names(names)}" if text else f"- {group}: {_join_names(names)}"


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_TOOLS} more" if len(names) > _MOST_TOOLS else ""
    return f"{', '.join(names[:_MOST_TOOLS])}{more}"
