"""The tools that only flows call: one request, one function, or one Burr graph."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, cast

from ....actions.ports import Tool, ToolTraits
from ....actions.tools.functions.function_tool import FunctionTool
from ....actions.tools.functions.options import make_options
from ....actions.tools.functions.results import ToolError
from ....actions.tools.http.table_parser import endpoint_of
from ....actions.tools.http.tables import HttpToolTable, parse_tables
from ....actions.tools.http.template import Unfillable, node_of, references_in
from ....actions.tools.http.tool import HttpTool
from ....actions.turn.flows.flow import Flow

_PARTS = ("url", "headers", "query", "body", "form")
_MOST_STEPS = 1000
"""The most steps of one Burr graph."""


class FlowRequest(HttpTool):
    """The request of a flow."""

    def __init__(self, flow: Flow, source: str, env: Mapping[str, str]) -> None:
        """Raises `ConfigError` for a request that does not fit."""
        super().__init__(endpoint_of(flow.target, _read_table(flow, source), source), env)
        self.traits = replace(self.traits, is_of_flow=True)


class FlowFunction(FunctionTool[..., Any]):
    """The function of a flow."""

    @property
    def traits(self) -> ToolTraits:
        return replace(super().traits, is_of_flow=True)


def check_request(flow: Flow, source: str) -> None:
    """Raise `ConfigError` for a request that does not fit."""
    if flow.http is not None:
        endpoint_of(flow.target, _read_table(flow, source), source)


def make_flow_tool(flow: Flow, source: str, env: Mapping[str, str] | None = None) -> Tool | None:
    """Return the tool that the flow adds; None if it calls a tool of the session, or none."""
    if flow.http is not None:
        return FlowRequest(flow, source, os.environ if env is None else env)
    if flow.run is None and flow.graph is None:
        return None
    function = flow.run if flow.run is not None else _run_graph(cast("Callable[..., Any]", flow.graph))
    options = make_options(flow.target, flow.description or f"The flow {flow.name}.", effect=flow.effect)
    return FlowFunction(function, options, {})


def list_parameters(tool: Tool) -> Sequence[str]:
    """Return the names of the parts of a message that the tool of a flow takes."""
    properties: Mapping[str, Any] = tool.spec.parameters.get("properties", {})
    return tuple(properties)


def _read_table(flow: Flow, source: str) -> HttpToolTable:
    """Return the table of an HTTP tool: each placeholder is a parameter of type text."""
    given = dict(flow.http or {})
    given.setdefault("description", flow.description or f"The flow {flow.name}.")
    names: dict[str, Any] = {}
    for part in (given[key] for key in _PARTS if given.get(key) is not None):
        try:
            found = references_in(node_of(part))
        except Unfillable:
            continue  # the table's own check says what is wrong
        names |= {one.name: {"type": "string"} for one, _ in found if one.source == "parameter"}
    given.setdefault("parameters", names)
    return parse_tables("flows", {f"{flow.name}.http": given}, HttpToolTable, source)[f"{flow.name}.http"]


def _run_graph(build: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the parameters of `build` that runs the application to its end."""

    @wraps(build)
    async def run_to_end(*args: Any, **parts: Any) -> Any:
        built = build(*args, **parts)
        if inspect.isawaitable(built):
            built = await built
        application = built.build() if hasattr(built, "build") else built
        steps = 0
        while application.has_next_action():
            steps += 1
            if steps > _MOST_STEPS:
                raise ToolError(f"The graph did not end within {_MOST_STEPS} steps.")
            await application.astep()
        return _read_answer(application.state.get_all())

    return run_to_end


def _read_answer(state: Mapping[str, Any]) -> Any:
    """Return the field `answer` of the last state, or all its own fields as JSON."""
    own = {name: value for name, value in state.items() if not name.startswith("__")}
    return own["answer"] if "answer" in own else json.dumps(own, ensure_ascii=False, default=str)
