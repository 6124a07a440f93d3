"""Responses of servers that leave fields out of their events: each item of the output is read once."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.models.server import ModelServer, say, stream_of
from support.models.talk import connect_to_model, talk

from sandbur import Agent, tool

TEXT = "Looking it up."
CALLS = (("c1", '{"order": "1"}'), ("c2", '{"order": "2"}'), ("c3", '{"order": "2"}'))


def stream(events: list[dict[str, Any]]) -> Any:
    return stream_of("".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events))


def parts() -> list[tuple[dict[str, Any], str, str]]:
    """Return the items of a whole reply, the kind of their deltas, and the text of these."""
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    content = [{"type": "output_text", "text": TEXT, "annotations": []}]
    found = [({**message, "content": content}, "response.output_text.delta", TEXT)]
    for call_id, arguments in CALLS:
        call = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "ship"}
        item = {**call, "arguments": arguments, "status": "completed"}
        found.append((item, "response.function_call_arguments.delta", arguments))
    return found


def begun(item: dict[str, Any]) -> dict[str, Any]:
    empty = {"arguments": ""} if "arguments" in item else {"content": []}
    return {**item, **empty, "status": "in_progress"}


def events(done: str, repeats: bool) -> Iterator[dict[str, Any]]:
    """Yield a whole reply as OpenAI tells it; `done` says when items are: `each`, `last` or `never`."""
    ends: list[dict[str, Any]] = []
    for place, (item, kind, text) in enumerate(parts()):
        yield {"type": "response.output_item.added", "output_index": place, "item": begun(item)}
        for piece in (text[:5], text[5:]):
            yield {"type": kind, "output_index": place, "item_id": item["id"], "delta": piece}
        end = {"type": "response.output_item.done", "output_index": place, "item": item}
        if done == "each":
            yield end
        ends.append(end)
    if done == "last":
        yield from ends
    output = [item for item, _, _ in parts()] if repeats else []
    yield {"type": "response.completed", "response": {"status": "completed", "output": output}}


def without(event: dict[str, Any], gone: tuple[str, ...]) -> dict[str, Any]:
    """Return an event as a server tells it that leaves these fields out; `id` is that of items."""
    event = {key: value for key, value in event.items() if key not in gone}
    if "id" in gone and "item" in event:
        event["item"] = {key: value for key, value in event["item"].items() if key != "id"}
    if "id" in gone and "response" in event:
        listed = [
            {key: value for key, value in one.items() if key != "id"} for one in event["response"]["output"]
        ]
        event["response"] = {**event["response"], "output": listed}
    return event


LEFT_OUT = (
    (), ("output_index",), ("item_id",), ("output_index", "item_id"), ("output_index", "id"),
    ("output_index", "item_id", "id"), ("item_id", "id"),
)  # fmt: skip


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("done", ["each", "last", "never"])
@pytest.mark.parametrize("gone", LEFT_OUT, ids="+".join)
async def test_each_item_is_read_once_whatever_its_events_leave_out(
    gone: tuple[str, ...], done: str, repeats: bool
) -> None:
    listed = [without(event, gone) for event in events(done, repeats)]
    async with ModelServer([stream(listed)]) as server, connect_to_model(server, "responses") as model:
        heard = await talk(model)
    assert (heard.answer, heard.reply.message.text) == (TEXT, TEXT)
    assert [(use.call_id, use.arguments) for use in heard.reply.message.tool_uses] == list(CALLS)


async def test_a_server_that_numbers_every_item_zero_loses_none() -> None:
    listed = [{**one, "output_index": 0} if "output_index" in one else one for one in events("each", False)]
    async with ModelServer([stream(listed)]) as server, connect_to_model(server, "responses") as model:
        reply = (await talk(model)).reply
    assert reply.message.text == TEXT
    assert [use.call_id for use in reply.message.tool_uses] == ["c1", "c2", "c3"]


@pytest.mark.parametrize("gone", [("item_id",), ("item_id", "output_index")], ids="+".join)
async def test_ids_that_are_made_anew_for_every_event_make_no_second_item(gone: tuple[str, ...]) -> None:
    listed = [without(event, gone) for event in events("each", False)]
    for number, event in enumerate(listed):
        if "item" in event:
            made = {"id": f"x{number}", **({"call_id": f"y{number}"} if "call_id" in event["item"] else {})}
            event["item"] = {**event["item"], **made}
    async with ModelServer([stream(listed)]) as server, connect_to_model(server, "responses") as model:
        reply = (await talk(model)).reply
    assert reply.message.text == TEXT
    assert [use.arguments for use in reply.message.tool_uses] == [arguments for _, arguments in CALLS]


async def test_items_that_only_the_end_lists_are_read_from_there() -> None:
    shown = [
        one
        for one in events("each", True)
        if one["type"] in ("response.output_text.delta", "response.completed")
    ]
    async with ModelServer([stream(shown)]) as server, connect_to_model(server, "responses") as model:
        heard = await talk(model)
    assert (heard.answer, heard.reply.message.text) == (TEXT, TEXT)
    assert [use.call_id for use in heard.reply.message.tool_uses] == ["c1", "c2", "c3"]


def as_llama_cpp() -> Iterator[dict[str, Any]]:
    """Yield what llama.cpp's server sends: no index, calls without an id, all that is done at the end."""
    ends: list[dict[str, Any]] = []
    for item, kind, text in parts():
        call_id = f"fc_{item['call_id']}" if "call_id" in item else ""
        told = (
            {key: value for key, value in item.items() if key != "id"} | {"call_id": call_id}
            if call_id
            else item
        )
        yield {"type": "response.output_item.added", "item": begun(told)}
        for piece in (text[:5], text[5:]):
            yield {"type": kind, "item_id": call_id or item["id"], "delta": piece}
        ends.append({"type": "response.output_item.done", "item": told})
    yield from ends
    output = [end["item"] for end in ends]
    yield {"type": "response.completed", "response": {"status": "completed", "output": output}}


async def test_a_call_of_llama_cpps_server_runs_once(tmp_path: Path) -> None:
    shipped: list[str] = []

    @tool
    def ship(order: str) -> str:
        """Ship an order."""
        shipped.append(order)
        return "shipped"

    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    async with ModelServer([stream(list(as_llama_cpp())), say("Done.")]) as server:
        own = {**env, "OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": server.base_url}
        agent = Agent("openai-responses/local", tools=[ship], allow=["ship"], env=own)
        async with agent.session() as session:
            result = await session.run("Ship 1 and 2")
            texts = [message.text for message in session.history if message.role == "assistant"]
    assert (result.status, result.output) == ("done", "Done.")
    assert shipped == ["1", "2", "2"]
    assert texts == [TEXT, "Done."]
