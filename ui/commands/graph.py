"""`sandbur graph`: the state machine as text for a drawing tool."""

from ..arguments import Arguments
from ..terminal.terminal import put


async def print_graph(arguments: Arguments) -> int:
    from ...agent.graph import dot, mermaid

    put(dot() if arguments.format == "dot" else mermaid(), end="")
    return 0
