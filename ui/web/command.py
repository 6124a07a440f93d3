"""The flags of `sandbur ui`."""

from ..cli.argument_types import port
from ..cli.grammar import Command, flag, switch


class UiCommand(Command):
    HOME = "open_ui.serve_ui"
    port: int = flag("--port", "the port; 0: any free port (default 7241)", 7241, type=port, metavar="N")
    host: str = flag(
        "--host", "the address to listen on (default 127.0.0.1)", "127.0.0.1",
        metavar="ADDRESS",
    )  # fmt: skip
    no_open: bool = switch("--no-open", "open no browser")
    no_token: bool = switch("--no-token", "let every user and program of this machine in")
