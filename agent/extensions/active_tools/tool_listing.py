"""The tools that a model request offers: all of them, or a search tool if there are too many."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ....actions.ports import Toolbox, ToolListing, ToolSpec
from ....actions.tools.registry import load_declared_traits
from ....state.conversation.messages import NO_EQUIPMENT, Equipment
from ....state.session import ToolChoice
from .selection import active_groups, is_named
from .tool_catalogue import catalogue


class Offers:
    """Makes and caches the tool declarations of requests. New tools come last, so that providers can cache
    the rest."""

    def __init__(
        self, toolbox: Toolbox, choice: ToolChoice, system: str, steering: tuple[ToolSpec, ...] = ()
    ) -> None:
        """`steering` are the declarations of the decision tools."""
        self._toolbox = toolbox
        self._choice = choice
        self._system = system
        self._steering = steering
        self._groups = active_groups(choice)
        self._known: dict[Equipment, ToolListing] = {}
        self._meta = {tool.traits.equips: name for name, tool in toolbox.items()}

    def of(self, equipment: Equipment) -> ToolListing:
        if equipment not in self._known:
            self._known[equipment] = self._make_listing(equipment)
        return self._known[equipment]

    def why_inactive(self, tool: str, equipment: Equipment) -> str:
        if tool not in self._toolbox or self._is_active(tool, equipment):
            return ""
        missing = set(self._toolbox[tool].traits.groups).difference(self._active_groups(equipment))
        equip, groups = self._meta.get("groups", ""), ", ".join(sorted(missing))
        if missing <= set(self._choice.available_groups) - self._groups:
            return f"{tool} is not active yet. Call {equip} first, with the group {groups}."
        return f"{tool} is not active: the group {groups} was taken back."

    def _make_listing(self, equipment: Equipment) -> ToolListing:
        at_first = Equipment(reset_groups=equipment.reset_groups) if equipment.reset_groups else NO_EQUIPMENT
        first = list(self._list_names(at_first, equipment))
        later = [name for name in self._list_names(equipment, equipment) if name not in first]
        by_search = [name for name in self._find_names(equipment) if name not in first]
        specs = [*map(self._spec_of(equipment), first), *self._steering]
        specs += [self._toolbox[name].spec for name in dict.fromkeys((*later, *by_search))]
        return ToolListing.build(self._system, tuple(specs))

    def _spec_of(self, equipment: Equipment) -> Callable[[str], ToolSpec]:
        def spec(name: str) -> ToolSpec:
            tool = self._toolbox[name]
            if tool.traits.equips != "tools":
                return tool.spec
            hidden = [self._toolbox[one].spec for one in self._active_own(equipment) if self._is_found(one)]
            return replace(tool.spec, description=catalogue(tool.spec.description, hidden))

        return spec

    def _list_names(self, active: Equipment, equipment: Equipment) -> Iterator[str]:
        """Yield the tools that `active` makes active, in their order, without those that only a search
        offers."""
        is_searched = self._is_searched(equipment)
        for name, tool in self._toolbox.items():
            if tool.traits.equips == "tools":
                if is_searched:
                    yield name
            elif self._is_active(name, active) and not (is_searched and self._is_found(name)):
                yield name

    def _is_searched(self, equipment: Equipment) -> bool:
        most = self._choice.most_listed
        return bool(most) and "tools" in self._meta and len(self._active_own(equipment)) > most

    def _find_names(self, equipment: Equipment) -> Iterable[str]:
        """Return the active tools that a search found; if there are too many, only the newest ones."""
        there = [name for name in equipment.tools if name in self._toolbox]
        active = [name for name in there if self._is_active(name, equipment)]
        return active[-self._choice.most_listed :]

    def _is_found(self, name: str) -> bool:
        """Return whether a search is needed for the tool once there are too many tools."""
        tool = self._toolbox[name]
        return not (name in load_declared_traits() or tool.traits.equips or tool.traits.is_done_tool)

    def _active_own(self, equipment: Equipment) -> list[str]:
        return [
            name
            for name, tool in self._toolbox.items()
            if name not in load_declared_traits()
            and not tool.traits.equips
            and self._is_active(name, equipment)
        ]

    def _is_active(self, name: str, equipment: Equipment) -> bool:
        traits = self._toolbox[name].traits
        if not traits.groups or is_named(name, traits, self._choice):
            return True
        return set(traits.groups) <= self._active_groups(equipment)

    def _active_groups(self, equipment: Equipment) -> set[str]:
        return {*self._groups}.difference(equipment.reset_groups).union(equipment.groups)
