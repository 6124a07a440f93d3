"""The demo: a built-in scripted model, for a first try without a key."""

from ...extensions.extension import CommandEntry, Extension

EXTENSION = Extension(
    name="demo",
    about="a scripted model for a first look without a key",
    page="install.md",
    folders=("agent/models/demo",),
    commands=(
        CommandEntry(
            name="demo",
            home=".ui.commands.chat:DemoCommand",
            summary="watch it work with the shipped scripted model: no key, no network",
            after="acp",
        ),
    ),
    models={"demo": ".agent.models.demo.demo_model:DemoModel"},
)
