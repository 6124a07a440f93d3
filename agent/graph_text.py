"""The graph as a picture in text, and as an answer to: what comes next?"""

from agent.graph import ACTIONS, TRANSITIONS
from state.application import ApplicationState


def mermaid() -> str:
    """Return the graph as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> prompt"]
    lines += [f"    {start} --> {end}: {condition.name}" for start, end, condition in TRANSITIONS]
    return "\n".join(lines) + "\n"


def dot() -> str:
    """Return the graph in Graphviz' language."""
    nodes = [f'    {name} [shape=box, style="rounded"];' for name in ACTIONS]
    edges = [f'    {start} -> {end} [label="{condition.name}"];' for start, end, condition in TRANSITIONS]
    return "\n".join(["digraph sandbur {", *nodes, *edges, "}"]) + "\n"


def next_action(position: str | None, state: ApplicationState) -> str:
    """Return the action that follows `position` (None: nothing ran yet)."""
    return next(
        (end for start, end, rule in TRANSITIONS if start == position and rule.holds(state)), "prompt"
    )
