"""Answers that have to have a form: taken, asked for once more, refused, and all of it after a crash too."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands.recorded import READ, WRITE
from support.models.answering import BAD, GOOD, REPORT, Done, call_done, final, reporting
from support.models.real_ports import open_real
from support.models.scripted import START, ScriptedModel, collect, finish, plan
from support.places import PYTHONPATH
from support.stores.reopening import reopen

from sandbur.actions.ports.events import MessageAdded, Notice
from sandbur.actions.tools.registry import builtin_tools
from sandbur.actions.turn.output.format import output_schema
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.state.application import ENDED_BY_TOOL
from sandbur.state.store.store import Store


async def run(store: Store, folder: Path, *turns: Any, **more: Any) -> Any:
    session, _ = await reporting(store, folder, *turns, **more)
    return (await collect(session.send("go")))[1]


async def test_a_text_that_fits_is_the_answer_and_its_value(store: Store, tmp_path: Path) -> None:
    end = await run(store, tmp_path, GOOD)
    assert (end.status, end.result, end.usage.llm_calls) == ("done", GOOD, 1)
    assert (end.has_output, end.output) == (True, {"verdict": "good", "score": 3})


async def test_a_session_without_a_form_has_no_output_and_no_tool_for_it(
    store: Store, tmp_path: Path
) -> None:
    session = await open_real(store, model := ScriptedModel(GOOD), tmp_path)
    _, end = await collect(session.send("go"))
    assert (end.has_output, end.output, end.result) == (False, None, GOOD)
    [request] = model.requests
    assert request.output is None
    assert "final_answer" not in [spec.name for spec in request.tools]


@pytest.mark.parametrize("text", [f"```json\n{GOOD}\n```", f"\n  {GOOD} \n", f"```\n{GOOD}\n```\n"])
async def test_json_in_a_fence_is_read(store: Store, tmp_path: Path, text: str) -> None:
    end = await run(store, tmp_path, text)
    assert (end.result, end.output) == (GOOD, json.loads(GOOD))


async def test_a_call_of_final_answer_is_the_answer_too(store: Store, tmp_path: Path) -> None:
    session, model = await reporting(store, tmp_path, final(verdict="bad", score=0, note=None), "well")
    events, end = await collect(session.send("go"))
    assert (end.status, end.output, end.usage.llm_calls) == ("done", {"verdict": "bad", "score": 0}, 1)
    assert json.loads(end.result) == end.output
    assert [event.content for event in events if isinstance(event, MessageAdded)][-1] == end.result
    last = session.state.chat_history.last
    assert (last.role, last.origin, last.text) == ("assistant", "runtime", end.result)
    spec = model.requests[0].tools[-1]
    assert (spec.name, spec.parameters["additionalProperties"]) == ("final_answer", False)
    assert spec.parameters["required"] == ["verdict", "score", "note"]


async def test_tools_are_called_before_the_answer(store: Store, tmp_path: Path) -> None:
    session, model = await reporting(store, tmp_path, WRITE, READ, final(verdict="good", score=1, note="x"))
    _, end = await collect(session.send("go"))
    assert (end.output, end.usage.llm_calls) == ({"verdict": "good", "score": 1, "note": "x"}, 3)
    assert all(request.tools is model.requests[0].tools for request in model.requests)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (BAD, 'verdict: it is not one of "good" or "bad"'),
        ("It is good.", "it is not JSON"),
        ('{"verdict": "good"}', '"score" is a required property'),
        ('{"verdict": "good", "score": NaN}', "NaN is not JSON"),
        ('{"verdict": "good", "score": 1e999}', "1e999 is not JSON"),
        ('{"verdict": "good", "score": ' + "9" * 5000 + "}", "it is not JSON"),
        ("[" * 100_000, "it is nested too deep"),
        (final(verdict="good", score=-1, note=None), "score: it is less than the minimum of 0"),
    ],
)
async def test_what_does_not_fit_is_asked_for_once_more(
    store: Store, tmp_path: Path, wrong: Any, said: str
) -> None:
    session, model = await reporting(store, tmp_path, wrong, GOOD)
    events, end = await collect(session.send("go"))
    assert (end.status, end.output, end.usage.llm_calls) == ("done", json.loads(GOOD), 2)
    assert [request.forced_tool for request in model.requests] == [None, "final_answer"]
    told = list(model.requests[1].messages)[-1]
    assert said in (told.text or told.tool_results[0].content)
    assert any(said in event.message for event in events if isinstance(event, Notice))
    assert session.state.rejected_answers == 0


async def test_a_second_one_that_does_not_fit_is_an_error_with_the_raw_text(
    store: Store, tmp_path: Path
) -> None:
    session, model = await reporting(store, tmp_path, BAD, "no report today", GOOD)
    _, end = await collect(session.send("go"))
    assert (end.status, end.exit_code, end.error.code) == ("error", 1, "output_invalid")
    assert "no report today" in end.error.message
    assert "it is not JSON" in end.error.message
    assert (end.output, end.has_output, end.usage.llm_calls) == (None, True, 2)
    _, end = await collect(session.carry_on())
    assert (end.status, end.output, len(model.requests)) == ("done", json.loads(GOOD), 3)


async def test_after_the_error_one_more_try_is_made_and_no_further_one(store: Store, tmp_path: Path) -> None:
    session, model = await reporting(store, tmp_path, BAD, BAD, "x")
    for calls in (2, 3):
        _, end = await collect(session.send("go") if calls == 2 else session.carry_on())
        assert (end.error.code, len(model.requests)) == ("output_invalid", calls)
    assert "x" in end.error.message


async def test_a_new_message_begins_with_a_new_repair(store: Store, tmp_path: Path) -> None:
    session, _ = await reporting(store, tmp_path, BAD, BAD, BAD, GOOD)
    await collect(session.send("go"))
    _, end = await collect(session.send("again"))
    assert (end.status, end.output) == ("done", json.loads(GOOD))


async def test_final_answer_beside_other_calls_or_in_a_plan_step_is_refused(
    store: Store, tmp_path: Path
) -> None:
    turns = (
        [*READ, *final(verdict="good", score=1)],
        START, plan("one"), final(verdict="good", score=1), finish("one is done"), GOOD,
    )  # fmt: skip
    session, model = await reporting(store, tmp_path, *turns)
    _, end = await collect(session.send("go"))
    assert (end.status, end.output, end.workflow_mode) == ("done", json.loads(GOOD), "vibe")
    refused = [
        result.content
        for request in model.requests[1:]
        for message in request.messages
        for result in message.tool_results
        if result.tool == "final_answer"
    ]
    assert refused
    assert all("call it alone" in content for content in refused)
    # A step's own words and the plan are no answers.
    assert [request.output is None for request in model.requests] == [False, False, True, True, True, False]


async def test_an_answer_cut_at_the_output_limit_is_told_so(store: Store, tmp_path: Path) -> None:
    session, model = await reporting(store, tmp_path, GOOD, GOOD)
    model.finish = "length"
    _, end = await collect(session.send("go"))
    assert end.error.code == "output_invalid"
    assert "cut at the output limit" in end.error.message


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "array", "items": {"type": "integer"}}, '{"value": [1, 2]}', [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "string"}, '"plain"', "plain"),
        ({"type": ["integer", "null"]}, '{"value": null}', None),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, '{"value": 7}', 7),
    ],
)
async def test_an_answer_that_is_no_object_is_asked_for_in_one(
    store: Store, tmp_path: Path, schema: Any, text: str, value: Any
) -> None:
    end = await run(store, tmp_path, text, schema=schema)
    assert (end.status, end.output, json.loads(end.result)) == ("done", value, value)


async def test_the_session_keeps_its_form(store: Store, tmp_path: Path) -> None:
    session, _ = await reporting(store, tmp_path, GOOD)
    await collect(session.send("go"))
    stored = reopen(store).index.settings("s1")
    assert stored.output_schema == output_schema(REPORT)
    assert json.loads(stored.model_dump_json())["output_schema"]["json_schema"] == REPORT


async def test_only_a_session_with_a_rejected_answer_is_of_the_newer_graph(
    store: Store, tmp_path: Path
) -> None:
    for name, turns in (("a", (GOOD,)), ("b", (BAD, GOOD))):
        session, _ = await reporting(store, tmp_path, *turns, session_id=name)
        session._position.change(graph_version=1)
        await collect(session.send("go"))
        assert session.state.graph_version == (1 if name == "a" else ENDED_BY_TOOL)


WORKFLOWS: dict[str, tuple[Any, ...]] = {
    "fits": (GOOD,),
    "by tool": (READ, final(verdict="good", score=2, note=None)),
    "repaired": (BAD, GOOD),
    "repaired by tool": (final(verdict="x"), READ, final(verdict="good", score=2, note="n")),
    "plan": (START, plan("one"), finish("did"), "words", GOOD),
    "given up": (BAD, BAD, GOOD),
}


@pytest.mark.parametrize("name", WORKFLOWS)
async def test_a_replay_comes_to_the_same(store: Store, tmp_path: Path, name: str) -> None:
    session, _ = await reporting(store, tmp_path, *WORKFLOWS[name])
    _, end = await collect(session.send("go"))
    if end.error is not None:
        _, end = await collect(session.carry_on())
    assert end.status == "done"
    replayed = await replay(store, "s1")
    assert replayed.divergence is None
    assert replayed.recorded_only == ()


async def test_a_done_tool_has_to_be_called(store: Store, tmp_path: Path) -> None:
    toolbox = {**builtin_tools(), "done": Done()}
    model = ScriptedModel("I am through.", "Really.", [call_done("the end")])
    session = await open_real(store, model, tmp_path, done_tool="done", toolbox=toolbox)
    _, end = await collect(session.send("go"))
    assert (end.status, end.result, end.usage.llm_calls) == ("done", "the end", 3)
    assert "Call done to finish" in list(model.requests[1].messages)[-1].text
    found = await replay(store, "s1", today=Today(toolbox={**builtin_tools(), "done": Done()}))
    assert found.divergence is None


async def test_a_model_that_never_calls_it_is_told_three_times(store: Store, tmp_path: Path) -> None:
    toolbox = {**builtin_tools(), "done": Done()}
    model = ScriptedModel(*["words"] * 4, [call_done("at last")])
    session = await open_real(store, model, tmp_path, done_tool="done", toolbox=toolbox)
    _, end = await collect(session.send("go"))
    assert (end.exit_code, end.error.code) == (1, "done_tool_not_called")
    assert "words" in end.error.message
    _, end = await collect(session.carry_on())
    assert (end.status, end.result) == ("done", "at last")


async def test_without_its_done_tool_a_run_ends_by_an_answer(store: Store, tmp_path: Path) -> None:
    session = await open_real(store, ScriptedModel("words"), tmp_path, done_tool="done")
    _, end = await collect(session.send("go"))
    assert (end.status, end.result) == ("done", "words")


@pytest.mark.parametrize(("text", "output"), [(GOOD, json.loads(GOOD)), ("no report", None)])
async def test_what_a_tool_ends_with_is_the_output_if_it_fits(
    store: Store, tmp_path: Path, text: str, output: Any
) -> None:
    toolbox = {**builtin_tools(), "done": Done()}
    end = await run(store, tmp_path, [call_done(text)], toolbox=toolbox, done_tool="done")
    assert (end.status, end.result, end.output) == ("done", text, output)


DIES = """
import asyncio, sys
from pathlib import Path
from support.models.scripted import collect
from sandbur.state.store.store import Store
from support.models.answering import BAD, GOOD, final, reporting

