"""A small tool server (MCP), which `mcp_tools.py` starts. It does not depend on Sandbur.

Needs `pip install mcp`.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

from mcp.server import MCPServer

server = MCPServer("clock")


@server.tool()
def difference(first: str, second: str) -> str:
    """Say how many hours the clocks of two time zones are apart, as in "Europe/Berlin"."""
    now = datetime.now(ZoneInfo("UTC"))
    offsets = [now.astimezone(ZoneInfo(zone)).utcoffset() for zone in (first, second)]
    seconds = [offset.total_seconds() for offset in offsets if offset is not None]
    return f"{(seconds[1] - seconds[0]) / 3600:g} hours"


@server.resource("clock://zones", mime_type="text/plain")
def zones() -> str:
    """The most requested time zones."""
    return "Asia/Kolkata Asia/Tokyo"


@server.prompt()
def compare(first: str, second: str) -> str:
    """Ask how far apart two clocks are."""
    return f"How far apart are the clocks of {first} and {second}?"


if __name__ == "__main__":
    server.run()
