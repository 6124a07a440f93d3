"""`session.groups`: the groups of tools of a session, for programs."""

from collections.abc import Callable, Mapping

from ...actions.tools.similar_names import suggest_values
from ...state.conversation.messages import Equipment
from ...state.errors import UsageError
from ..session.session import Session


class ToolGroups:
    """The groups of a session's tools, and which of them are active.

    A change takes effect with the next request. It is stored with the next step of a run; after that, it also
    applies after a resume and in a fork.
    """

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    @property
    def active(self) -> tuple[str, ...]:
        """Return the names of the active groups."""
        session = self._session()
        choice, equipment = session.settings.tool_choice, session.state.equipment
        first = (*choice.groups, *choice.only)
        found = dict.fromkeys(
            (*(one for one in first if one not in equipment.reset_groups), *equipment.groups)
        )
        return tuple(name for name in found if name in self.descriptions)

    @property
    def descriptions(self) -> Mapping[str, str]:
        """Return name -> description of all groups; the description may be empty."""
        session = self._session()
        texts = session.settings.tool_choice.group_descriptions
        names = (group for tool in session.ports.toolbox.values() for group in tool.traits.groups)
        return {name: texts.get(name, "") for name in dict.fromkeys(names)}

    def activate(self, *names: str) -> None:
        """Activate groups; raises `UsageError` for an unknown group and during a run."""
        self._require_known(names)
        self._session().change_equipment(Equipment(groups=names))

    def reset(self, *names: str) -> None:
        """Deactivate groups, by default all active ones; raises `UsageError` as `activate` does."""
        self._require_known(names)
        self._session().change_equipment(Equipment(reset_groups=names or self.active))

    def _require_known(self, names: tuple[str, ...]) -> None:
        known = self.descriptions
        for name in names:
            if name not in known:
                hint = suggest_values(name, known)
                raise UsageError(f"No tool of this session is in a group {name!r}.", hint)
