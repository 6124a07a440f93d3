"""Adds the tool `execute_python` to the sessions of the command `sandbur`."""

from collections.abc import Sequence
from pathlib import Path

from ....actions.ports import Tool, ToolSource
from ....actions.tools.python.tool import PythonTool
from ....state.session import SessionSettings
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime


class PythonRuntime(ExtensionRuntime):
    """Adds the tool if the setting `execute_python` is on. A program gives the tool to its agent itself, with
    `sandbur.python_tool`."""

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        settings = self.process.settings_of_folder(Path(session.cwd))
        is_wanted = definition.has_builtin_tools and settings.of("execute_python")
        return (PythonSource(),) if is_wanted else ()


class PythonSource:
    """The source of the tool `execute_python`. The tool gets its functions later, when all tools of the
    session are known."""

    name = "python"

    async def tools(self) -> Sequence[Tool]:
        return (PythonTool(),)

    def notices(self) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        """Do nothing: the processes of the tool end with their calls."""
