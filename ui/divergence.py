"""The first difference between a recorded run and this program, as a test reports it."""

from typing import TYPE_CHECKING

from ui.sanitize import one_line

if TYPE_CHECKING:
    from agent.replay.departure import Divergence

_MAX_LINES = 80


def told(name: str, found: "Divergence") -> str:
    """Return a few lines that say which step of the recording `name` differs, and how."""
    shown = [f"  {one_line(line)}" for line in found.lines[:_MAX_LINES]]
    left_out = len(found.lines) - len(shown)
    more = [f"  ({left_out} lines more)"] if left_out > 0 else []
    but_tools = "pass ignore_tools=True for tools, or " if found.kind == "request" else ""
    return "\n".join(
        [
            f"{name}: step {found.seq} ({one_line(found.action)}), {found.kind}: {one_line(found.summary)}",
            *shown,
            *more,
            f"- is recorded, + is this program. If the change is wanted, {but_tools}record the run anew.",
        ]
    )
