"""`sandbur graph`: the state machine as text for a drawing tool."""

from ui.arguments import Arguments
from ui.terminal import put


async def print_graph(arguments: Arguments) -> int:
    from agent.graph_text import dot, mermaid

    put(dot() if arguments.format == "dot" else mermaid(), end="")
    return 0
