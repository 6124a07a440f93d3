"""What the page of features names as ours exists, and no feature is named twice."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.places import ROOT

import sandbur
from sandbur import events, testing
from sandbur.actions.tools.functions.options import ToolKeywords
from sandbur.agent.sdk.arguments import AgentArguments
from sandbur.agent.sdk.runs.request import NewRunArguments, RunArguments
from sandbur.agent.sdk.stored_sessions import SessionArguments

PAGE = (ROOT / "docs" / "features.md").read_text("utf-8")
TABLES = [line for line in PAGE.splitlines() if line.startswith("| ") and "| here |" not in line]
ROWS = [line.split("|")[1:3] for line in TABLES]
CODES = sorted({code for _, here in ROWS for code in re.findall(r"`([^`]+)`", here)})
OBJECTS: dict[str, Any] = {
    "sandbur": sandbur, "events": events, "agent": sandbur.Agent, "session": sandbur.AgentSession,
    "result": sandbur.RunResult, "message": sandbur.Message, "Agent": sandbur.Agent,
    "Message": sandbur.Message, "Tool": sandbur.Tool,
}  # fmt: skip
NOT_PYTHON = ("PROVIDER",)
RUN = (RunArguments, NewRunArguments, SessionArguments)


def names(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


ARGUMENTS = {
    "Agent": names(sandbur.Agent) | set(AgentArguments.__annotations__),
    "run": {*names(sandbur.Agent.run), *(name for kind in RUN for name in kind.__annotations__)},
    "agent.sessions": names(sandbur.Agent.sessions),
    "tool": {*names(sandbur.tool), *ToolKeywords.__annotations__},
    "Limits": names(sandbur.Limits),
    "Compaction": names(sandbur.Compaction),
    "Flow": names(sandbur.Flow),
}


def missing_names(code: str) -> Iterator[str]:
    """Yield the names in a piece of code that are not there."""
    for dotted in re.findall(rf"\b(?:{'|'.join(OBJECTS)})(?:\.[a-z]\w*)+", code, re.I):
        root, *names = dotted.split(".")
        found = OBJECTS.get(root)
        for name in names if found is not None else ():
            fields = {**getattr(found, "__dataclass_fields__", {}), **getattr(found, "model_fields", {})}
            if name not in fields and not hasattr(found, name):
                yield dotted
                break
            found = None if name in fields else getattr(found, name)
            if found is None or isinstance(found, property):
                break  # what a value has is not looked up
    named = re.match(r"[A-Z]\w+", code)
    places = (sandbur, events, testing)
    if named and named[0] not in NOT_PYTHON and not any(hasattr(place, named[0]) for place in places):
        yield named[0]
    for function, given in re.findall(r"([\w.]+)\(([^()]*)\)", code):
        for argument in re.findall(r"(\w+)=", given):
            if argument not in ARGUMENTS.get(function, {argument}):
                yield f"{function}({argument}=)"


@pytest.mark.parametrize("code", CODES)
def test_what_the_page_names_exists(code: str) -> None:
    assert list(missing_names(code)) == []


def test_a_name_that_does_not_exist_is_found() -> None:
    wrong = ("agent.observes(x)", "Agent(colour=)", "Nobody(x=1)", "events.Nothing", "session.usage.x.y")
    assert [bool(list(missing_names(code))) for code in wrong] == [True, True, True, True, False]


def test_a_feature_has_one_line() -> None:
    features = [feature.strip() for feature, _ in ROWS]
    assert len(features) == len(set(features)) > 70
