"""`sandbur mcp serve`: lets another agent start and watch runs through MCP, over stdin and stdout."""

from ....state.errors import ConfigError
from ....state.process.installation import make_install_command
from ...cli.open_session import open_runtime
from .command import McpCommand
from .served_runs import ServedRuns


async def serve(command: McpCommand) -> int:
    """Answer requests until stdin ends. Raises `ConfigError` if the package `mcp` is not installed."""
    try:
        from .run_tools import serve_runs
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"The package {missing.name} is not installed.", f"Install it with: {make_install_command('mcp')}"
        ) from None

    async with open_runtime(command) as runtime:
        runs = ServedRuns(runtime)
        try:
            await serve_runs(runs, command.allow_decisions)
        finally:
            await runs.aclose()
    return 0
