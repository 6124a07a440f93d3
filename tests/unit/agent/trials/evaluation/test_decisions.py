"""`DecisionEvaluator` asks other models what a past session asked, and runs no tool."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command

import sandbur
from sandbur import Agent, DecisionEvaluator, EvaluationResult, ModelRequest, Overloaded, tool
from sandbur.agent.review.evaluation.decisions.recorded_requests import (
    DecisionCall,
    ModelDecision,
    compare_decisions,
)
from sandbur.state.errors import UsageError, WrongType
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall, temporary_store


@pytest.fixture
def store() -> Iterator[TemporaryStore]:
    with temporary_store() as lent:
        yield lent


SENT: list[str] = []


@tool
def send(text: str) -> str:
    """Send a text."""
    SENT.append(text)
    return "sent"


def has_result(request: ModelRequest) -> bool:
    return any(message.tool_results for message in request.messages)


def send_text(text: str, last: str = "done") -> Any:
    return lambda request: last if has_result(request) else ToolCall("send", text=text)


def make_agent(store: TemporaryStore, folder: Path, replies: Any) -> Agent[str]:
    return Agent(
        ScriptedModel(replies), tools=[send], store=store.url, env=store.env, cwd=folder, mode="yolo"
    )


@pytest.fixture
async def agent(store: TemporaryStore, tmp_path: Path) -> Agent[str]:
    agent = make_agent(store, tmp_path, send_text("hello"))
    await agent.run("Send hello.", session_id="past", tags=["chosen"])
    SENT.clear()
    return agent


async def ask(store: TemporaryStore, agent: Agent[str] | None, models: Any, **more: Any) -> EvaluationResult:
    evaluator = DecisionEvaluator(["past"], models, agent=agent, store=store.url, env=store.env, **more)
    return await evaluator.run()


async def test_decisions_are_compared_and_no_tool_runs(store: TemporaryStore, agent: Agent[str]) -> None:
    models = {
        "same": ScriptedModel(send_text("hello", "Done  now.")),
        "other": ScriptedModel(send_text("bye")),
        "talker": ScriptedModel(lambda request: "done"),
    }
    result = await ask(store, agent, models)
    assert not result.open
    assert not SENT
    assert [(run.contender, run.is_passed, run.own) for run in result.runs] == [
        ("same", True, {"same_tools": 1.0, "same_arguments": 1.0}),
        ("other", False, {"same_tools": 1.0, "same_arguments": 0.0}),
        ("talker", False, {"same_tools": 0.0, "same_arguments": 0.0}),
        ("same", True, {"same_tools": 1.0, "same_text": 0.0}),
        ("other", True, {"same_tools": 1.0, "same_text": 1.0}),
        ("talker", True, {"same_tools": 1.0, "same_text": 1.0}),
    ]
    assert result.runs[1].check == 'recorded: send {"text": "hello"}'
    assert [one.test.tasks for one in result.compare()] == [2, 2, 2]
    assert {run.sandbur_version for run in result.runs} == {sandbur.__version__}
    assert result.notices == ()


async def test_a_model_gets_the_recorded_request(store: TemporaryStore, agent: Agent[str]) -> None:
    recorded = agent.definition.model
    asked = ScriptedModel(send_text("hello"))
    await ask(store, agent, {"a": asked})
    assert isinstance(recorded, ScriptedModel)
    for mine, theirs in zip(asked.requests, recorded.requests, strict=True):
        assert list(mine.messages) == list(theirs.messages)
        assert (mine.system, mine.tools) == (theirs.system, theirs.tools)


async def test_an_answered_question_is_not_asked_again(store: TemporaryStore, agent: Agent[str]) -> None:
    model = ScriptedModel(send_text("hello"))
    first = await ask(store, agent, {"a": model})
    assert await ask(store, agent, {"a": model}) == first
    assert len(model.requests) == 2
    await ask(store, agent, {"a": model}, name="again")
    assert len(model.requests) == 4


async def test_a_question_without_an_answer_stays_open(store: TemporaryStore, agent: Agent[str]) -> None:
    result = await ask(store, agent, {"a": ScriptedModel([Overloaded("busy"), "done"])}, parallel=1)
    assert len(result.open) == 1
    assert not (await ask(store, agent, {"a": ScriptedModel(send_text("hello"))})).open


async def test_requests_with_tools_that_are_not_here_are_left_out(
    store: TemporaryStore, agent: Agent[str]
) -> None:
    with pytest.raises(UsageError, match="tools of the agent are not here"):
        await ask(store, None, {"a": ScriptedModel(["no"])})


async def test_wrong_arguments_of_decisions_are_named(store: TemporaryStore, agent: Agent[str]) -> None:
    with pytest.raises(WrongType, match="at least one each"):
        DecisionEvaluator("past", ["a/b"])
    with pytest.raises(UsageError, match="parallel=0"):
        DecisionEvaluator(["past"], ["a/b"], parallel=0)
    with pytest.raises(UsageError, match="id or the tag 'none'"):
        await DecisionEvaluator(["none"], ["a/b"], store=store.url, env=store.env).run()


def test_the_command_compares_models_at_past_requests(tmp_path: Path) -> None:
    command = Command(tmp_path)
    done = command.run("-p", "write hi to a.txt", "-m", "demo", "-y", "--output-format", "json")
    session_id = json.loads(done.out)["session_id"]
    (tmp_path / "a.txt").unlink()
    words = ("eval", "--sessions", session_id, "--decisions", "-m", "demo")
    first, second = command.run(*words, "--json"), command.run(*words, "--json")
    assert (first.code, second.code) == (0, 0), first.err
    assert json.loads(first.out) == json.loads(second.out)
    runs = [run for task in json.loads(first.out)["tasks"] for run in task["runs"]]
    assert len(runs) > 1
    assert all(run["pass"] for run in runs)
    assert "questions have answers already" in second.err
    assert not (tmp_path / "a.txt").exists()
    wrong = command.run("eval", "--sessions", session_id, "--decisions", "-m", "scripted")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--decisions asks real models" in wrong.err


async def test_sessions_whose_ids_begin_alike_are_different_tasks(
    store: TemporaryStore, tmp_path: Path
) -> None:
    agent = make_agent(store, tmp_path, send_text("hello"))
    ids = ["customer-1", "customer-2"]
    for session_id in ids:
        await agent.run("Send hello.", session_id=session_id)
    models = {"same": ScriptedModel(send_text("hello"))}
    evaluator = DecisionEvaluator(ids, models, agent=agent, store=store.url, env=store.env)
    result = await evaluator.run()
    assert [len(result.runs_of("same", task)) for task in result.tasks] == [1, 1, 1, 1]
    assert {task.split()[0] for task in result.tasks} == {*ids}


def test_a_call_that_is_made_once_agrees_with_one_of_two_equal_calls() -> None:
    call = DecisionCall(tool="send", arguments={"text": "hello"})
    agreement = compare_decisions(
        ModelDecision(text="", calls=(call, call)), ModelDecision(text="", calls=(call,))
    )
    assert agreement == (False, {"same_tools": 0.0, "same_arguments": 0.5})
