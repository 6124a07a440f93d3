"""The built-in tools: the shell, files and searches."""

from actions.ports import Tool

TOOL_NAMES = (
    "run_shell_command", "read_file", "write_file", "edit_file", "list_directory", "glob", "grep",
)  # fmt: skip


def builtin_tools() -> dict[str, Tool]:
    """Return the tools by name, always in the same order."""
    from actions.tools.edit_file import EditFile
    from actions.tools.glob import Glob
    from actions.tools.grep import Grep
    from actions.tools.list_directory import ListDirectory
    from actions.tools.read_file import ReadFile
    from actions.tools.run_shell_command import RunShellCommand
    from actions.tools.write_file import WriteFile

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
