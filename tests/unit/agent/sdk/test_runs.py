"""The arguments of one run: dependencies, output, history, tool choice, model, instructions."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from sandbur import (
    Agent,
    Depends,
    Message,
    Middleware,
    ModelRequest,
    ModelRetry,
    NextToolCall,
    PendingToolCall,
    RunContext,
    Text,
    TextDelta,
    ToolCallRequest,
    ToolOutcome,
    events,
    tool,
)
from sandbur.actions.turn.output.partial_output import PartialOutput
from sandbur.actions.turn.output.types import output_format_of
from sandbur.state.errors import SessionNotFound, UsageError
from sandbur.testing import Say, ScriptedModel, ToolCall, assert_replays


@pytest.fixture
def kept(tmp_path: Path) -> dict[str, Any]:
    """Return arguments of an agent whose store is a file of this test."""
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    return {"env": env, "store": f"sqlite:///{tmp_path}/runs.db"}


@dataclass
class Shop:
    stock: dict[str, int]


@dataclass
class Report:
    title: str
    urgency: int


@dataclass
class Apology:
    text: str


def count_of(run: RunContext[Shop]) -> dict[str, int]:
    return run.deps.stock


@tool(effect="read")
def stock(item: str, run: RunContext[Shop]) -> int:
    """Return how many there are."""
    return run.deps.stock[item]


@tool(effect="read")
def total(counts: Annotated[dict[str, int], Depends(count_of)]) -> int:
    """Return the number of all items."""
    return sum(counts.values())


@tool
def refund(order: str, run: RunContext[Shop]) -> str:
    """Give the money back."""
    return f"refunded {order} of {len(run.deps.stock)} kinds"


SHOP = Shop({"anvil": 3, "rope": 2})


def texts_of(request: ModelRequest) -> list[tuple[str, str]]:
    return [(message.origin, message.text) for message in request.messages]


async def test_tools_providers_instructions_and_middleware_get_the_deps_of_the_run(
    kept: dict[str, Any],
) -> None:
    seen: list[Any] = []

    class Watch(Middleware):
        async def wrap_tool_call(self, call: ToolCallRequest, next: NextToolCall) -> ToolOutcome:
            seen.append(self.session.run.deps)
            return await next(call)

    def instructions(run: RunContext[Shop]) -> str:
        return f"There are {len(run.deps.stock)} kinds."

    model = ScriptedModel([[ToolCall("stock", item="anvil"), ToolCall("total")], "3 of 5."])
    agent = Agent(
        model, tools=[stock, total], instructions=["Be brief.", instructions], middleware=[Watch()], **kept
    )
    async with agent, agent.session() as session:
        result = await session.run("How many?", deps=SHOP)
        results = [given.content for message in session.history for given in message.tool_results]
    assert (result.output, results) == ("3 of 5.", ["3", "5"])
    assert seen == [SHOP, SHOP]
    assert "Shop" not in str([spec.parameters for spec in model.requests[0].tools])
    assert model.requests[0].system.startswith("Be brief.")
    assert texts_of(model.requests[0]) == [("runtime", "There are 2 kinds."), ("person", "How many?")]


async def test_a_run_without_the_deps_that_a_tool_needs_is_refused_before_the_model_is_asked(
    kept: dict[str, Any],
) -> None:
    model = ScriptedModel(["never"])
    with pytest.raises(UsageError, match="stock needs deps of the type Shop"):
        await Agent(model, tools=[stock], **kept).run("How many?")
    assert model.requests == []


async def test_overrides_replace_a_provider_and_what_it_needs(kept: dict[str, Any]) -> None:
    model = ScriptedModel([ToolCall("total"), "7"])
    agent = Agent(model, tools=[total], dependency_overrides={count_of: lambda: {"soap": 7}}, **kept)
    async with agent, agent.session() as session:
        await session.run("How many?")
        assert [one.content for message in session.history for one in message.tool_results] == ["7"]


async def test_system_prompt_and_tools_stay_the_same_while_instructions_of_runs_change(
    kept: dict[str, Any],
) -> None:
    model = ScriptedModel(["One.", '{"title": "x", "urgency": 1}', "Three."])
    numbers = iter(range(1, 9))
    agent = Agent(model, instructions=lambda: f"Run {next(numbers)}.", **kept)
    async with agent, agent.session() as session:
        await session.run("a")
        await session.run("b", output=Report, instructions="Only b.")
        await session.run("c", tool_choice="none")
    first, second, third = model.requests
    assert first.system == second.system == third.system
    assert first.tools is second.tools is third.tools
    histories = [texts_of(request) for request in (first, second, third)]
    assert histories[1][: len(histories[0])] == histories[0]
    assert histories[2][: len(histories[1])] == histories[1]
    assert histories[1][3][1].startswith("Run 2.\n\nOnly b.\n\nGive the final answer")
    assert third.tool_choice == "none"


async def test_an_output_of_a_run_is_of_its_type_and_the_next_run_is_as_before(kept: dict[str, Any]) -> None:
    model = ScriptedModel(
        [{"title": "fire", "urgency": "high"}, {"title": "fire", "urgency": 4}, "Done.", {"text": "sorry"}]
    )
    agent = Agent(model, **kept)
    async with agent, agent.session() as session:
        assert (await session.run("a", output=Report)).output == Report("fire", 4)
        assert (await session.run("b")).output == "Done."
        assert (await session.run("c", output=Report | Apology)).output == Apology("sorry")
    assert session.result is not None
    assert_replays(session.result.session_id, store=kept["store"])


async def test_a_text_may_be_asked_of_an_agent_with_an_output_type(kept: dict[str, Any]) -> None:
    agent = Agent(ScriptedModel(["In words."]), output=Report, **kept)
    assert (await agent.run("a", output=str)).output == "In words."


async def test_validators_send_the_model_back_with_a_reason(kept: dict[str, Any]) -> None:
    model = ScriptedModel(
        [{"title": "a", "urgency": 9}, {"title": "a", "urgency": 8}, {"title": "a", "urgency": 3}]
    )
    agent = Agent(model, output=Report, **kept)

    @agent.output_validator
    async def urgency(report: Report, run: RunContext[int]) -> None:
        if report.urgency > run.deps:
            raise ModelRetry(f"The urgency is at most {run.deps}.")

    result = await agent.run("a", deps=5, session_id="v")
    assert result.output == Report("a", 3)
    assert "at most 5" in texts_of(model.requests[1])[-1][1]
    assert_replays("v", store=kept["store"])


async def test_validators_also_check_a_text_and_give_up_in_the_end(kept: dict[str, Any]) -> None:
    def polite(answer: str) -> None:
        if "please" not in answer:
            raise ValueError("Say please.")

    model = ScriptedModel(["No.", "No!", "No?", "No."])
    result = await Agent(model, output_validators=[polite], **kept).run("a", session_id="t")
    assert (result.status, len(model.requests)) == ("error", 4)
    assert result.error is not None
    assert "Say please." in result.error.message
    assert (await Agent(ScriptedModel(["please"]), output_validators=[polite], **kept).run("b")).is_done


async def test_a_validator_that_returns_another_value_is_refused(kept: dict[str, Any]) -> None:
    def shout(answer: str) -> str:
        return answer.upper()

    result = await Agent(ScriptedModel(["x"]), output_validators=[shout], **kept).run("a")
    assert result.error is not None
    assert "returned another value" in result.error.message


PIECES = ('{"title": "a long', ' title", "urg', 'ency": 4}')


def test_the_beginning_of_an_answer_is_the_value_so_far() -> None:
    partial = PartialOutput(output_format_of(Report).format)
    values = [each.value for piece in PIECES for each in partial.values_after(TextDelta(piece))]
    assert values == [{"title": "a long"}, {"title": "a long title"}, {"title": "a long title", "urgency": 4}]


async def test_a_stream_has_the_structured_output_before_the_run_ends(kept: dict[str, Any]) -> None:
    agent = Agent(ScriptedModel([Say(*PIECES)]), output=Report, **kept)
    seen = [event async for event in agent.stream("a")]
    partial = [event.value for event in seen if isinstance(event, events.OutputPartial)]
    assert partial[-1] == {"title": "a long title", "urgency": 4}
    assert isinstance(seen[-1], events.RunFinished)


async def test_messages_keep_names_and_metadata(kept: dict[str, Any]) -> None:
    model = ScriptedModel(["Yes."])
    given = [Message.system("Be kind."), Message.user("I am Ada.", name="ada", metadata={"id": 7})]
    agent = Agent(model, **kept)
    await agent.run("Well?", message_history=given, session_id="named")
    stored = await agent.history("named")
    assert [(one.role, one.name, one.metadata) for one in stored] == [
        ("system", None, None),
        ("user", "ada", {"id": 7}),
        ("user", None, None),
        ("assistant", None, None),
    ]
    assert [message.role for message in model.requests[0].messages] == ["user", "user", "user"]
    assert (
        Message.user("a").model_dump_json()
        == Message(role="user", origin="person", blocks=(Text(text="a"),)).model_dump_json()
    )
    assert "metadata" not in Message.user("a").model_dump_json()


async def test_the_history_of_a_run_takes_the_place_of_the_sessions(kept: dict[str, Any]) -> None:
    model = ScriptedModel(["Ada."])
    given = [Message.user("I am Ada."), Message.assistant("Hello.")]
    await Agent(model, **kept).run("Who am I?", message_history=given)
    assert [text for _, text in texts_of(model.requests[0])] == ["I am Ada.", "Hello.", "Who am I?"]


async def test_a_named_tool_is_forced_once_and_then_the_model_chooses(kept: dict[str, Any]) -> None:
    model = ScriptedModel([ToolCall("total"), "5", "?"])
    agent = Agent(model, tools=[total], **kept)
    async with agent, agent.session(deps=SHOP) as session:
        await session.run("a", tool_choice="total")
        assert [request.forced_tool for request in model.requests] == ["total", None]
        with pytest.raises(UsageError, match="names no tool"):
            await session.run("b", tool_choice="missing")


async def test_calls_are_refused_where_no_tool_may_be_called(kept: dict[str, Any]) -> None:
    model = ScriptedModel([ToolCall("total"), "None."])
    agent = Agent(model, tools=[total], **kept)
    async with agent, agent.session(deps=SHOP) as session:
        assert (await session.run("a", tool_choice="none")).output == "None."
        assert "no tool may be called" in str([m.tool_results for m in session.history])


async def test_another_model_answers_one_run_and_its_usage_is_counted_by_model(kept: dict[str, Any]) -> None:
    other = ScriptedModel(["From the other."], name="scripted/other")
    agent = Agent(ScriptedModel(["One.", "Three."]), **kept)
    async with agent, agent.session() as session:
        await session.run("a")
        assert (await session.run("b", model=other)).output == "From the other."
        assert (await session.run("c")).output == "Three."
        usage = session.usage
    assert {name: each.llm_calls for name, each in usage.by_model.items()} == {
        "scripted/model": 2,
        "scripted/other": 1,
    }
    assert usage.llm_calls == 3
    assert usage.input_tokens == sum(each.input_tokens or 0 for each in usage.by_model.values())


async def test_an_approved_run_keeps_what_it_was_begun_with_and_gets_its_deps_again(
    kept: dict[str, Any],
) -> None:
    first = Agent(ScriptedModel([ToolCall("refund", order="17")]), tools=[refund], **kept)
    result = await first.run("a", deps=SHOP, output=Report, session_id="r")
    (waiting,) = result.pending
    assert (result.status, waiting.arguments) == ("needs_approval", {"order": "17"})
    model = ScriptedModel([{"title": "17", "urgency": 1}])
    later = Agent(model, tools=[refund], **kept)
    with pytest.raises(UsageError, match="refund needs deps"):
        await later.approve("r", waiting.call_id)
    assert model.requests == []
    done = await later.approve("r", waiting.call_id, deps=SHOP)
    assert done.output == {"title": "17", "urgency": 1}
    with pytest.raises(SessionNotFound):
        await later.approve("unknown")


@pytest.mark.parametrize(
    ("answer", "status", "outcome"),
    [(True, "done", "ok"), (False, "denied", "denied"), ("too late", "denied", "denied")],
)
async def test_a_program_decides_while_the_run_goes_on(
    kept: dict[str, Any], answer: bool | str, status: str, outcome: str
) -> None:
    asked: list[PendingToolCall] = []

    async def decide(pending: PendingToolCall) -> bool | str:
        asked.append(pending)
        return answer

    agent = Agent(ScriptedModel([ToolCall("refund", order="17"), "Ended."]), tools=[refund], **kept)
    stream = agent.stream("a", deps=SHOP, on_approval=decide)
    seen = [event async for event in stream]
    finished = [event for event in seen if isinstance(event, events.RunFinished)]
    assert [event.status for event in finished] == [status]
    assert [event.outcome for event in seen if isinstance(event, events.ToolFinished)] == [outcome]
    assert [call.arguments for call in asked] == [{"order": "17"}]


async def test_a_call_that_is_left_for_later_waits(kept: dict[str, Any]) -> None:
    agent = Agent(ScriptedModel([ToolCall("refund", order="17")]), tools=[refund], **kept)
    result = await agent.run("a", deps=SHOP, on_approval=lambda pending: None)
    assert result.status == "needs_approval"


async def test_a_run_that_is_left_while_it_asks_ends_and_its_call_waits(kept: dict[str, Any]) -> None:
    asking = asyncio.Event()

    async def decide(pending: PendingToolCall) -> None:
        asking.set()
        await asyncio.Event().wait()

    agent = Agent(ScriptedModel([ToolCall("refund", order="17")]), tools=[refund], **kept)
    run = asyncio.ensure_future(agent.run("a", deps=SHOP, on_approval=decide, session_id="left"))
    await asking.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    async with agent, agent.session("left") as session:
        assert [call.tool for call in session.pending] == ["refund"]


async def test_sessions_are_found_by_what_they_were_begun_with(kept: dict[str, Any]) -> None:
    agent = Agent(ScriptedModel(lambda request: "x"), **kept)
    async with agent:
        for number in range(5):
            await agent.run(f"message {number}", app="shop", user=f"u{number % 2}", tags=["new"])
        await agent.run("other", app="bank", session_id="bank")
        mine = [info async for info in agent.sessions(app="shop", user="u0")]
        assert [info.title for info in mine] == ["message 4", "message 2", "message 0"]
        page = [info async for info in agent.sessions(tags=["new"], limit=2)]
        rest = [info async for info in agent.sessions(tags=["new"], cursor=page[-1].cursor)]
        assert [info.title[-1] for info in page + rest] == ["4", "3", "2", "1", "0"]
        assert [info.id async for info in agent.sessions(text="OTHER", status="done")] == ["bank"]
        newer = [info async for info in agent.sessions(since=mine[0].updated_at)]
        assert {info.title for info in newer} >= {"message 4", "other"}
        with pytest.raises(UsageError, match="belong to the app 'shop'"):
            await agent.run("x", app="shop", session_id="bank")
        with pytest.raises(UsageError, match="is not a cursor"):
            await anext(agent.sessions(cursor="x"))


async def test_a_clone_has_the_arguments_of_its_agent_except_the_changed_ones(kept: dict[str, Any]) -> None:
    agent = Agent(ScriptedModel(["x"]), tools=[total], instructions="A.", name="one", **kept)

    @agent.output_validator
    def accept(answer: str) -> None: ...

    clone = agent.clone(model=ScriptedModel(["y"]), name="two")
    assert (await clone.run("a", deps=SHOP)).output == "y"
    assert (agent.name, clone.name, clone.definition.tools) == ("one", "two", agent.definition.tools)
    with pytest.raises(TypeError, match="no argument `colour`"):
        agent.clone(colour="red")  # pyright: ignore[reportCallIssue]


async def test_a_run_takes_no_unknown_argument(kept: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="no argument `dep`"):
        await Agent(ScriptedModel(["x"]), **kept).run("a", dep=1)  # pyright: ignore[reportCallIssue]


async def test_a_run_that_was_cancelled_is_listed_as_interrupted(kept: dict[str, Any]) -> None:
    started = asyncio.Event()

    async def never(request: ModelRequest) -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(ScriptedModel(never), **kept)
    run = asyncio.ensure_future(agent.run("a", session_id="cancelled"))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert [info.status async for info in agent.sessions()] == ["interrupted"]
