"""`sandbur graph`: prints the state machine for a drawing tool, or its safety proof."""

from ...state.errors import UsageError
from ..cli.argument_types import one_of
from ..cli.grammar import Command, flag, switch
from ..terminal.terminal import put


class GraphCommand(Command):
    GROUPS = ()
    format: str = flag(
        "--format", "mermaid | dot", "mermaid", type=one_of(("mermaid", "dot")), metavar="FORMAT"
    )
    prove: bool = switch("--prove", "prove that nothing runs without an approval or a rule")

    def check(self) -> None:
        if self.prove and self.format != GraphCommand().format:
            raise UsageError("--format and --prove contradict each other.", "Keep one of them.")

    async def run(self) -> int:
        from ...agent.graph import dot, mermaid

        if self.prove:
            return await _prove()
        put(dot() if self.format == "dot" else mermaid(), end="")
        return 0


async def _prove() -> int:
    """Print the result of the proof; return 1 if a path reaches an effect without an approval or a rule."""
    from ...agent.graph import build_graph
    from ...agent.policy.graph_proof import prove

    proof = await prove(build_graph())
    looked_at = (
        f"{proof.actions} actions, {proof.transitions} transitions, {proof.states:,} states,"
        f" {proof.points:,} pairs of an action and a state, {proof.steps:,} steps between them"
    )
    if proof.holds:
        put(f"Proved: no path reaches an effect without an approval or a rule ({looked_at}).")
        return 0
    put(f"Not proved: {proof.problem}. This path does ({looked_at}):")
    for number, line in enumerate(proof.path, 1):
        put(f"{number:3}  {line}")
    return 1
