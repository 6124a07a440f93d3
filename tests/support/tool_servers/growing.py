"""A tool server that adds a tool while it runs, and that has a resource."""

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

SERVER = MCPServer("growing", log_level="CRITICAL")


def bark(times: int = 1) -> str:
    """Bark."""
    return "woof " * times


@SERVER.tool()
async def grow(ctx: Context) -> str:
    """Learn to bark."""
    SERVER.add_tool(bark)
    await ctx.notify_tools_changed()
    return "grown"


@SERVER.resource("notes://today", description="The notes of today.", mime_type="text/plain")
def notes() -> str:
    return "It rained."


@SERVER.resource("notes://{day}")
def notes_of(day: str) -> str:
    """The notes of a day."""
    return f"On {day} it rained."


if __name__ == "__main__":
    SERVER.run()
