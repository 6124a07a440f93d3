"""An agent with the tools of an MCP server; the server is this file, too.

    python examples/tool_server.py "anthropic/claude-sonnet-5-5" "Which book by Le Guin is the shortest?"

Without the name of a model the example uses a scripted model, so that it runs anywhere.
"""

import sys

from sandbur import Agent, Model
from sandbur.testing import ScriptedModel, ToolCall

BOOKS = {"The Word for World Is Forest": 128, "The Lathe of Heaven": 184, "The Dispossessed": 341}


def serve() -> None:
    """Be the server: one tool, over standard input and output."""
    from mcp.server import MCPServer

    server = MCPServer("library", log_level="CRITICAL")

    @server.tool()
    def list_books(longest_pages: int = 1000) -> dict[str, int]:
        """List the books of the library: title and pages."""
        return {title: pages for title, pages in BOOKS.items() if pages <= longest_pages}

    server.run()


def main(model: "str | Model", question: str) -> None:
    servers = {"library": {"command": sys.executable, "args": [__file__, "serve"], "startup_timeout_s": 60}}
    agent = Agent(model, mcp_servers=servers, allow=["mcp__library"], store="sqlite:///library.db")
    print(agent.run_sync(question).output)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    elif len(sys.argv) == 3:
        main(sys.argv[1], sys.argv[2])
    else:
        call = ToolCall("mcp__library__list_books", longest_pages=150)
        main(ScriptedModel([call, "The Word for World Is Forest."]), "Which is the shortest?")
