"""Names, descriptions, fixed arguments, versions and post-processing of functions as tools."""

import functools
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import ScriptedModel
from support.tools.tool_calls import call, context

from sandbur import Agent, TaskComplete, Tool, tool
from sandbur.actions.ports import BadArguments
from sandbur.state.errors import UsageError

FIND = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "region": {"type": "string", "enum": ["eu", "us"]}},
    "required": ["name", "region"],
}


def find(name: str, region: str = "us") -> str:
    """Find a customer."""
    return f"{name} in {region}"


def everything(**arguments: Any) -> str:
    return "{name} in {region}".format(**arguments)


PRESET = [
    tool(preset={"region": "eu"}, effect="read", name="find")(find),
    Tool.from_schema("find", FIND, find, preset={"region": "eu"}, effect="read"),
    Tool.from_schema("find", FIND, everything, preset={"region": "eu"}, effect="read"),
]


def test_a_text_in_the_decorator_is_the_description() -> None:
    @tool("Look it up.", effect="read")
    def look_up(word: str) -> str:
        return word

    assert look_up.spec.description == "Look it up."
    assert look_up("x") == "x"
    with pytest.raises(UsageError, match="two descriptions"):
        tool("one", description="two")


def test_the_name_is_the_name_that_the_function_says() -> None:
    def inner() -> None: ...

    inner.__name__ = "outer"
    assert tool(inner).spec.name == "outer"
    assert tool(functools.partial(find, region="eu")).spec.name == "find"


@pytest.mark.parametrize("made", PRESET)
async def test_a_fixed_argument_is_hidden_and_cannot_be_replaced(made: Tool[..., Any]) -> None:
    assert list(made.spec.parameters["properties"]) == made.spec.parameters["required"] == ["name"]
    assert (await call(made, context(), name="Ada")).content == "Ada in eu"
    assert made.subject(made.parse('{"name": "Ada"}')) == '{"name":"Ada","region":"eu"}'
    with pytest.raises(BadArguments, match=r'there is no argument "region"\. Expected: name \(string\)\.'):
        made.parse('{"name": "Ada", "region": "us"}')


@pytest.mark.parametrize(
    ("preset", "problem"),
    [
        ({"place": "eu"}, "has no argument `place`, which its preset sets"),
        ({"region": "asia"}, "its preset does not fit: region"),
        ({"region": object()}, "is not JSON"),
    ],
)
def test_a_preset_that_does_not_fit_is_an_error_of_the_program(preset: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        _ = Tool.from_schema("find", FIND, find, preset=preset).spec


async def test_what_a_function_returned_is_processed_before_the_model_reads_it() -> None:
    async def count(found: list[str]) -> str:
        return f"{len(found)} found"

    def shout(text: str) -> str:
        return text.upper()

    @tool(effect="read", postprocess=count)
    def search() -> list[str]:
        return ["a", "b"]

    @tool(effect="read", postprocess=shout)
    def speak() -> Iterator[str]:
        yield "he"
        yield "llo"

    @tool(postprocess=shout)
    def end() -> TaskComplete:
        return TaskComplete("the end")

    assert (await call(search)).content == "2 found"
    assert (await call(speak)).content == "HELLO"
    assert (await call(end)).ends_run == "the end"


def agent_of(folder: Path, model: Any, made: Tool[..., Any]) -> Agent[str]:
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
    return Agent(model, tools=[made], store=f"sqlite:///{folder}/runs.db", cwd=folder, env=env)


async def test_version_and_fixed_arguments_are_in_the_journal_and_the_trace(tmp_path: Path) -> None:
    made = tool(name="find", effect="read", preset={"region": "eu"}, version="2.1")(find)
    model = ScriptedModel([("find", {"name": "Ada"})], "Found.")
    await agent_of(tmp_path, model, made).run("go")
    with sqlite3.connect(tmp_path / "runs.db") as store:
        calls = [(move, json.loads(body)) for move, body in store.execute("SELECT move, body FROM calls")]
        [began] = [json.loads(body) for (body,) in store.execute("SELECT body FROM traces LIMIT 1")]
    for move, body in calls:
        if move in ("proposed", "started"):
            assert (body["version"], json.loads(body["preset"])) == ("2.1", {"region": "eu"})
    assert [move for move, _ in calls] == ["proposed", "started", "finished"]
    assert began["conditions"]["versions"] == {"find": "2.1"}


async def test_an_approval_does_not_outlast_another_preset_or_version(tmp_path: Path) -> None:
    def made(**options: Any) -> Tool[..., Any]:
        return tool(name="find", **options)(find)

    model = ScriptedModel([("find", {"name": "Ada"})], "Found.")
    for first, later in (
        ({"preset": {"region": "eu"}}, {"preset": {"region": "us"}}),
        ({}, {"version": "2"}),
    ):
        result = await agent_of(tmp_path, ScriptedModel([("find", {"name": "Ada"})]), made(**first)).run("go")
        [pending] = result.pending
        assert ("eu" in pending.reason) is bool(first)
        async with agent_of(tmp_path, model, made(**later)).session(result.session_id) as session:
            again = await session.approve()
        assert again.status == "needs_approval"
        assert "not the call that was approved" in again.pending[0].reason
