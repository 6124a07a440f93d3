"""The tracking UI: the sessions of a store as `sandbur ui` shows them."""

from ...extensions.extension import CommandEntry, Extension, SlashEntry

EXTENSION = Extension(
    name="tracking",
    about="the sessions of a store in the browser",
    page="ui.md",
    folders=("agent/history/tracking", "ui/web"),
    commands=(
        CommandEntry(
            name="ui",
            home=".ui.web.command:UiCommand",
            summary="open the tracking UI on the store: runs, steps, state, model and tool calls",
            after="doctor",
        ),
    ),
    slash=(
        SlashEntry(
            name="ui",
            usage="",
            summary="show sessions in the browser",
            home=".ui.web.open_ui:open_ui",
            group="Installation",
            after="doctor",
        ),
    ),
)
