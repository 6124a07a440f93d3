"""Triggers and templates: which messages start a flow, and what comes of the parts of a message."""

from collections.abc import Mapping
from typing import Any

import pytest

from sandbur import Flow, flow
from sandbur.actions.turn.flows.flow_templates import BadResult, fill_answer, fill_failure, fill_structure
from sandbur.actions.turn.flows.linear_regex import StepBudget
from sandbur.actions.turn.flows.triggers import Triggers, make_triggers
from sandbur.state.application import FlowMatch
from sandbur.state.errors import UsageError

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"exact": "hi"}, "exactly one of reply"),
    ({"exact": "hi", "reply": "a", "tool": "b"}, "it has reply, tool"),
    ({"reply": "a"}, "needs a trigger"),
    ({"exact": " ", "reply": "a"}, "a trigger is empty"),
    ({"regex": "a(", "reply": "a"}, "is not possible: a group is not closed"),
    ({"regex": "a*", "reply": "a"}, "matches every message"),
    ({"exact": "hi", "reply": "{id}"}, "uses {id}"),
    ({"exact": "hi", "prefix": "a", "reply": "{rest}"}, "uses {rest}"),
    ({"exact": "hi", "command": "/mode yolo"}, "cannot run /mode yolo"),
    ({"exact": "hi", "reply": "a", "answer": "b"}, "belong to tool"),
    ({"exact": "hi", "reply": "a", "goal": "b"}, "`goal` needs `plan`"),
]


async def match(triggers: Triggers, text: str) -> dict[str, str] | None:
    found = await triggers.match(text, StepBudget())
    return None if found is None else dict(found.values)


async def test_exact_texts_ignore_case_and_blanks() -> None:
    triggers = make_triggers(exact=["Opening Hours"])
    assert await match(triggers, "  opening   HOURS? ") == {}
    assert await match(triggers, "opening hours today") is None


async def test_a_prefix_is_made_of_whole_words_and_gives_the_rest() -> None:
    triggers = make_triggers(prefix=["weather in"])
    assert await match(triggers, "Weather  in Rome, please") == {"rest": "Rome, please"}
    assert await match(triggers, "weather inside") is None
    assert await match(triggers, "weather") is None
    assert await match(make_triggers(prefix=["查询"]), "查询订单") == {"rest": "订单"}


async def test_a_function_decides_and_gives_parts() -> None:
    async def find(text: str) -> Mapping[str, str] | None:
        return {"town": "Rome"} if "Rome" in text else None

    triggers = make_triggers(function=find)
    assert await match(triggers, "to Rome") == {"town": "Rome"}
    assert await match(triggers, "home") is None
    assert await match(make_triggers(function=lambda text: text == "x"), "x") == {}


@pytest.mark.parametrize(("given", "why"), WRONG)
def test_a_flow_that_cannot_work_is_refused_with_a_reason(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why.replace("{", r"\{").replace("(", r"\(").replace("*", r"\*")):
        Flow("f", **given)


def test_a_decorated_function_is_a_flow() -> None:
    @flow(prefix="double")
    def double(rest: str) -> str:
        """Double a text."""
        return rest * 2

    assert (double.name, double.kind, double.description) == ("double", "tool", "Double a text.")


def test_a_decorator_of_flows_gives_every_function_all_of_its_options() -> None:
    make = flow(prefix="double", description="Double.", priority=3)

    def one(rest: str) -> str:
        return rest * 2

    def other(rest: str) -> str:
        """Say it twice."""
        return f"{rest} {rest}"

    made = [make(one), make(other), make(one)]
    assert [(each.name, each.description, each.priority) for each in made] == [
        ("one", "Double.", 3), ("other", "Double.", 3), ("one", "Double.", 3)
    ]  # fmt: skip


def answer(template: str, result: str, **values: str) -> str:
    return fill_answer(FlowMatch(name="f", kind="tool", why="", answer=template, values=values), result)


def test_an_answer_takes_what_a_path_leads_to() -> None:
    body = 'HTTP 200\nlink: <x>\n{"items": [{"name": "tea"}], "n": 2}'
    assert answer("{id}: {result.items.0.name}, {result.n}", body, id="7") == "7: tea, 2"
    assert answer("", "HTTP 200\nplain") == "plain"
    assert answer("{match.id} {other}", "x", id="{result}") == "{result} {other}"


def test_a_result_without_what_the_answer_needs_is_a_failure() -> None:
    with pytest.raises(BadResult, match=r"no `status`"):
        answer("{result.status}", "HTTP 200\nnot json")
    found = FlowMatch(name="f", kind="tool", why="", failure="Sorry, {id}: {error}", values={"id": "7"})
    assert fill_failure(found, "down") == "Sorry, 7: down"


def test_arguments_are_filled_as_values_and_never_as_json() -> None:
    filled = fill_structure({"a": ["{x}", 3], "b": {"c": "{x}-{x}"}}, {"x": '", "evil": "'})
    assert filled == {"a": ['", "evil": "', 3], "b": {"c": '", "evil": "-", "evil": "'}}
