"""The HTTP server: sessions, messages, decisions and streams for programs and browsers."""

from ...agent.extensions.extension import CommandEntry, Extension

EXTENSION = Extension(
    name="server",
    about="sessions over HTTP, with streams of events, tokens and tenants",
    page="serve.md",
    folders=("ui/server",),
    commands=(
        CommandEntry(
            name="serve",
            home=".ui.server.command:ServeCommand",
            summary="serve sessions over HTTP, or manage the tokens of the server",
            after="ui",
        ),
    ),
)
