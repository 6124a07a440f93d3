"""What the tracking backend shows of sessions, on every kind of database."""

import asyncio
from pathlib import Path

import pytest
from burr.tracking.server import schema
from fastapi import HTTPException
from support.models.scripted import START, Recorder, ScriptedModel, collect, open_session
from support.screens.tracked import (
    cancel_run,
    chat,
    dead,
    disown,
    run_approved_call,
    run_plan,
    run_to_failure,
)
from support.screens.tracking_reader import HERE, answer, asking, attributes, find_step, logs, read_end_log

from sandbur.agent.history.tracking.burr_backend import StoreBackend
from sandbur.state.calls import CallDecision
from sandbur.state.errors import ModelError
from sandbur.state.session import SpawnedBy
from sandbur.state.store.store import Store


async def test_a_folder_is_a_project_and_a_session_an_application(
    store: Store, backend: StoreBackend
) -> None:
    await chat(store, "one", "hello", text="say hello")
    await chat(store, "two", "hello")
    (project,) = await backend.list_projects(asking())
    assert (project.id, project.name, project.num_apps) == (HERE, str(Path.cwd()), 2)
    apps, total = await backend.list_apps(asking(), HERE, None, 1, 1)
    assert ([app.app_id for app in apps], total) == (["one"], 2)
    key = "say-hello · done · one · $0.0000"
    assert (apps[0].num_steps, apps[0].partition_key, apps[0].tags["status"]) == (2, key, "done")
    for asked in ("say-hello", key, key.replace("done", "running")):
        assert (await backend.list_apps(asking(), HERE, asked, 9, 0))[1] == 1
    assert await backend.list_apps(asking(), "elsewhere", None, 9, 0) == ([], 0)


async def test_a_step_shows_its_input_state_and_result(store: Store, backend: StoreBackend) -> None:
    await chat(store, "s", "the answer", text="the question")
    page = await logs(backend, "s")
    assert [step.step_start_log.action for step in page.steps] == ["prompt", "router"]
    prompt, router = page.steps
    assert prompt.step_start_log.inputs == {"user_input": "the question"}
    assert attributes(prompt)["session"]["model"] == "scripted/one"
    assert attributes(prompt)["run"]["mode"] == "yolo"
    assert read_end_log(router).result == {"summary": "the answer"}
    assert read_end_log(router).state["chat_history"] == {"messages": 2, "added": [{"model": "the answer"}]}
    assert attributes(router)["run_ended"]["status"] == "done"
    assert read_end_log(router).exception is None
    assert "vibe_plan" in read_end_log(router).state["(at their defaults)"]


async def test_a_model_call_is_a_span_that_says_what_it_sent_and_took(
    store: Store, backend: StoreBackend
) -> None:
    await chat(store, "s", [("act", {"text": "a"})], "done", text="go")
    page = await logs(backend, "s")
    last = page.steps[-1]
    (span,) = last.spans
    said = attributes(last, 0)
    assert span.begin_entry.span_name == "chat scripted/one"
    assert said["request"]["messages"] == 3
    assert [next(iter(message)) for message in said["new_messages"]] == ["calls", "tool"]
    assert said["usage"]["output_tokens"] == 5
    assert said["gen_ai.response.model"] == "one"
    assert said["gen_ai.usage.prompt_tokens"] == said["usage"]["input_tokens"]
    assert said["gen_ai.usage.completion_tokens"] == 5
    assert said["latency"]["pieces"] == 1
    assert said["finish"] == "stop"
    assert [event.type for event in last.streaming_events] == [
        "begin_stream",
        "first_item_stream",
        "end_stream",
    ]


async def test_a_model_call_without_a_known_usage_counts_for_nothing(
    store: Store, backend: StoreBackend
) -> None:
    await run_to_failure(store)
    said = attributes((await logs(backend, "failed")).steps[-1], 0)
    assert not [name for name in said if name.startswith("gen_ai.usage")]


async def test_a_session_whose_cost_is_unknown_or_unreadable_is_listed_as_such(
    store: Store, backend: StoreBackend
) -> None:
    session = await open_session(store, ScriptedModel("hi", cost_usd=None), Recorder(), session_id="free")
    await collect(session.send("///"))
    (app,), _ = await backend.list_apps(asking(), HERE, None, 9, 0)
    assert app.partition_key == "- · done · one · cost unknown"
    assert (await backend.list_apps(asking(), HERE, app.partition_key, 9, 0))[1] == 1
    await chat(store, "free", "hello", text="again")
    store.database.commit([("UPDATE steps SET fields = '[' WHERE seq = 1", ())])
    reading = StoreBackend(store.url)
    (app,), _ = await reading.list_apps(asking(), HERE, None, 9, 0)
    reading.close()
    assert str(app.partition_key).endswith("cost unknown")


