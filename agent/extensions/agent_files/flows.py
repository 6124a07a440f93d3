"""Checks the flows of an agent file, and converts them for `Agent(flows=...)`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ....actions.turn.flows.flow import Flow, select_parts
from ....actions.turn.flows.phrase import parse_phrase
from ....state.errors import UsageError
from .document import ParsedFile
from .schema import FlowEntry

_RENAMED = {"trigger": "phrase"}
"""Keys of an agent file -> arguments of `sandbur.Flow`."""


def prepare_flows(
    flows: Sequence[FlowEntry], document: ParsedFile, tools: Collection[str], servers: tuple[str, ...]
) -> tuple[Flow, ...]:
    """Return the flows; raises `ConfigError` with file, line and key.

    `tools` are those of the agent, `servers` are the prefixes of the names of server tools.
    """
    names: set[str] = set()
    for number, flow in enumerate(flows):
        if flow.name in names:
            place = ("flows", number, "name")
            document.refuse(place, f"is the name of another flow, too: {flow.name}", "Rename one.")
        names.add(flow.name)
        _check_phrases(flow, number, document)
        if flow.tool is not None and flow.tool not in tools and not flow.tool.startswith(servers):
            known = f"There are: {', '.join(sorted(tools)) or 'none'}."
            document.refuse(("flows", number, "tool"), f"names no tool of this agent: {flow.tool}", known)
    return tuple(_make_flow(flow, number, document) for number, flow in enumerate(flows))


def _check_phrases(flow: FlowEntry, number: int, document: ParsedFile) -> None:
    for index, text in enumerate(flow.phrases):
        place = ("flows", number, "trigger", *(() if isinstance(flow.trigger, str) else (index,)))
        try:
            phrase = parse_phrase(text)
        except ValueError as problem:
            document.refuse(place, str(problem), "Write the words that start the flow.")
        if lacking := select_parts(flow.texts) - {"message"} - phrase.names:
            name = min(lacking)
            document.refuse(place, f"has no {{{name}}}, which the flow uses", f"Write {{{name}}} in it.")


def _make_flow(flow: FlowEntry, number: int, document: ParsedFile) -> Flow:
    renamed = _RENAMED if flow.agent is not None else {**_RENAMED, "prompt": "instructions"}
    given: dict[str, Any] = {
        renamed.get(key, key): value for key, value in flow if value not in (None, "", [], {})
    }
    if flow.http is not None:
        request = {key: value for key, value in flow.http.model_dump().items() if value not in (None, {})}
        given["http"] = request
        given["http"]["query"] = given["http"].pop("query_params", {})
    try:
        return Flow(**given)
    except UsageError as problem:
        reason = problem.message.removeprefix(f"The flow {flow.name}: ").rstrip(".")
        document.refuse(("flows", number), f"does not fit: {reason}", problem.hint)
