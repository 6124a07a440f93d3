"""`/flow`: lists the flows of the session, or starts one by its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....actions.turn.flows.flow import Flow
from ....agent.extensions.flows.router import FlowRouter
from ...chat.slash.command import DONE, SlashContext, SlashOffer, SlashResult, tell
from ...terminal.text.sanitize import one_line


async def start_flow(context: SlashContext, words: str) -> SlashResult:
    """List the flows, or start the flow with the given name; the words after the name are its input."""
    if words.strip():
        await context.send(f"/flow {words}")
        return DONE
    flows = _find_flows(context)
    lines = [f"{flow.name:<24} {flow.description or flow.describe()}" for flow in flows]
    tell(context, *map(one_line, lines or ["There are no flows here."]))
    return DONE


def list_flow_choices(context: SlashContext | None) -> Iterator[SlashOffer]:
    for flow in () if context is None else _find_flows(context):
        yield SlashOffer(flow.name, one_line((flow.description or flow.describe())[:80]))


def _find_flows(context: SlashContext) -> Sequence[Flow]:
    """Return the flows of the session in the order in which they are tried."""
    router = context.session.ports.router
    routers = () if router is None else getattr(router, "routers", ())
    return tuple(flow for one in routers if isinstance(one, FlowRouter) for flow in one.flows)
