"""`sandbur acp`: sessions in an editor that supports the Agent Client Protocol."""

from ...state.errors import ConfigError
from ...state.process.installation import make_install_command
from ..cli.grammar import Command


class AcpCommand(Command):
    GROUPS = ("run", "limits", "place")

    async def run(self) -> int:
        """Serve an editor. Raises `ConfigError` if the package of the protocol is not installed."""
        try:
            from ..acp.editor_server import serve
        except ModuleNotFoundError as missing:
            raise ConfigError(
                f"The package {missing.name} is not installed.",
                f"Install it with: {make_install_command('acp')}",
            ) from None
        return await serve(self)
