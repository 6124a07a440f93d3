"""Sessions with more tools than are told: what the model knows of them, and how it finds what it needs."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from sandbur import Agent, events
from sandbur.actions.ports import BadArguments, ToolContext, ToolOutcome, ToolSpec, ToolTraits
from sandbur.agent.extensions.active_tools.search_tools import WordIndex
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.state.errors import ConfigError
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

VERBS = ("create", "delete", "list", "update", "send")
NOUNS = ("invoice", "customer", "ticket", "parcel", "server", "disk", "report")


class Numbered:
    """One of very many tools."""

    effect: Any = "read"

    def __init__(self, number: int, **traits: Any) -> None:
        verb, noun = VERBS[number % len(VERBS)], NOUNS[number % len(NOUNS)]
        said = f"{verb.title()} a {noun} of the kind {number}. It says more than fits into a line of a list."
        properties = {"amount": {"type": "integer"}}
        parameters = {
            "type": "object",
            "properties": properties,
            "required": [],
            "additionalProperties": False,
        }
        self.spec = ToolSpec(f"{verb}_{noun}_{number}", said, parameters)
        self.traits = ToolTraits(**traits)

    def parse(self, arguments: str) -> Any:
        try:
            return json.loads(arguments)
        except ValueError as error:
            raise BadArguments(str(error)) from None

    def effect_of(self, arguments: Any) -> Any:
        return self.effect

    def subject(self, arguments: Any) -> str:
        return ""

    def paths(self, arguments: Any) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        return ToolOutcome("ok", f"{self.spec.name} ran")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}


def many(count: int) -> list[Any]:
    return [Numbered(number) for number in range(count)]


def names(model: ScriptedModel, number: int = -1) -> list[str]:
    return [spec.name for spec in model.requests[number].tools]


def told(model: ScriptedModel) -> list[str]:
    return [result.content for message in model.requests[-1].messages for result in message.tool_results]


async def run(env: dict[str, str], tools: list[Any], *replies: Any, **options: Any) -> ScriptedModel:
    model = ScriptedModel([*replies, "done"])
    await Agent(model, tools=tools, env=env, **options).run("go", session_id="s1")
    return model


def search(query: str, **more: Any) -> ToolCall:
    return ToolCall("search_tools", query=query, **more)


async def test_up_to_the_limit_all_tools_are_told_and_beyond_it_a_search(env: dict[str, str]) -> None:
    model = await run(env, many(40))
    assert "search_tools" not in names(model)
    assert len(names(model)) == 40 + 4
    model = await run({**env, "SANDBUR_HOME": f"{env['SANDBUR_HOME']}2"}, many(41))
    assert names(model) == ["search_tools", "read_result", "start_plan", "submit_plan", "finish_step"]
    listed = model.requests[0].tools[0].description
    assert listed.count("\n- ") == 41
    assert "\n- delete_invoice_21: Delete a invoice of the kind 21." in listed


async def test_what_is_found_can_be_called_and_stays(env: dict[str, str]) -> None:
    model = await run(
        env,
        many(60),
        search("get rid of invoices: delete", limit=2),
        ToolCall("delete_invoice_21"),
        max_listed_tools=50,
    )
    assert told(model)[0].splitlines()[0] == "- delete_invoice_21: Delete a invoice of the kind 21."
    assert names(model, 1) == names(model, 2) == [*names(model, 0), "delete_invoice_21", "delete_invoice_56"]
    assert told(model)[1] == "delete_invoice_21 ran"


async def test_a_search_that_finds_nothing_new_changes_nothing(env: dict[str, str]) -> None:
    agent = Agent(
        ScriptedModel([search("delete invoice", limit=1)] * 2 + [search("zzz"), "done"]),
        tools=many(60),
        env=env,
    )
    seen = [
        event
        async for event in agent.stream(
            "go",
        )
        if isinstance(event, events.ToolsChanged)
    ]
    assert seen == [events.ToolsChanged(added=("delete_invoice_21",))]


async def test_of_more_than_the_limit_the_newest_stay(env: dict[str, str]) -> None:
    replies = [search(f"{verb} {noun}", limit=1) for verb in VERBS for noun in ("invoice", "disk")]
    model = await run(env, many(60), *replies, max_listed_tools=3)
    found = names(model)[5:]
    assert len(found) == 3
    assert found[-1].startswith("send_disk")


async def test_a_tool_that_was_not_searched_for_runs_when_it_is_named(env: dict[str, str]) -> None:
    assert told(await run(env, many(60), ToolCall("create_invoice_0")))[0] == "create_invoice_0 ran"


async def test_a_done_tool_is_always_told(env: dict[str, str]) -> None:
    model = await run(env, [*many(60), Numbered(77, is_done_tool=True)])
    assert "list_invoice_77" in names(model)


async def test_tools_of_a_group_are_found_once_it_is_active(env: dict[str, str]) -> None:
    tools = [*many(60), Numbered(101, groups=("far",))]
    found = search("delete_parcel_101", limit=1)
    model = await run(
        env,
        tools,
        found,
        ToolCall("equip_tools", group="far"),
        ToolCall("delete_parcel_101"),
        available_groups=["far"],
    )
    assert told(model)[0].endswith("(once the group far is active)")
    assert "delete_parcel_101" not in names(model, 1)
    assert names(model, 2)[-1] == "delete_parcel_101"


async def test_ten_thousand_tools_cost_a_bounded_description_and_a_second(env: dict[str, str]) -> None:
    tools = many(10_000)
    began = time.monotonic()
    model = await run(env, tools, search("update the report 9999"), search("delete_ticket_4321"))
    assert time.monotonic() - began < 20
    sizes = [sum(len(spec.description) for spec in request.tools) for request in model.requests]
    assert max(sizes) < 20_000
    assert ", and " in model.requests[0].tools[0].description
    assert told(model)[1].startswith("- delete_ticket_4321: ")


@pytest.mark.parametrize("is_here", [True, False])
async def test_a_replay_finds_what_was_found(env: dict[str, str], is_here: bool) -> None:
    tools = many(60)
    await run(env, tools, search("delete invoice", limit=2), ToolCall("delete_invoice_21"))
    store = Store.open(f"sqlite:///{env['SANDBUR_HOME']}/sandbur.db")
    own = {each.spec.name: each for each in tools} if is_here else {}
    assert (await replay(store, "s1", today=Today(own=own))).divergence is None
    store.close()


async def test_a_tool_with_the_name_of_the_search_is_refused_with_a_sentence(env: dict[str, str]) -> None:
    clash = Numbered(0)
    clash.spec = ToolSpec("search_tools", "x", clash.spec.parameters)
    with pytest.raises(ConfigError, match="A tool cannot be called search_tools"):
        await run(env, [*many(60), clash])


def test_rare_words_and_names_count_more_than_common_ones() -> None:
    index = WordIndex(
        {
            "send_mail": "Send a message to a person.",
            "readCalendar": "Show the meetings of a person.",
            "postTweet2": "Send a message to everybody.",
            "weather": "Tell the weather of a place, for a person on the way.",
        }
    )
    assert index.best("mails to a person", 1) == ["send_mail"]
    assert index.best("calendar", 4) == ["readCalendar"]
    assert index.best("WEATHER, posttweet2", 2) == ["postTweet2", "weather"]
    assert index.best("???", 3) == []
    assert WordIndex({}).best("anything", 3) == []
