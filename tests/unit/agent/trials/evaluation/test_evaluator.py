"""`Evaluator` runs each task once for each repeat, and goes on where an earlier process was."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

from sandbur import (
    Agent,
    EvaluationResult,
    Evaluator,
    JudgeMetric,
    Metric,
    ModelRequest,
    Overloaded,
    Solution,
    Suite,
    Task,
    Usage,
    workspace_tools,
)
from sandbur.state.errors import UsageError, UserCodeError, WrongType
from sandbur.testing import Say, ScriptedModel, TemporaryStore, ToolCall, temporary_store


@pytest.fixture
def store() -> Iterator[TemporaryStore]:
    with temporary_store() as lent:
        yield lent


def write_answer(request: ModelRequest) -> Any:
    if any(message.tool_results for message in request.messages):
        return "written"
    return ToolCall("write_file", path="answer.txt", content="42\n")


def has_answer(solution: Solution) -> None:
    assert (solution.workspace / "answer.txt").read_text() == "42\n"


SUITE = Suite([Task("Write 42 into answer.txt.", check=has_answer, name="write")])


def make_agent(store: TemporaryStore, replies: Any = write_answer) -> Agent[str]:
    return Agent(ScriptedModel(replies), tools=workspace_tools(), store=store.url, env=store.env)


async def evaluate(
    store: TemporaryStore, agents: dict[str, Any], suite: Suite = SUITE, **more: Any
) -> EvaluationResult:
    return await Evaluator(suite, agents, store=store.url, env=store.env, **more).run()


async def test_runs_are_checked_measured_and_compared(store: TemporaryStore) -> None:
    agents = {"good": make_agent(store), "bad": make_agent(store, lambda request: "no")}
    result = await evaluate(store, agents, repeats=2, metrics=[Metric("length", lambda one: len(one.result))])
    assert [(run.contender, run.is_passed, run.own["length"]) for run in result.runs] == [
        ("good", True, 7.0),
        ("good", True, 7.0),
        ("bad", False, 2.0),
        ("bad", False, 2.0),
    ]
    assert result.runs[2].check.startswith("FileNotFoundError")
    values = {one.name: one.interval for one in result.metrics_of("good")}
    assert values["pass@1"] == values["pass^2"] == (1.0, 1.0, 1.0)
    assert values["turns"] == (2.0, 2.0, 2.0)
    assert [(one.first, one.second, one.test.better) for one in result.compare()] == [("good", "bad", 1)]
    assert not result.open


async def test_ended_runs_are_not_repeated_and_more_repeats_are_added(store: TemporaryStore) -> None:
    agent = make_agent(store)
    first = await evaluate(store, {"good": agent})
    model = agent.definition.model
    assert isinstance(model, ScriptedModel)
    count = len(model.requests)
    assert await evaluate(store, {"good": agent}) == first
    assert len(model.requests) == count
    again = await evaluate(store, {"good": agent}, repeats=2)
    assert again.runs[0] == first.runs[0]
    assert len(model.requests) == 2 * count
    other = await evaluate(store, {"good": agent}, name="after a change")
    assert other.runs[0].session_id != first.runs[0].session_id


async def test_a_run_that_failed_stays_open_and_goes_on(store: TemporaryStore) -> None:
    failing = {"good": make_agent(store, [Overloaded("busy")])}
    first = await evaluate(store, failing)
    assert list(first.open) == ["write · good · 1"]
    second = await evaluate(store, {"good": make_agent(store)})
    assert not second.open
    assert second.runs[0].is_passed


async def test_no_run_begins_when_the_budget_is_spent(store: TemporaryStore) -> None:
    usage = Usage(llm_calls=1, input_tokens=1, output_tokens=1, cost_usd=0.5)
    agent = make_agent(store, lambda request: Say("42", usage=usage))
    suite = Suite([Task(f"Say {number}.", check=lambda one: "42" in one.result) for number in range(4)])
    result = await evaluate(store, {"a": agent}, suite, budget_usd=1.0, parallel=1)
    assert len(result.runs) == 2
    assert set(result.open.values()) == {"the budget of 1 USD is spent"}
    whole = await evaluate(store, {"a": agent}, suite, parallel=1)
    assert (len(whole.runs), whole.open) == (4, {})


async def test_the_cost_is_unknown_if_that_of_one_run_is(store: TemporaryStore) -> None:
    def answer(request: ModelRequest) -> Say:
        cost = 0.5 if "Say 1" in list(request.messages)[-1].text else None
        return Say("42", usage=Usage(llm_calls=1, input_tokens=1, output_tokens=1, cost_usd=cost))

    tasks = [Task(f"Say {number}.", check=lambda one: "42" in one.result) for number in (1, 2)]
    for count, known in ((1, True), (2, False)):
        result = await evaluate(store, {"a": make_agent(store, answer)}, Suite(tasks[:count]))
        found = {one.name: one.interval for one in result.metrics_of("a")}
        assert (found["cost_usd"] is not None) is known


async def test_a_call_that_asks_is_denied_and_counted(store: TemporaryStore) -> None:
    suite = Suite([Task("Write.", check="test ! -e answer.txt")])
    agent = make_agent(store).clone(ask=["write_file"])
    result = await evaluate(store, {"a": agent}, suite)
    assert [(run.is_passed, run.questions, run.status) for run in result.runs] == [(True, 1, "denied")]


async def test_an_error_of_a_check_is_raised_and_nothing_is_recorded(store: TemporaryStore) -> None:
    suite = Suite([Task("Go.", check=lambda one: one.nothing)])  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(UserCodeError, match="The check of the task task-1 failed: AttributeError"):
            await evaluate(store, {"a": make_agent(store)}, suite)


async def test_a_judge_scores_by_a_rubric_in_a_session_of_its_own(store: TemporaryStore) -> None:
    judge = ScriptedModel(lambda request: {"reason": "It is right.", "score": 9})
    metric = JudgeMetric(judge, "The file holds the answer.")
    agents = {"good": make_agent(store)}
    result = await evaluate(store, agents, metrics=[metric])
    assert result.runs[0].own == {"judge": 9.0}
    asked = list(judge.requests[0].messages)[-1].text
    assert "<answer>\nwritten\n</answer>" in asked
    assert '"answer.txt": "42\\n"' in asked
    await evaluate(store, agents, metrics=[metric])
    assert len(judge.requests) == 1


async def test_a_result_survives_json_and_finds_regressions(store: TemporaryStore) -> None:
    good = await evaluate(store, {"agent": make_agent(store)})
    bad = await evaluate(store, {"agent": make_agent(store, lambda request: "no")}, name="worse")
    baseline = EvaluationResult.from_json(good.to_json())
    assert baseline.runs == good.runs
    assert good.find_regressions(baseline) == []
    assert [sentence.partition(":")[0] for sentence in bad.find_regressions(baseline)] == [
        "agent is worse than the baseline"
    ]
    other = Suite([Task("Another.", check="true", name="other")])
    unlike = await evaluate(store, {"agent": make_agent(store)}, other)
    with pytest.raises(UsageError, match="no contender and task"):
        unlike.find_regressions(baseline)
    with pytest.raises(ValueError, match="no result"):
        EvaluationResult.from_json({"kind": "other"})


def test_wrong_arguments_are_told(store: TemporaryStore) -> None:
    with pytest.raises(WrongType, match="at least one"):
        Evaluator(SUITE, {})
    with pytest.raises(UsageError, match="repeats=0"):
        Evaluator(SUITE, {"a": make_agent(store)}, repeats=0)
    with pytest.raises(WrongType, match="rubric"):
        JudgeMetric("a/b", " ")


@pytest.mark.parametrize("number", [0, 1])
def test_the_programs_of_the_page_print_what_the_page_says(tmp_path: Path, number: int) -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text()
    program, printed = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)[number]
    (tmp_path / "program.py").write_text(program)
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "SANDBUR_HOME": str(tmp_path / "data")}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


@pytest.mark.parametrize("wrong", ["nan", "inf"])
@pytest.mark.parametrize("is_script", [True, False])
async def test_a_reward_that_is_no_finite_number_is_zero(
    store: TemporaryStore, wrong: str, is_script: bool
) -> None:
    script = f"echo {wrong} > /logs/verifier/reward.txt"
    task = Task("Divide by zero.", check=script if is_script else lambda solution: float(wrong))
    metrics = [Metric("ratio", lambda solution: float(wrong)), Metric("one", lambda solution: 1)]
    agents = {"a": make_agent(store, lambda request: "done")}
    result = await evaluate(store, agents, Suite([task]), metrics=metrics)
    assert [(run.reward, run.own) for run in result.runs] == [(0.0, {"one": 1.0})]
