"""The tool `execute_python` in sessions of the command `sandbur`, where the setting switches it on."""

from ...config.setting import Setting
from ..extension import Extension

EXTENSION = Extension(
    name="python_code",
    about="a tool that runs Python code in a sandbox, where the session's other tools are functions",
    page="python.md",
    folders=("agent/extensions/python_code", "actions/tools/python"),
    settings=(
        Setting(
            "execute_python",
            False,
            "switch",
            variable="SANDBUR_EXECUTE_PYTHON",
            about="whether a model may run Python code in a sandbox that calls the session's tools",
            of_command=True,
            after="web_tools",
        ),
    ),
    runtime=".agent.extensions.python_code.python_runtime:PythonRuntime",
)
