"""Sessions in editors that support the Agent Client Protocol."""

from ...agent.extensions.extension import CommandEntry, Extension, SlashEntry

EXTENSION = Extension(
    name="acp",
    about="sessions in an editor that speaks the Agent Client Protocol",
    page="editors.md",
    folders=("ui/acp", "ui/commands/acp.py"),
    commands=(
        CommandEntry(
            name="acp",
            home=".ui.commands.acp:AcpCommand",
            summary="serve an editor that speaks the Agent Client Protocol",
            after="trust",
        ),
    ),
    slash=(
        SlashEntry(
            name="continue",
            usage="",
            summary="go on where the session was interrupted",
            editor=".ui.acp.editor_commands:go_on",
            group="Session",
            after="plan",
        ),
    ),
)