async def main(url, folder, by_tool):
    wrong = final(verdict="fine", score=3) if by_tool else BAD
    session, _ = await reporting(Store.open(url), Path(folder), wrong, GOOD, GOOD)
    await collect(session.send("go"))

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] == "tool"))
"""
POINTS = [
    "request_before_send:1", "reply_before_commit:1", "repair_before_commit:1", "request_before_send:2",
    "reply_before_commit:2",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("how", ["text", "tool"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_during_the_repair_resumes_in_it(
    store: Store, tmp_path: Path, point: str, how: str
) -> None:
    env = {**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{PYTHONPATH}", "SANDBUR_CRASH_AT": point}
    words = [sys.executable, "-c", DIES, store.url, str(tmp_path), how]
    ended = await asyncio.to_thread(subprocess.run, words, env=env, check=False)
    assert ended.returncode == -signal.SIGKILL
    is_in_repair = point in POINTS[3:]
    again = reopen(store)
    session, model = await reporting(again, tmp_path, *([] if is_in_repair else [BAD]), BAD, GOOD)
    assert session.state.rejected_answers == int(is_in_repair)
    _, end = await collect(session.carry_on())
    # One repair in all, whoever made it.
    assert (end.error.code, len(model.requests)) == ("output_invalid", 1 if is_in_repair else 2)
    assert [request.forced_tool for request in model.requests][-1] == "final_answer"
    _, end = await collect(session.carry_on())
    assert (end.status, end.output) == ("done", json.loads(GOOD))
