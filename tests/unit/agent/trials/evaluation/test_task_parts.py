"""A task may bring tools, turns and earlier sessions; its check may return metrics."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbur import Agent, Evaluator, ModelRequest, RunContext, Solution, Suite, Task, tool, workspace_tools
from sandbur.agent.review.evaluation.contender import Contender
from sandbur.agent.review.evaluation.runs.workers import require_on_workers
from sandbur.agent.review.evaluation.suites.task import EarlierSession
from sandbur.state.errors import UsageError, WrongType
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall, temporary_store


@pytest.fixture
def store() -> Iterator[TemporaryStore]:
    with temporary_store() as lent:
        yield lent


@tool(effect="idempotent")
def note(text: str, run: RunContext) -> str:
    """Write a note."""
    (run.workspace / "note.txt").write_text(text)
    return "Written."


def call_note(request: ModelRequest) -> Any:
    if any(message.tool_results for message in request.messages):
        return "done"
    return ToolCall("note", text="hello")


def make_agent(store: TemporaryStore, replies: Any) -> tuple[Agent[str], ScriptedModel]:
    model = ScriptedModel(replies)
    tools = workspace_tools()
    return Agent(
        model, instructions="Be brief.", tools=tools, memory="agent", store=store.url, env=store.env
    ), model


async def evaluate(store: TemporaryStore, agent: Agent[str], task: Task) -> Any:
    result = await Evaluator(Suite([task]), {"a": agent}, store=store.url, env=store.env).run()
    assert not result.open
    return result.runs[0]


async def test_the_tools_of_a_task_replace_those_of_the_agent(store: TemporaryStore) -> None:
    def is_written(solution: Solution) -> dict[str, float]:
        assert [one.tool for message in solution.history for one in message.tool_uses] == ["note"]
        return {"reward": 1.0, "length": len((solution.workspace / "note.txt").read_text())}

    agent, model = make_agent(store, call_note)
    run = await evaluate(store, agent, Task("Write hello.", tools=[note], check=is_written))
    assert (run.is_passed, run.own) == (True, {"length": 5.0})
    assert [spec.name for spec in model.requests[0].tools] == ["note", "read_result"]
    assert model.requests[0].system.startswith("Be brief.")


LONG = ("first " * 200).strip()


async def test_turns_are_sent_in_order_in_one_session(store: TemporaryStore) -> None:
    agent, model = make_agent(store, lambda request: "summary" if request.purpose == "summary" else "ok")
    task = Task("third", turns=(LONG, "second", "/compact"), check=lambda solution: solution.result == "ok")
    run = await evaluate(store, agent, task)
    assert run.is_passed
    assert [request.purpose for request in model.requests] == ["turn", "turn", "summary", "turn"]
    assert [list(request.messages)[-1].text for request in model.requests if request.purpose == "turn"] == [
        LONG,
        "second",
        "third",
    ]


async def test_earlier_sessions_work_in_the_same_workspace_and_count(store: TemporaryStore) -> None:
    def has_both(solution: Solution) -> None:
        assert [[message.text for message in one] for one in solution.earlier] == [
            ["one", "ok", "two", "ok"],
            ["three", "ok"],
        ]
        assert [message.text for message in solution.history] == ["four", "ok"]

    agent, model = make_agent(store, lambda request: "ok")
    earlier = (EarlierSession(("one", "two")), EarlierSession(("three",)))
    run = await evaluate(store, agent, Task("four", earlier=earlier, check=has_both))
    assert run.is_passed, run.check
    assert run.turns == len(model.requests) == 4


async def test_the_check_and_earlier_sessions_are_children_of_the_run(store: TemporaryStore) -> None:
    agent, _ = make_agent(store, lambda request: "ok")
    task = Task("two", earlier=(EarlierSession(("one",)),), check="true")
    run = await evaluate(store, agent, task)
    kept = Store.open(store.url)
    try:
        assert [one.id for one in kept.roots()] == [run.session_id]
        children = {one.id for one in kept.index.children_of(run.session_id, 10)}
        assert children == {f"{run.session_id}.1", f"{run.session_id}.check"}
    finally:
        kept.close()


def test_a_changed_turn_or_tool_changes_the_digest() -> None:
    @tool
    def other(text: str) -> str:
        """Write another note."""
        return text

    plain = Task("a", check="true")
    changed = [
        Task("a", check="true", turns=("b",)),
        Task("a", check="true", earlier=(EarlierSession(("b",)),)),
        Task("a", check="true", tools=[note]),
        Task("a", check="true", tools=[other]),
    ]
    assert len({task.digest for task in (plain, *changed)}) == 5
    with pytest.raises(WrongType, match="turns"):
        Task("a", check="true", turns=("",))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"tools": [note]}, "it has tools."),
        ({"turns": ("First.",), "interrupt_at_call": 1}, "it has turns and interrupt_at_call."),
        ({"earlier": (EarlierSession(("First.",)),)}, "it has earlier sessions."),
    ],
)
def test_a_task_with_more_than_an_instruction_is_refused_on_workers(
    store: TemporaryStore, parts: Any, said: str
) -> None:
    agent, _ = make_agent(store, ["done"])
    suite = Suite([Task("Go.", check="true", name="talk", **parts)])
    with pytest.raises(UsageError) as refused:
        Evaluator(suite, {"a": agent}, workers=True, store=store.url, env=store.env)
    assert f"Workers cannot run the task talk: {said}" in str(refused.value)


def test_workers_get_the_agent_of_a_file_only_as_the_file_has_it(tmp_path: Path) -> None:
    file = tmp_path / "desk.toml"
    file.write_text('instructions = "Help."\nmodel = "demo"\n')
    agents = [Agent.from_file(file), Agent.from_file(file, tools=[note])]
    whole, changed = (Contender("desk", definition=one.definition, is_of_program=True) for one in agents)
    assert require_on_workers(whole) == str(file)
    with pytest.raises(UsageError, match="Workers cannot run desk"):
        require_on_workers(changed)
