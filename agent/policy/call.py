"""A tool call in the form that rules judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...actions.ports import Tool, ToolTraits, WorksOnFiles, implements
from .shell.seen_commands import Sight, look


@dataclass(slots=True)
class Call:
    """The parts of a call that rules judge."""

    tool: str
    traits: ToolTraits
    source: Tool
    arguments: Any
    is_read_only: bool
    subject: str
    paths: tuple[str, ...]
    """The paths as written; for a search its folder, by default the working folder."""
    is_virtual: bool = False
    """True if the subject is a path outside of the disk, on a virtual back end."""
    _sight: Sight | None = field(default=None, init=False)

    @classmethod
    def of(cls, tool: Tool, arguments: Any, paths: Sequence[str] | None = None) -> Call:
        is_read_only = tool.effect == "read"
        paths = tuple(tool.paths(arguments) if paths is None else paths)
        is_virtual = implements(tool, WorksOnFiles) and tool.is_virtual(arguments)
        if is_read_only and not paths and not is_virtual:
            paths = (".",)
        subject = tool.subject(arguments)
        return cls(tool.spec.name, tool.traits, tool, arguments, is_read_only, subject, paths, is_virtual)

    @property
    def sight(self) -> Sight:
        """The analysis of the command line."""
        if self._sight is None:
            self._sight = look(self.subject)
        return self._sight
