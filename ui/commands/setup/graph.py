"""`sandbur graph`: prints the state machine for a drawing program, or the graph proof."""

from ....agent.graph import build_graph, dot, mermaid
from ....agent.policy.graph_proof import prove
from ...terminal.terminal import put
from .command import GraphCommand


async def print_graph(command: GraphCommand) -> int:
    if command.prove:
        return await _prove()
    put(dot() if command.format == "dot" else mermaid(), end="")
    return 0


async def _prove() -> int:
    """Print the graph proof; return 1 if a path reaches an effect without an approval or a rule, else 0."""
    proof = await prove(build_graph())
    looked_at = (
        f"{proof.actions} actions, {proof.transitions} transitions, {proof.states:,} states,"
        f" {proof.points:,} pairs of an action and a state, {proof.steps:,} steps between them"
    )
    if proof.holds:
        put(f"Proved: no path reaches an effect without an approval or a rule ({looked_at}).")
        return 0
    put(f"Not proved: {proof.problem}. The path ({looked_at}):")
    for number, line in enumerate(proof.path, 1):
        put(f"{number:3}  {line}")
    return 1
