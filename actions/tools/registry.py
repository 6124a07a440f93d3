"""The built-in tools, and what they declare: whoever needs to know about a tool asks here."""

from collections.abc import Mapping
from functools import cache

from ..ports import Tool, ToolTraits


def builtin_tools() -> dict[str, Tool]:
    """Return new tools by name, always in the same order."""
    from .edit_file import EditFile
    from .glob import Glob
    from .grep import Grep
    from .list_directory import ListDirectory
    from .read_file import ReadFile
    from .shell.tool import RunShellCommand
    from .write_file import WriteFile

    tools: tuple[Tool, ...] = (
        RunShellCommand(),
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