async def test_a_tool_call_is_a_span_that_says_who_approved_it(store: Store, backend: StoreBackend) -> None:
    await run_approved_call(store)
    page = await logs(backend, "approved")
    (decision,) = find_step(page, "human_confirm").step_start_log.inputs["decisions"]
    assert (decision["decision"], decision["who"]) == ("approved", "ada@workshop")
    acted = find_step(page, "execute_tools")
    assert acted.spans[0].begin_entry.span_name == "act risky"
    assert acted.spans[0].end_entry is not None
    said = attributes(acted, 0)
    assert (said["arguments"], said["outcome"]) == ({"text": "risky"}, "ok")
    assert (said["decided_by"], said["who"], said["result"]) == ("person", "ada@workshop", "did risky")
    waiting = read_end_log(find_step(page, "router")).state["pending_tool_calls"][0]
    assert (waiting["decision"], waiting["arguments"]) == ("undecided", {"text": "risky"})
    assert attributes(find_step(page, "router"))["proposed_calls"][0]["tool"] == "act"


async def test_work_on_a_step_of_the_plan_is_a_child_that_points_back(
    store: Store, backend: StoreBackend
) -> None:
    await run_plan(store)
    page = await logs(backend, "planned")
    spawned = [child for child in page.children if child.event_type == "spawn_start"]
    assert [child.child.app_id for child in spawned] == ["planned~step-1", "planned~step-2"]
    child = await logs(backend, "planned~step-2")
    assert child.spawning_parent_pointer is not None
    assert (child.spawning_parent_pointer.app_id, child.parent_pointer) == ("planned", None)
    assert child.spawning_parent_pointer.sequence_id == spawned[1].sequence_id
    assert [step.step_start_log.action for step in child.steps] == [
        "vibe_step_executor",
        "execute_tools",
        "vibe_result_analyzer",
        "step_summarizer",
    ]
    step = read_end_log(child.steps[1]).state["active_step"]
    assert (step["description"], step["chat_history"]["messages"]) == ("write it down", 3)
    assert step["chat_history"]["added"][0]["content"] == "did write"
    with pytest.raises(HTTPException, match="404"):
        await answer(backend, "planned~step-9")


async def test_a_fork_and_what_it_was_forked_from_point_at_each_other(
    store: Store, backend: StoreBackend
) -> None:
    await chat(store, "parent", "one", text="first")
    store.fork("parent", "child", 1)
    await chat(store, "child", "two", text="second")
    (link,) = (await logs(backend, "parent")).children
    assert (link.event_type, link.child.app_id, link.sequence_id) == ("fork", "child", 1)
    page = await logs(backend, "child")
    assert page.parent_pointer is not None
    assert (page.parent_pointer.app_id, page.parent_pointer.sequence_id) == ("parent", 1)
    assert [step.step_start_log.sequence_id for step in page.steps] == [2, 3]
    assert read_end_log(page.steps[0]).state["chat_history"]["added"] == [{"person": "second"}]
    apps, _ = await backend.list_apps(asking(), HERE, None, 9, 0)
    assert {app.app_id: app.parent_pointer and app.parent_pointer.app_id for app in apps} == {
        "parent": None,
        "child": "parent",
    }


async def test_a_failed_run_ends_with_the_action_that_failed(store: Store, backend: StoreBackend) -> None:
    await run_to_failure(store)
    last = (await logs(backend, "failed")).steps[-1]
    assert last.step_start_log.action == "router"
    assert read_end_log(last).exception == "model: The provider said 500."
    assert "500" in attributes(last, 0)["error"]
    session = await open_session(
        store, ScriptedModel(ModelError("Once more."), "better"), Recorder(), session_id="failed"
    )
    await collect(session.carry_on())
    assert read_end_log((await logs(backend, "failed")).steps[-1]).exception == "model: Once more."
    await collect(session.carry_on())
    page = await logs(backend, "failed")
    assert [read_end_log(step).exception for step in page.steps] == [None, None]
    assert "500" in attributes(page.steps[0])["run_ended"]["error"]
    assert "Once more" in attributes(page.steps[1])["earlier_attempts"][0]["ended"]["error"]
    assert len(page.steps[1].spans) == 3


async def test_a_run_whose_process_died_says_so(store: Store, backend: StoreBackend) -> None:
    await dead(store)
    last = (await logs(backend, "dead")).steps[-1]
    assert last.step_start_log.action == "router"
    assert "The process of this run died" in read_end_log(last).exception


async def test_a_call_whose_process_died_has_an_end_and_no_known_outcome(
    store: Store, backend: StoreBackend
) -> None:
    began = asyncio.Event()

    async def never(text: str) -> None:
        began.set()
        await asyncio.Event().wait()

    tool = Recorder(work=never)
    session = await open_session(store, ScriptedModel([("act", {"text": "x"})]), tool, session_id="s")
    run = asyncio.ensure_future(collect(session.send("go")))
    await began.wait()
    running = (await logs(backend, "s")).steps[-1]
    assert (running.step_start_log.action, running.spans[0].end_entry) == ("execute_tools", None)
    assert attributes(running, 0)["outcome"] == "running"
    disown(store, "s")
    died = (await logs(backend, "s")).steps[-1]
    assert died.spans[0].end_entry is not None
    assert attributes(died, 0)["outcome"] == "unknown: no end is recorded"
    await cancel_run(run)


