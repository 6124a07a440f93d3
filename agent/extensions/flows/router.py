"""Routes messages to flows: the first whose trigger matches, in the order of their priority."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ....actions.ports import Tool
from ....actions.ports.message_router import RoutedMessage, refuse_message
from ....actions.ports.sub_agents import make_task_arguments
from ....actions.turn.bugs_logged import BugsLogged
from ....actions.turn.commands import FLOW_COMMAND, parse_command
from ....actions.turn.flows.flow import WHOLE_MESSAGE, Flow
from ....actions.turn.flows.flow_templates import fill_structure, fill_text
from ....actions.turn.flows.linear_regex import StepBudget
from ....actions.turn.flows.triggers import TriggerMatch
from ....state.application import FlowMatch
from .flow_tools import list_parameters

_MOST_NAMED = 20


class FlowRouter:
    """Implements `actions.ports.MessageRouter`."""

    def __init__(self, flows: Sequence[Flow], tools: Mapping[str, Tool] | None = None) -> None:
        """`tools` are those that the flows bring, by name."""
        self.flows = tuple(sorted(flows, key=lambda one: -one.priority))
        self._tools: Mapping[str, Tool] = {} if tools is None else tools

    async def route(self, text: str) -> RoutedMessage | None:
        typed = parse_command(text) if text.lstrip().startswith("/") else None
        if typed is not None:
            return await self._start_by_name(*typed[1].partition(" ")[::2]) if _is_flow(typed[0]) else None
        budget = StepBudget()
        for flow in self.flows:
            found: TriggerMatch | None = None
            with BugsLogged(f"the trigger of the flow {flow.name}", stops_all=True):
                found = await flow.triggers.match(text, budget)
            if found is not None:
                return self._make_routed(flow, found, text)
        return None

    async def _start_by_name(self, name: str, text: str) -> RoutedMessage:
        """Start the flow of this name. Its text may match a trigger; otherwise it is the part `rest`."""
        flow = next((one for one in self.flows if one.name == name), None)
        if flow is None:
            names = ", ".join(one.name for one in self.flows[:_MOST_NAMED]) or "none"
            what = f"There is no flow {name[:64]!r}." if name else "`/flow` takes the name of a flow."
            return refuse_message(name, f"{what} There are: {names}.")
        text = text.strip()
        found: TriggerMatch | None = None
        with BugsLogged(f"the trigger of the flow {flow.name}", stops_all=True):
            found = await flow.triggers.match(text, StepBudget())
        values = {"rest": text, **({} if found is None else found.values)}
        if missing := sorted(flow.needed_names - values.keys()):
            needed = ", ".join(missing)
            return refuse_message(
                name, f"The flow {name} needs {needed}: write it in the form of one of its triggers."
            )
        return self._make_routed(flow, TriggerMatch("its name, after /flow", values), text)

    def _make_routed(self, flow: Flow, found: TriggerMatch, text: str) -> RoutedMessage:
        values = {"message": text, **found.values}
        match = FlowMatch(
            name=flow.name,
            kind=flow.kind,
            why=found.why,
            values={name: values[name] for name in sorted(flow.answer_names & values.keys())},
            target=flow.target,
            answer=flow.reply or flow.answer,
            on_failure=flow.on_failure,
            failure=flow.failure,
        )
        return RoutedMessage(
            match,
            arguments=json.dumps(self._fill_arguments(flow, values), ensure_ascii=False),
            text=fill_text(flow.instructions, values),
            steps=tuple(fill_text(step, values) for step in flow.plan),
            goal=fill_text(flow.goal, values),
        )

    def _fill_arguments(self, flow: Flow, values: Mapping[str, str]) -> dict[str, object]:
        """Return the arguments of the flow's call."""
        if flow.kind == "agent":
            prompt = fill_text(flow.prompt or WHOLE_MESSAGE, values)
            return make_task_arguments(flow.agent, prompt, flow.description or f"the flow {flow.name}")
        if flow.kind != "tool":
            return {}
        own = self._tools.get(flow.target)
        if flow.tool or own is None:
            return fill_structure(dict(flow.arguments), values)
        return {name: values[name] for name in list_parameters(own) if name in values}


def _is_flow(command: str) -> bool:
    return command.lower() == FLOW_COMMAND
