"""Tools of a server that speaks the Model Context Protocol, here the small one in `mcp_clock_server.py`.

Needs the extra `mcp` of Sandbur. The model is scripted, so no key is needed;
SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import asyncio
import os
import sys
from pathlib import Path

from sandbur import Agent, events
from sandbur.testing import ScriptedModel, ToolCall

# What a `.mcp.json` has under `mcpServers`; its path may stand here, too.
SERVERS = {
    "clock": {"command": sys.executable, "args": [str(Path(__file__).with_name("mcp_clock_server.py"))]},
}


async def main() -> None:
    script = [ToolCall("mcp__clock__difference", first="Asia/Kolkata", second="Asia/Tokyo"),
              "Tokyo is 3.5 hours ahead of Kolkata."]  # fmt: skip
    agent = Agent(
        os.environ.get("SANDBUR_MODEL") or ScriptedModel(script),
        mcp_servers=SERVERS,
        # A server's tools ask unless a rule allows them; `mcp__clock` allows all tools of this server.
        allow=["mcp__clock__difference"],
    )
    async with agent, agent.session() as session:
        for notice in session.notices:
            print("notice:", notice)
        # The program reads a resource of the server, and uses a prompt of the server as the message.
        [zones] = await session.servers.read_resource("clock", "clock://zones")
        first, second = str(getattr(zones, "text", "")).split()
        message = await session.servers.get_prompt("clock", "compare", {"first": first, "second": second})
        print(message)
        async for event in session.stream(message):
            if isinstance(event, events.ToolFinished):
                print(f"{event.tool}: {event.content}")
            elif isinstance(event, events.RunFinished):
                print(event.result)


if __name__ == "__main__":
    asyncio.run(main())
