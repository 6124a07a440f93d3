"""Flows in sessions: what they answer, what is recorded, what the gate and the model see of them."""

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
from burr.core import ApplicationBuilder, State, action
from pydantic import BaseModel

from sandbur import Agent, Flow, events, flow, tool
from sandbur.agent.history.replay.replay import replay
from sandbur.state.errors import ConfigError
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

ORDERS = {"4711": {"status": "shipped", "items": [{"name": "tea"}]}}


@tool(effect="read")
def order_status(id: str) -> dict[str, Any]:
    """Find an order."""
    return ORDERS[id]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "home")}


def make_agent(env: Mapping[str, str], *flows: Flow, model: Any = None, **more: Any) -> Agent[Any]:
    model = model or ScriptedModel(["the model answers"])
    given = {"tools": [order_status], "allow": ["order_status"], **more}
    return Agent(model, flows=flows, env=env, cwd=Path(env["HOME"]), **given)


ORDER = Flow(
    "order",
    regex=r"order (?P<id>\d+)",
    tool="order_status",
    arguments={"id": "{id}"},
    answer="Order {id} is {result.status}, with {result.items.0.name}.",
    failure="Order {id} is not known.",
)


async def test_an_answer_costs_no_model_call_and_the_model_knows_it_later(env: dict[str, str]) -> None:
    model = ScriptedModel(["You asked for the hours."])
    hours = Flow("hours", exact="opening hours", reply="Nine to five.")
    async with make_agent(env, hours, model=model) as agent, agent.session() as session:
        result = await session.run("Opening hours?")
        assert (result.output, result.usage.llm_calls, len(model.requests)) == ("Nine to five.", 0, 0)
        assert session.history[-1].metadata == {"flow": "hours"}
        await session.run("What did I ask?")
    assert [message.text for message in model.requests[0].messages] == [
        "Opening hours?",
        "Nine to five.",
        "What did I ask?",
    ]


async def test_a_call_of_a_flow_is_recorded_judged_and_answered_with_its_result(env: dict[str, str]) -> None:
    async with make_agent(env, ORDER) as agent, agent.session("s1") as session:
        seen = [event async for event in session.stream("where is order 4711?")]
        assert session.result is not None
        assert session.result.output == "Order 4711 is shipped, with tea."
        matched = next(event for event in seen if isinstance(event, events.FlowMatched))
        assert (matched.flow, matched.does) == ("order", "tool")
        assert "order (?P<id>" in matched.why
        call = session.history[1]
        assert "A flow ran order_status" in call.for_model.text
        assert call.tool_results[0].outcome == "ok"
    store = Store.open(f"sqlite:///{env['SANDBUR_HOME']}/sandbur.db")
    assert (await replay(store, "s1")).divergence is None
    store.close()


async def test_the_gate_asks_about_a_call_of_a_flow_as_about_one_of_a_model(env: dict[str, str]) -> None:
    ran: list[str] = []

    @flow(prefix="refund")
    def refund(rest: str) -> str:
        """Refund an order."""
        ran.append(rest)
        return f"refunded {rest}"

    async with make_agent(env, refund) as agent, agent.session() as session:
        result = await session.run("refund 4711")
        assert (result.status, ran) == ("needs_approval", [])
        assert result.pending[0].tool == "flow_refund"
        result = await session.approve()
        assert (result.output, ran, result.usage.llm_calls) == ("refunded 4711", ["4711"], 0)
        result = await session.run("refund 5")
        result = await session.deny()
        assert result.status == "denied"
        assert ran == ["4711"]
    async with make_agent(env, refund, deny=["flow_refund"]) as agent:
        result = await agent.run("refund 6")
    assert (result.status, ran) == ("denied", ["4711"])


async def test_after_a_failure_the_answer_says_so_or_the_model_takes_over(env: dict[str, str]) -> None:
    async with make_agent(env, ORDER) as agent:
        result = await agent.run("order 9")
    assert (result.output, result.usage.llm_calls) == ("Order 9 is not known.", 0)
    model = ScriptedModel(["I looked elsewhere."])
    handed = Flow(
        "order", prefix="order", tool="order_status", arguments={"id": "{rest}"}, on_failure="model"
    )
    async with make_agent(env, handed, model=model) as agent:
        result = await agent.run("order 9")
    assert (result.output, result.usage.llm_calls) == ("I looked elsewhere.", 1)
    assert "A flow ran order_status" in list(model.requests[0].messages)[-1].text


async def test_no_model_sees_or_calls_the_tool_of_a_flow(env: dict[str, str]) -> None:
    @flow(exact="secret")
    def secret() -> str:
        """Tell."""
        return "told"

    model = ScriptedModel([ToolCall("flow_secret"), "It is not mine."])
    async with make_agent(env, secret, model=model, mode="yolo") as agent, agent.session() as session:
        await session.run("call it")
        assert "run by a flow of the user" in session.history[2].tool_results[0].content
    assert "flow_secret" not in [spec.name for spec in model.requests[0].tools]


async def test_many_flows_do_not_make_the_tools_of_the_model_fewer(env: dict[str, str]) -> None:
    requests = [Flow(f"f{n}", exact=f"f{n}", http={"url": "http://127.0.0.1:9/"}) for n in range(60)]
    model = ScriptedModel(["fine"])
    async with make_agent(env, *requests, model=model) as agent:
        await agent.run("hello")
    names = [spec.name for spec in model.requests[0].tools]
    assert "order_status" in names
    assert not [name for name in names if "search" in name or name.startswith("flow_")]