async def test_a_running_session_shows_what_it_does_now(store: Store, backend: StoreBackend) -> None:
    working, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> str:
        working.set()
        await go_on.wait()
        return "at last"

    session = await open_session(store, ScriptedModel(slowly), Recorder(), session_id="live")
    run = asyncio.ensure_future(collect(session.send("take your time")))
    await working.wait()
    page = await answer(backend, "live")
    now = schema.ApplicationLogs.model_validate_json(page.body).steps[-1]
    assert (now.step_start_log.action, now.step_end_log) == ("router", None)
    assert (await answer(backend, "live", page.headers["etag"])).status_code == 304
    go_on.set()
    await run
    after = await answer(backend, "live", page.headers["etag"])
    assert after.status_code == 200
    last = schema.ApplicationLogs.model_validate_json(after.body).steps[-1]
    assert read_end_log(last).result == {"summary": "at last"}


async def test_a_plan_under_way_is_a_child_that_grows(store: Store, backend: StoreBackend) -> None:
    steps = [("submit_plan", {"steps": [{"description": "ask first"}]})]
    session = await open_session(
        store, ScriptedModel(START, steps, [("act", {"text": "x"})]), Recorder(), session_id="s",
        mode="interactive",
    )  # fmt: skip
    await collect(session.send("go"))
    child = await logs(backend, "s~step-1")
    assert [step.step_start_log.action for step in child.steps] == ["vibe_step_executor", "human_confirm"]


async def test_a_session_that_waits_for_a_decision_says_how_to_give_it(
    store: Store, backend: StoreBackend
) -> None:
    session = await open_session(
        store, ScriptedModel([("act", {"text": "x"})]), Recorder(), session_id="s", mode="interactive"
    )
    await collect(session.send("go"))
    last = (await logs(backend, "s")).steps[-1]
    assert (last.step_start_log.action, last.step_end_log) == ("human_confirm", None)
    assert "sandbur approve s --all" in attributes(last)["waits_for"]


async def test_arguments_that_a_person_changed_are_those_that_ran(
    store: Store, backend: StoreBackend
) -> None:
    session = await open_session(
        store, ScriptedModel([("act", {"text": "much"})], "done"), Recorder(), session_id="s",
        mode="interactive",
    )  # fmt: skip
    await collect(session.send("go"))
    call_id = session.state.pending_tool_calls[0].call_id
    decision = CallDecision(call_id=call_id, approved=True, arguments='{"text":"little"}', by="ada@workshop")
    await collect(session.decide([decision]))
    acted = find_step(await logs(backend, "s"), "execute_tools")
    assert (attributes(acted, 0)["arguments"], attributes(acted, 0)["edited"]) == ({"text": "little"}, True)
    assert acted.spans[0].begin_entry.span_name == "act little"


async def test_an_interrupted_run_says_how_to_go_on(store: Store, backend: StoreBackend) -> None:
    working = asyncio.Event()

    async def never() -> str:
        working.set()
        await asyncio.Event().wait()
        return ""

    session = await open_session(store, ScriptedModel(never), Recorder(), session_id="s")
    run = asyncio.ensure_future(collect(session.send("go")))
    await working.wait()
    await session.interrupt()
    await run
    last = (await logs(backend, "s")).steps[-1]
    assert last.step_start_log.action == "router"
    assert "interrupted" in read_end_log(last).exception
    assert "sandbur -r s" in read_end_log(last).exception


async def test_a_sub_agent_is_a_child_that_its_parents_step_spawned(
    store: Store, backend: StoreBackend
) -> None:
    await chat(store, "parent", "fine")
    await chat(store, "child", "fine")
    by = SpawnedBy(session_id="parent", sequence=0, call_id="c", agents=("reader",))
    settings = store.index.settings("child").model_copy(update={"spawned_by": by})
    columns = "settings = ?, parent_session = 'parent', parent_sequence = 0, parent_call = 'c'"
    sql = f"UPDATE sessions SET {columns} WHERE id = 'child'"
    store.database.commit([(sql, (settings.model_dump_json(),))])
    page = await logs(backend, "parent")
    (spawned,) = [one for one in page.children if one.event_type == "spawn_start"]
    assert (spawned.child.app_id, spawned.sequence_id) == ("child", 1)
    child = await logs(backend, "child")
    assert child.spawning_parent_pointer is not None
    assert (child.spawning_parent_pointer.app_id, child.spawning_parent_pointer.sequence_id) == ("parent", 1)
    assert child.parent_pointer is None
