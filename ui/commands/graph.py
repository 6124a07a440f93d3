"""`sandbur graph`: the state machine as text for a drawing tool."""

from dataclasses import dataclass

from ..argument_types import one_of
from ..grammar import Command, flag
from ..terminal.terminal import put


@dataclass(frozen=True, kw_only=True)
class GraphCommand(Command):
    GROUPS = ()
    format: str = flag(
        "--format", "mermaid | dot", "mermaid", type=one_of(("mermaid", "dot")), metavar="FORMAT"
    )

    async def run(self) -> int:
        from ...agent.graph import dot, mermaid

        put(dot() if self.format == "dot" else mermaid(), end="")
        return 0
