"""Brings the tool `execute_python` into the sessions of the command."""

from collections.abc import Sequence
from pathlib import Path

from ....actions.ports import Tool, ToolSource
from ....actions.tools.python.tool import PythonTool
from ....state.session import SessionSettings
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime


class PythonRuntime(ExtensionRuntime):
    """An agent in a program brings its own tool: `sandbur.python_tool`."""

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        settings = self.process.settings_of_folder(Path(session.cwd))
        is_wanted = definition.has_builtin_tools and settings.of("execute_python")
        return (PythonSource(),) if is_wanted else ()


class PythonSource:
    """The one tool; which functions its code has is known when the session has all its tools."""

    name = "python"

    async def tools(self) -> Sequence[Tool]:
        return (PythonTool(),)

    def notices(self) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        """Do nothing: its processes end with their calls."""
