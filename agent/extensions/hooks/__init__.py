"""Hooks: commands of the person or the project that observe events and may refuse them."""

from ...config.setting import Setting
from ..extension import ConfigFile, Extension

EXTENSION = Extension(
    name="hooks",
    about="commands that run on events of a session and may refuse them",
    page="hooks.md",
    folders=("agent/extensions/hooks",),
    settings=(
        Setting(
            "hooks",
            (),
            "table",
            "all",
            about="commands that observe events and may refuse them",
            reader=".agent.extensions.hooks.hooks_runtime:HooksReader",
            of_command=True,
            after="transport",
        ),
    ),
    files=(
        ConfigFile(
            name="hooks.json",
            place="user",
            key="hooks",
            parse=".agent.extensions.hooks.hooks_runtime:parse_hooks",
        ),
    ),
    runtime=".agent.extensions.hooks.hooks_runtime:HooksRuntime",
)
