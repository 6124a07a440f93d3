"""The flows of an agent file: checked with file, line and key, and made ready for `Agent(flows=...)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....actions.turn.flows import flow as core
from ....actions.turn.flows.phrase import parse_phrase
from ....state.errors import UsageError
from .document import ParsedFile
from .schema import Flow

_RENAMED = {"trigger": "phrase", "prompt": "instructions"}
"""Keys of an agent file -> arguments of `sandbur.Flow`."""


def prepare_flows(flows: Sequence[Flow], document: ParsedFile) -> tuple[core.Flow, ...]:
    """Return the flows; raises `ConfigError` with file, line and key."""
    names: set[str] = set()
    for number, flow in enumerate(flows):
        if flow.name in names:
            place = ("flows", number, "name")
            document.refuse(place, f"is the name of another flow, too: {flow.name}", "Rename one.")
        names.add(flow.name)
        _check_phrases(flow, number, document)
    return tuple(_make_flow(flow, number, document) for number, flow in enumerate(flows))


def _check_phrases(flow: Flow, number: int, document: ParsedFile) -> None:
    for index, text in enumerate(flow.phrases):
        place = ("flows", number, "trigger", *(() if isinstance(flow.trigger, str) else (index,)))
        try:
            phrase = parse_phrase(text)
        except ValueError as problem:
            document.refuse(place, str(problem), "Write the words that start the flow.")
        if lacking := core.select_parts(flow.texts) - {"message"} - phrase.names:
            name = min(lacking)
            document.refuse(place, f"has no {{{name}}}, which the flow uses", f"Write {{{name}}} in it.")


def _make_flow(flow: Flow, number: int, document: ParsedFile) -> core.Flow:
    given: dict[str, Any] = {
        _RENAMED.get(key, key): value for key, value in flow if value not in (None, "", [], {})
    }
    if flow.http is not None:
        request = {key: value for key, value in flow.http.model_dump().items() if value not in (None, {})}
        given["http"] = request
        given["http"]["query"] = given["http"].pop("query_params", {})
    try:
        return core.Flow(**given)
    except UsageError as problem:
        told = problem.message.removeprefix(f"The flow {flow.name}: ").rstrip(".")
        document.refuse(("flows", number), f"does not fit: {told}", problem.hint)
