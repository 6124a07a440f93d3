"""The built-in tools, and what they declare: whoever needs to know about a tool asks here."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from ..ports import Tool, ToolTraits

if TYPE_CHECKING:
    from .shell.sandbox.sandbox import Sandbox


def builtin_tools(sandbox: "Sandbox | None" = None) -> dict[str, Tool]:
    """Return new tools by name, always in the same order; commands run in the sandbox, if there is one."""
    from .edit_file import EditFile
    from .glob import Glob
    from .grep import Grep
    from .list_directory import ListDirectory
    from .read_file import ReadFile
    from .shell.tool import RunShellCommand
    from .write_file import WriteFile

    tools: tuple[Tool, ...] = (
        RunShellCommand(sandbox=sandbox),
        ReadFile(),
        WriteFile(),
        EditFile(),
        ListDirectory(),
        Glob(),
        Grep(),
    )
    return {tool.spec.name: tool for tool in tools}


@cache
def declared() -> Mapping[str, ToolTraits]:
    return {name: tool.traits for name, tool in builtin_tools().items()}


def traits_of(name: str) -> ToolTraits:
    """Return what a tool declares: nothing, if it is not one of ours."""
    return declared().get(name) or ToolTraits()
