"""What a function returns becomes what the model reads."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from support.samples.texts import any_text
from support.tools.tool_calls import call, context

from sandbur import TaskComplete, ToolError, tool
from sandbur.actions.ports import ToolOutcome
from sandbur.actions.tools.functions.results import outcome_of
from sandbur.state.conversation.messages import Document, Image, Text

PICTURE = Image(media_type="image/png", data="AAAA")
PAPER = Document(name="a.pdf", media_type="application/pdf", data="AAAA")


class Model(BaseModel):
    size: int


@dataclass
class Point:
    x: int


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ("as it is\n", "as it is\n"),
        ("", "(an empty text)"),
        (None, "Done."),
        (3, "3"),
        (True, "true"),
        ({"ä": [1, None]}, '{"ä":[1,null]}'),
        ([], "[]"),
        ((1, "b"), '[1,"b"]'),
        (Model(size=1), '{"size":1}'),
        ([Model(size=1), Point(2)], '[{"size":1},{"x":2}]'),
        ({"at": date(2026, 1, 2), "colour": Colour.RED}, '{"at":"2026-01-02","colour":"red"}'),
        (float("nan"), "null"),
        (Text(text="said"), "said"),
        ([Text(text="one"), "two"], "one\ntwo"),
    ],
    ids=repr,
)
def test_a_result_is_text_or_json(result: Any, content: str):
    assert outcome_of(result, "act") == ToolOutcome("ok", content)


def test_images_and_documents_go_beside_the_text():
    found = outcome_of(["Two pages:", PICTURE, "and", PAPER], "act")
    assert found == ToolOutcome("ok", "Two pages:", blocks=(PICTURE, Text(text="and"), PAPER))
    assert outcome_of(PICTURE, "act") == ToolOutcome("ok", "[image/png]", blocks=(PICTURE,))
    assert outcome_of((PICTURE, {"page": 1}), "act").blocks == (PICTURE, Text(text='{"page":1}'))


def circle() -> Any:
    inner: list[Any] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    "result",
    [object(), {"a": object()}, b"\xff", {1: {2}, "b": len}, circle()],
    ids=["object", "object in a dict", "bytes", "set", "circle"],
)
def test_what_is_not_json_is_one_sentence_that_names_the_tool(result: Any):
    found = outcome_of(result, "act")
    assert found.outcome == "error"
    assert found.content.startswith("act ran to its end, but what it returned, ")
    assert "It was not run again" in found.content
    assert "\n" not in found.content


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | any_text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(any_text(max_size=5), JSON, max_size=3))
def test_any_json_comes_out_as_it_went_in(value: dict[str, Any]):
    assert json.loads(outcome_of(value, "act").content) == value


@tool
async def counted(to: int) -> AsyncIterator[str]:
    for number in range(to):
        yield f"{number} "


@tool
def counted_in_a_thread(to: int) -> Iterator[str]:
    for number in range(to):
        yield f"{number} "


@pytest.mark.parametrize("streaming", [counted, counted_in_a_thread])
async def test_a_stream_is_shown_as_it_comes_and_joined(streaming: Any):
    live: list[str] = []
    outcome = await call(streaming, context(live.append), to=3)
    assert live == ["0 ", "1 ", "2 "]
    assert outcome.content == "0 1 2 "
    assert (await call(streaming, to=0)).content == "(an empty text)"


async def test_a_stream_may_hold_more_than_text():
    @tool
    async def paint() -> AsyncIterator[Any]:
        yield "first "
        yield "second"
        yield PICTURE
        yield {"pixels": 4}

    outcome = await call(paint)
    assert outcome.content == "first second"
    assert outcome.blocks == (PICTURE, Text(text='{"pixels":4}'))


async def test_task_complete_ends_the_run_returned_raised_or_yielded():
    @tool
    async def returned() -> TaskComplete:
        return TaskComplete("All done.")

    @tool
    def raised() -> None:
        raise TaskComplete("All done.")

    @tool
    async def yielded() -> AsyncIterator[str | TaskComplete]:
        yield "working"
        yield TaskComplete("All done.")

    for made in (returned, raised, yielded):
        assert await call(made) == ToolOutcome("ok", "All done.", ends_run="All done.")


async def test_what_a_done_tool_returns_is_the_answer():
    @tool(done=True)
    def finish(answer: str) -> str:
        if not answer:
            raise ToolError("Say something.")
        return f"The answer: {answer}"

    assert finish.traits.is_done_tool
    assert (await call(finish, answer="42")).ends_run == "The answer: 42"
    assert (await call(finish, answer="")) == ToolOutcome("error", "Say something.")


async def test_an_outcome_is_taken_as_it_is():
    @tool
    def act() -> ToolOutcome:
        return ToolOutcome("denied", "Not today.")

    assert await call(act) == ToolOutcome("denied", "Not today.")
