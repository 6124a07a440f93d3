"""Workflows of agents: what each kind hands on, returns and refuses."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from support.models.program_agents import last_text, make_agent

from sandbur import (
    Agent,
    Image,
    Limits,
    Loop,
    Map,
    ModelRequest,
    Parallel,
    RunContext,
    RunResult,
    Sequential,
    Vote,
    tool,
)
from sandbur.state.errors import UsageError, WrongType
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall


class Score(BaseModel):
    value: int


def upper(store: TemporaryStore, name: str = "upper") -> Agent[Any]:
    return make_agent(store, lambda request: last_text(request).upper(), name)


def mirror(store: TemporaryStore, name: str = "mirror") -> Agent[Any]:
    return make_agent(store, lambda request: last_text(request)[::-1], name)


def test_parallel_returns_the_outputs_in_the_order_of_declaration(store: TemporaryStore) -> None:
    has_answered = asyncio.Event()

    async def slow(request: ModelRequest) -> str:
        await has_answered.wait()
        return "slow"

    def quick(request: ModelRequest) -> str:
        has_answered.set()
        return "quick"

    result = Parallel(make_agent(store, slow), make_agent(store, quick)).run_sync("go")
    assert (result.status, result.output, result.text) == ("done", ["slow", "quick"], '["slow","quick"]')


def test_each_agent_of_parallel_gets_the_message_with_its_files(store: TemporaryStore) -> None:
    seen: list[int] = []

    def look(request: ModelRequest) -> str:
        seen.append(len(list(list(request.messages)[-1].files)))
        return last_text(request)

    picture = Image.from_bytes(
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    )
    agent = make_agent(store, look)
    result = Parallel(agent, agent).run_sync(["what is this?", picture])
    assert (result.output, seen) == (["what is this?"] * 2, [1, 1])


def test_sequential_hands_each_output_on(store: TemporaryStore) -> None:
    result = Sequential(upper(store), mirror(store)).run_sync("abc")
    assert (result.output, result.text) == ("CBA", "CBA")


def test_functions_are_steps_of_a_sequence(store: TemporaryStore) -> None:
    async def add_mark(text: str) -> str:
        return f"{text}!"

    result = Sequential(str.strip, upper(store), add_mark, mirror(store), len).run_sync("  abc ")
    assert (result.output, result.status) == ("4", "done")


def test_a_sequence_hands_a_typed_output_on_as_json_and_to_a_function_as_a_value(
    store: TemporaryStore,
) -> None:
    judge = make_agent(store, lambda request: {"value": len(last_text(request))}, output=Score)

    def double(score: Score) -> Score:
        return Score(value=score.value * 2)

    seen = make_agent(store, last_text)
    assert Sequential(judge, seen).run_sync("abcd").output == '{"value":4}'
    assert Sequential(judge, double, seen).run_sync("abcd").output == '{"value":8}'


def test_outputs_have_the_types_of_their_agents(store: TemporaryStore) -> None:
    judge = make_agent(store, lambda request: {"value": 3}, output=Score)
    assert Parallel(judge, upper(store)).run_sync("abc").output == [Score(value=3), "ABC"]
    assert Sequential(upper(store), judge).run_sync("abc").output == Score(value=3)
    assert Loop(judge, max_iterations=1).run_sync("abc").output == Score(value=3)
    assert Vote(judge, judge).run_sync("abc").output == Score(value=3)


def halve(score: Score) -> Score:
    return Score(value=score.value // 2)


async def halve_later(score: Score) -> Score:
    return halve(score)


def test_a_sequence_that_ends_with_a_function_has_the_type_that_it_returns(store: TemporaryStore) -> None:
    judge = make_agent(store, lambda request: {"value": 8}, output=Score)
    assert Sequential(judge, halve).run_sync("x").output == Score(value=4)
    assert Sequential(judge, halve_later).run_sync("x").output == Score(value=4)
    assert Sequential(judge, lambda score: score, output=Score).run_sync("x").output == Score(value=8)
    assert Sequential(judge, lambda score: score).run_sync("x").output == '{"value":8}'
    assert Parallel(Sequential(judge, halve), upper(store)).run_sync("x").output == [Score(value=4), "X"]
    assert Loop(Sequential(judge, halve), max_iterations=2).run_sync("x").output == Score(value=4)


def test_a_loop_ends_when_its_condition_holds(store: TemporaryStore) -> None:
    seen: list[str] = []

    def is_long(result: Any) -> bool:
        seen.append(result.output)
        return len(result.output) >= 5

    agent = make_agent(store, lambda request: last_text(request) + "!")
    result = Loop(agent, until=is_long, max_iterations=9).run_sync("go")
    assert (result.output, seen) == ("go!!!", ["go!", "go!!", "go!!!"])
    assert [child.iteration for child in result.children] == [1, 2, 3]


def test_a_loop_ends_after_its_last_iteration(store: TemporaryStore) -> None:
    agent = make_agent(store, lambda request: last_text(request) + "!")
    result = Loop(agent, until=lambda result: False, max_iterations=2).run_sync("go")
    assert (result.status, result.output) == ("done", "go!!")


@pytest.mark.parametrize(
    "inputs", [["a", "b"], ("a", "b"), lambda message: message.split(), lambda message: iter("ab")]
)
def test_map_runs_its_agent_for_each_input(store: TemporaryStore, inputs: Any) -> None:
    assert Map(upper(store), inputs).run_sync("a b").output == ["A", "B"]


def test_map_without_inputs_takes_a_message_that_is_a_list(store: TemporaryStore) -> None:
    lister = make_agent(store, lambda request: {"value": ["a", {"b": 1}]}, output=list[Any])
    assert Sequential(lister, Map(upper(store))).run_sync("go").output == ["A", '{"B":1}']
    assert Map(upper(store), []).run_sync("go").output == []
    failed = Map(upper(store)).run_sync("go")
    assert failed.error is not None
    assert failed.error.message == "Map without inputs needs a message that is a JSON list."


def test_map_with_too_many_inputs_starts_nothing(store: TemporaryStore) -> None:
    model = ScriptedModel(last_text)
    agent = Agent(model, store=store.url, env=store.env)
    failed = Map(agent, lambda message: range(30), max_inputs=20).run_sync("go")
    assert failed.error is not None
    assert failed.error.message == "Map has more than 20 inputs, so nothing was started."
    assert model.requests == []
    with pytest.raises(UsageError, match="Map has more than 20 inputs"):
        Map(agent, range(30), max_inputs=20)


def test_map_runs_hundreds_of_inputs_with_a_few_at_once(store: TemporaryStore) -> None:
    running, most = 0, 0

    async def count(request: ModelRequest) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return last_text(request)

    result = Map(make_agent(store, count), range(250)).run_sync("go")
    assert result.output == [str(number) for number in range(250)]
    assert most <= 16


def test_a_workflow_nests_in_a_workflow(store: TemporaryStore) -> None:
    review = Parallel(upper(store), mirror(store), name="review")
    nested = Sequential(review, Map(Loop(mirror(store), max_iterations=2)), name="whole")
    result = nested.run_sync("ab")
    assert result.output == ["AB", "ba"]
    assert [child.name for child in result.children] == ["review", "step2"]


def test_a_workflow_is_a_tool_and_a_sub_agent_of_a_model(store: TemporaryStore) -> None:
    review = Parallel(upper(store), mirror(store), name="review", description="Reviews.")
    for options, call in (
        ({"tools": [review.as_tool()]}, ToolCall("review", input="ab")),
        ({"agents": [review]}, ToolCall("task", description="review", prompt="ab", agent="review")),
    ):
        model = ScriptedModel([call, "ok"])
        assert Agent(model, store=store.url, env=store.env, **options).run_sync("go").output == "ok"
        answer = list(model.requests[-1].messages)[-1].tool_results[0].content
        assert answer.splitlines()[0] == '["AB","ba"]'


def test_an_agent_with_sub_agents_keeps_its_depth_in_a_workflow(store: TemporaryStore) -> None:
    lead = make_agent(
        store,
        lambda request: (
            "asked"
            if list(request.messages)[-1].tool_results
            else ToolCall("task", description="look", prompt="x", agent="upper")
        ),
        agents=[make_agent(store, lambda request: "looked", "upper", description="Looks.")],
    )
    nested = Sequential(Parallel(Loop(Sequential(lead), max_iterations=1)))
    assert nested.run_sync("go").output == ["asked"]


def test_a_workflow_answers_each_message_of_its_session(store: TemporaryStore) -> None:
    async def run() -> list[Any]:
        workflow = Parallel(upper(store), mirror(store))
        async with workflow.session() as session:
            await session.observe("nobody asked for this")
            first = await session.run("ab")
            second = await session.run("cd")
            return [first.output, second.output, [child.output for child in second.children]]

    assert asyncio.run(run()) == [["AB", "ba"], ["CD", "dc"], ["CD", "dc"]]


def test_only_the_models_of_the_agents_count(store: TemporaryStore) -> None:
    workflow = Parallel(upper(store), mirror(store), limits=Limits(max_turns=2))

    async def run() -> tuple[RunResult[Any], Any]:
        async with workflow.session() as session:
            result = await session.run("ab")
            return result, session.usage

    result, usage = asyncio.run(run())
    assert (result.status, result.usage.llm_calls, result.usage.cost_usd) == ("done", 2, 0.0)
    assert (usage.llm_calls, usage.by_model) == (2, {})
    limited = Sequential(upper(store), mirror(store), limits=Limits(max_turns=1)).run_sync("ab")
    assert limited.status == "turn_limit"


def test_agents_without_a_model_use_that_of_the_command(store: TemporaryStore) -> None:
    agent = Agent(store=store.url, env={**store.env, "SANDBUR_MODEL": "demo"})
    result = Parallel(Sequential(agent)).run_sync("hello")
    assert result.status == "done"
    failed = Parallel(Agent(store=store.url, env={**store.env, "OLLAMA_HOST": "127.0.0.1:9"})).run_sync("hi")
    assert failed.error is not None
    assert "No model is set up" in failed.error.message


def test_agents_keep_their_tool_groups_and_the_models_that_they_fall_back_to(store: TemporaryStore) -> None:
    @tool(effect="read", needs="billing")
    def bill() -> str:
        """Write a bill."""
        return "billed"

    def reply(request: ModelRequest) -> Any:
        found = list(request.messages)[-1].tool_results
        return found[0].content if found else ToolCall("bill")

    clerk = make_agent(store, reply, tools=[bill], groups=["billing"])
    demo = Agent("demo", fallback_models=["demo"], store=store.url, env=store.env)
    result = Parallel(clerk, demo).run_sync("hello")
    assert result.output is not None
    assert result.output[0] == "billed"
    assert result.children[1].status == "done"


def test_a_workflow_is_confined_like_the_most_confined_of_its_agents(store: TemporaryStore) -> None:
    one = make_agent(store, last_text, sandbox="required", allow_net=["a.example", "b.example"])
    two = make_agent(store, last_text, sandbox="auto", allow_net=["b.example"])
    overrides = Parallel(one, two, upper(store)).definition.overrides
    assert (overrides["sandbox"], overrides["allow_net"]) == ("required", ("b.example",))
    assert Parallel(upper(store)).definition.overrides["sandbox"] == "off"


def test_dependencies_reach_the_tools_of_the_agents(store: TemporaryStore) -> None:
    @tool(effect="read")
    def read_name(run: RunContext[str]) -> str:
        """Read the name."""
        return run.deps

    def reply(request: ModelRequest) -> Any:
        found = list(request.messages)[-1].tool_results
        return found[0].content if found else ToolCall("read_name")

    workflow = Sequential(Parallel(make_agent(store, reply, tools=[read_name])))
    assert workflow.run_sync("go", deps="Ada").output == ["Ada"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda one: Parallel(), "Parallel needs at least one agent."),
        (lambda one: Parallel(one, len), "Parallel takes agents, and not len, "),
        (lambda one: Sequential(one, output=Score), "Sequential: `output` is for a function "),
        (
            lambda one: Parallel(one, Agent(name="upper")),
            "Parallel has two agents called 'upper'.",
        ),
        (
            lambda one: Vote(Agent(), Agent(name="branch1")),
            "Vote has two agents called 'branch1'.",
        ),
        (
            lambda one: Sequential(Agent(name="my agent")),
            "An agent that others start needs a name of letters, digits, _ and -, not 'my agent'.",
        ),
        (lambda one: Parallel(one, name="a" * 65), "Agent: `name` has 65 characters; 64 are the most."),
        (lambda one: Parallel(one, name="a\x1b[31m"), "Agent: `name` has control characters: 'a\\x1b[31m'."),
        (lambda one: Parallel(one, name="  "), "Agent: `name` has only spaces."),
        (lambda one: Parallel(one, description="a\0"), "Agent: `description` has control characters: "),
        (lambda one: Parallel(one, description=3), "Agent: `description` takes a text, and not an int."),
        (lambda one: Sequential(one, 3), "Sequential takes agents and functions, and not int, "),
        (lambda one: Parallel(one, on_failure="stop"), "on_failure='stop' is not possible."),
        (lambda one: Loop(one, max_iterations=0), "Loop: `max_iterations` takes a whole number from 1, "),
        (lambda one: Loop(one, until=3, max_iterations=1), "Loop: `until` takes a function, and not int."),
        (lambda one: Map(one, "ab"), "Map takes a list of inputs, and not str."),
        (lambda one: Vote(one, quorum=2), "Vote: 1 agents cannot give 2 equal answers."),
        (lambda one: Vote(one, ties="last"), "Vote: ties='last' is not possible."),
        (lambda one: Parallel(one, tools=[len]), "Parallel takes no argument `tools`."),
        (lambda one: Parallel(one).clone(name="x"), "A workflow cannot be cloned."),
        (lambda one: Parallel(one).output_validator(len), "A workflow has no output validators, "),
        (lambda one: Parallel(one).run_sync("x", model="demo"), "A run of a workflow takes no `model`"),
        (lambda one: Parallel(one).run_sync("x", output=int), "A run of a workflow takes no `output`"),
    ],
)
def test_a_mistake_is_one_sentence(
    store: TemporaryStore, make: Callable[[Agent[Any]], Any], sentence: str
) -> None:
    with pytest.raises((UsageError, WrongType)) as caught:
        make(upper(store))
    assert caught.value.message.startswith(sentence)


def test_a_workflow_cannot_come_to_contain_itself(store: TemporaryStore) -> None:
    agents: list[Agent[Any]] = []
    lead = make_agent(store, last_text, "lead", agents=agents)
    workflow = Sequential(lead, name="whole", description="Does it.")
    agents.append(workflow)
    assert workflow.run_sync("go").output == "go"


def test_an_output_of_none_is_handed_on_as_null_and_none(store: TemporaryStore) -> None:
    nothing: Agent[Any] = make_agent(store, lambda request: "null", output=Score | None)
    assert Sequential(upper(store), nothing).run_sync("x").output is None
    assert Sequential(nothing, repr).run_sync("x").output == "None"
    assert Sequential(nothing, upper(store)).run_sync("x").output == "NULL"


def test_a_value_that_cannot_be_json_ends_the_run_with_one_sentence(store: TemporaryStore) -> None:
    ends = [Sequential(upper(store), lambda text: object()), Map(upper(store), [object()])]
    messages = [failed.error.message for one in ends if (failed := one.run_sync("x")).error is not None]
    assert messages == ["A value of the workflow cannot be JSON: object."] * 2


def test_a_quorum_that_nobody_can_reach_ends_the_vote(store: TemporaryStore) -> None:
    asked: list[str] = []

    async def wait(request: ModelRequest) -> str:
        asked.append("slow")
        await asyncio.sleep(60)
        return "1"

    voters = [make_agent(store, lambda request, vote=vote: vote) for vote in ("1", "2")]
    result = Vote(*voters, make_agent(store, wait), quorum=3).run_sync("x")
    assert result.error is not None
    assert "3 votes that are needed" in result.error.message


def test_a_slash_command_answers_no_list(store: TemporaryStore) -> None:
    result = Parallel(upper(store)).run_sync("/help")
    assert (result.status, result.output) == ("done", None)