async def test_the_first_of_the_highest_priority_is_started(env: dict[str, str]) -> None:
    flows = [
        Flow("last", prefix="a", reply="last", priority=-1),
        Flow("second", prefix="a", reply="second"),
        Flow("third", prefix="a", reply="third"),
        Flow("first", exact="a b", reply="first", priority=5),
    ]
    async with make_agent(env, *flows) as agent:
        assert (await agent.run("a b")).output == "first"
        assert (await agent.run("a c")).output == "second"


async def test_a_flow_is_started_by_its_name_and_a_wrong_name_is_no_message(env: dict[str, str]) -> None:
    model = ScriptedModel([])
    async with make_agent(env, ORDER, model=model) as agent, agent.session() as session:
        assert (await session.run("/flow order order 4711")).output == "Order 4711 is shipped, with tea."
        for text, why in (
            ("/flow nope", "no flow 'nope'"),
            ("/flow order", "needs id"),
            ("/flow", "takes the name"),
        ):
            result = await session.run(text)
            assert why in " ".join(result.notices)
            assert result.output is None
        assert len(session.history) == 3
    assert model.requests == []


async def test_a_slash_command_runs_as_if_it_had_been_typed(env: dict[str, str]) -> None:
    async with make_agent(env, Flow("look", exact="only look", command="/mode plan")) as agent:
        result = await agent.run("only look")
    assert "Mode: plan" in " ".join(result.notices)


async def test_a_plan_of_a_flow_needs_no_model_to_be_made(env: dict[str, str]) -> None:
    steps = [ToolCall("finish_step", status="completed", summary=f"done {n}") for n in (1, 2)]
    model = ScriptedModel([*steps, "All done."])
    trip = Flow("trip", phrase="go to {town}", plan=["Pack for {town}.", "Leave."], goal="Be in {town}")
    async with make_agent(env, trip, model=model) as agent:
        result = await agent.run("Go to Rome", session_id="s1")
    assert [step.description for step in result.steps] == ["Pack for Rome.", "Leave."]
    assert (result.output, result.usage.llm_calls) == ("All done.", 3)
    assert await differs(env, "s1") is None


async def test_a_burr_graph_is_run_to_its_end(env: dict[str, str]) -> None:
    @action(reads=[], writes=["days"])
    def count(state: State[Any], days: str) -> State[Any]:
        return state.update(days=int(days))

    @action(reads=["days"], writes=["answer"])
    def decide(state: State[Any]) -> State[Any]:
        return state.update(answer=f"{state['days']} days: {'granted' if state['days'] < 10 else 'ask'}")

    def leave(days: str) -> Any:
        """Ask for days off."""
        builder = ApplicationBuilder().with_actions(count.bind(days=days), decide)
        return builder.with_transitions(("count", "decide")).with_entrypoint("count").build()

    days_off = Flow("days_off", phrase="I need {days} days off", graph=leave, effect="read")
    async with make_agent(env, days_off, allow=["flow_days_off"]) as agent:
        assert (await agent.run("I need 5 days off.")).output == "5 days: granted"


class Shop(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = json.dumps({"status": "late"}).encode()
        self.send_response(200 if "7" in self.path else 500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log."""


async def test_a_request_is_answered_by_a_path_of_its_result_and_a_server_that_is_down_is_named(
    env: dict[str, str],
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/orders/{{id}}"
    shop = Flow("shop", regex=r"parcel (?P<id>\S+)", http={"url": url}, answer="Parcel {id}: {result.status}")
    async with make_agent(env, shop, allow=["flow_shop"]) as agent:
        assert (await agent.run("parcel 7/x?y")).output == "Parcel 7/x?y: late"
        failed = (await agent.run("parcel 8")).output
        server.shutdown()
        server.server_close()
        down = (await agent.run("parcel 7")).output
    assert Shop.asked[0] == "/orders/7%2Fx%3Fy"
    assert "The flow shop did not work: HTTP 500" in failed
    assert "Nothing was sent" in down


class Report(BaseModel):
    title: str


async def test_a_run_that_asks_for_an_output_type_goes_to_the_model(env: dict[str, str]) -> None:
    model = ScriptedModel(['{"title": "made by a model"}'])
    async with make_agent(env, Flow("f", exact="hi", reply="hello"), model=model) as agent:
        result = await agent.run("hi", output=Report)
    assert result.output.title == "made by a model"


async def test_a_message_of_ten_megabytes_starts_no_flow(env: dict[str, str]) -> None:
    tried: list[int] = []

    def match(message: str) -> bool:
        tried.append(len(message))
        return True

    model = ScriptedModel(["the model answers"], context_window=10_000_000)
    async with make_agent(env, Flow("f", match=match, reply="hello"), model=model) as agent:
        assert (await agent.run("hi")).output == "hello"
        assert (await agent.run("hi " * 3_500_000)).output == "the model answers"
    assert tried == [2]


async def test_a_trigger_that_fails_is_no_match(env: dict[str, str]) -> None:
    def fail(text: str) -> bool:
        raise LookupError(text)

    async with make_agent(env, Flow("f", match=fail, reply="hello")) as agent:
        assert (await agent.run("hi")).output == "the model answers"


async def test_two_flows_of_one_name_are_refused(env: dict[str, str]) -> None:
    twice = [Flow("f", exact="a", reply="b"), Flow("f", exact="c", reply="d")]
    with pytest.raises(ConfigError, match="two flows called f"):
        async with make_agent(env, *twice) as agent:
            await agent.run("a")


async def differs(env: Mapping[str, str], session_id: str) -> object:
    store = Store.open(f"sqlite:///{env['SANDBUR_HOME']}/sandbur.db")
    try:
        return (await replay(store, session_id)).divergence
    finally:
        store.close()
