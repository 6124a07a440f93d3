"""What a session promises: the gate holds, every end is a result, every call has one answer."""

import asyncio
import itertools
import json
import logging
from typing import Any

import pytest
from support.models.scripted import (
    START,
    DenyAll,
    Recorder,
    ScriptedModel,
    act,
    collect,
    finish,
    open_session,
    plan,
)
from support.stores.histories import assert_every_call_is_answered, results
from support.stores.reopening import reopen

from sandbur.actions.ports.events import (
    ApprovalNeeded,
    ErrorRaised,
    Notice,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from sandbur.agent.session.run_limits import Limits
from sandbur.state.calls import CallDecision
from sandbur.state.conversation.messages import Message
from sandbur.state.errors import ContextFull, CredentialsError, Overloaded, StoreError, UsageError
from sandbur.state.maintenance.export import export_session
from sandbur.state.store.store import Store


async def test_interactive_stops_before_a_call_and_an_approval_carries_on(store: Store) -> None:
    tool = Recorder()
    session = await open_session(store, ScriptedModel(act("a"), "done"), tool, mode="interactive")
    events, end = await collect(session.send("go"))
    assert (end.status, end.exit_code, tool.done) == ("needs_approval", 3, [])
    assert any(isinstance(event, ApprovalNeeded) for event in events)
    decision = CallDecision(call_id=end.pending[0].call_id, approved=True)
    _, end = await collect(session.decide([decision]))
    assert (end.status, end.result, tool.done) == ("done", "done", ["a"])


async def test_an_approval_given_to_another_process_is_the_one_that_counts(store: Store) -> None:
    model = ScriptedModel(act("a"), "done")
    _, end = await collect((await open_session(store, model, Recorder(), mode="interactive")).send("go"))
    tool = Recorder()
    resumed = await open_session(reopen(store), ScriptedModel("done"), tool)
    assert resumed.next_action == "human_confirm"
    decision = CallDecision(call_id=end.pending[0].call_id, approved=True)
    _, end = await collect(resumed.decide([decision], record_only=True))
    assert (tool.done, resumed.next_action) == ([], "execute_tools")
    _, end = await collect(resumed.carry_on())
    assert (end.status, tool.done) == ("done", ["a"])


@pytest.mark.parametrize(
    ("reason", "read"),
    [("too risky", "too risky."), ("It broke: 'lost'.", "It broke: 'lost'."), ("为什么？", "为什么？")],
)
async def test_a_denial_and_its_reason_reach_the_model(store: Store, reason: str, read: str) -> None:
    tool = Recorder()
    model = ScriptedModel(act("a"), "I will not then")
    session = await open_session(store, model, tool, mode="interactive")
    _, end = await collect(session.send("go"))
    decision = CallDecision(call_id=end.pending[0].call_id, approved=False, reason=reason)
    _, end = await collect(session.decide([decision]))
    assert (end.status, end.exit_code, tool.done) == ("denied", 3, [])
    assert results(session.state.chat_history) == [("denied", f"Denied by the user: {read} It did not run.")]


async def test_a_deny_rule_holds_in_yolo_and_for_edited_calls(store: Store) -> None:
    tool = Recorder()
    session = await open_session(store, ScriptedModel(act("forbidden"), "well"), tool)
    _, end = await collect(session.send("go"))
    assert (end.status, tool.done) == ("denied", [])
    other = await open_session(store, ScriptedModel(act("a"), "x"), tool, session_id="s2", mode="interactive")
    _, end = await collect(other.send("go"))
    edit = CallDecision(call_id=end.pending[0].call_id, approved=True, arguments='{"text": "forbidden"}')
    _, end = await collect(other.decide([edit]))
    assert (end.status, tool.done) == ("denied", [])


async def test_an_edited_call_runs_as_edited_and_the_model_is_told(store: Store) -> None:
    tool = Recorder()
    session = await open_session(store, ScriptedModel(act("a"), "x"), tool, mode="interactive")
    _, end = await collect(session.send("go"))
    edit = CallDecision(call_id=end.pending[0].call_id, approved=True, arguments='{"text": "b"}')
    await collect(session.decide([edit]))
    assert tool.done == ["b"]
    assert '{"text": "b"}' in results(session.state.chat_history)[0][1]


async def test_one_of_two_calls_can_be_decided_and_the_rest_waits(store: Store) -> None:
    tool = Recorder()
    session = await open_session(store, ScriptedModel(act("a", "b"), "x"), tool, mode="interactive")
    _, end = await collect(session.send("go"))
    first, second = (pending.call_id for pending in end.pending)
    _, end = await collect(session.decide([CallDecision(call_id=first, approved=True)]))
    assert ([pending.call_id for pending in end.pending], tool.done) == ([second], [])
    _, end = await collect(session.decide([CallDecision(call_id=second, approved=False)]))
    assert (end.status, tool.done) == ("denied", ["a"])


async def test_yolo_on_resume_lets_waiting_calls_pass(store: Store) -> None:
    await collect(
        (await open_session(store, ScriptedModel(act("a")), Recorder(), mode="interactive")).send("go")
    )
    tool = Recorder()
    resumed = await open_session(reopen(store), ScriptedModel("done"), tool)
    resumed.change_mode("yolo")
    _, end = await collect(resumed.carry_on())
    assert (end.status, tool.done) == ("done", ["a"])


async def test_reads_of_one_turn_run_at_once_and_their_results_keep_the_order(store: Store) -> None:
    gate = asyncio.Event()

    async def first_waits_for_second(text: str) -> None:
        if text == "first":
            await asyncio.wait_for(gate.wait(), 5)
        else:
            gate.set()

    tool = Recorder("act", "read", first_waits_for_second)
    session = await open_session(store, ScriptedModel(act("first", "second"), "x"), tool)
    events, _ = await collect(session.send("go"))
    finished = [event.content for event in events if isinstance(event, ToolFinished)]
    assert finished == ["did second", "did first"]
    assert [content for _, content in results(session.state.chat_history)] == ["did first", "did second"]


async def test_effects_of_one_turn_run_one_after_the_other(store: Store) -> None:
    tool = Recorder()
    session = await open_session(store, ScriptedModel(act("a", "b", "c"), "x"), tool)
    events, _ = await collect(session.send("go"))
    kinds = [type(event) for event in events if isinstance(event, ToolStarted | ToolFinished)]
    assert kinds == [ToolStarted, ToolFinished] * 3


async def test_a_tool_that_raises_is_a_result_for_the_model(store: Store) -> None:
    async def fail(text: str) -> None:
        raise ZeroDivisionError("oh")

    session = await open_session(store, ScriptedModel(act("a"), "I see"), Recorder("act", "effect", fail))
    _, end = await collect(session.send("go"))
    assert (end.status, results(session.state.chat_history)) == (
        "done",
        [("error", "act failed: ZeroDivisionError: oh")],
    )


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ([("nothing_like_it", {})], "There is no tool named"),
        ([("", {})], "There is no tool named"),
        ([("act", "{broken")], "JSON is broken"),
        ([("act", {"wrong": 1})], "text is missing"),
        ([("act", "[1]")], "text is missing"),
        ([("submit_plan", {"steps": []})], "does not fit here"),
        ([("finish_step", {"status": "completed", "summary": "x"})], "does not fit here"),
        ([("start_plan", {"goal": ""})], "goal"),
    ],
)
async def test_a_models_mistake_is_an_error_it_can_act_on(
    store: Store, calls: list[tuple[str, Any]], told: str
) -> None:
    session = await open_session(store, ScriptedModel(calls, "sorry"), Recorder())
    _, end = await collect(session.send("go"))
    [(outcome, content)] = results(session.state.chat_history)
    assert (end.status, outcome) == ("done", "error")
    assert told in content


async def test_finish_step_beside_other_calls_is_refused_and_the_others_run(store: Store) -> None:
    tool = Recorder()
    both = [*act("a"), *finish("too early")]
    model = ScriptedModel(START, plan("one"), both, finish("now"), "end")
    _, end = await collect((await open_session(store, model, tool)).send("go"))
    assert (end.steps[0].summary, tool.done) == ("now", ["a"])


async def test_a_call_cut_at_the_output_limit_never_runs(store: Store) -> None:
    tool = Recorder()
    model = ScriptedModel(act("a"), finish="length")
    session = await open_session(store, model, tool)

    async def be_whole() -> str:
        model.finish = None
        return "done"

    model.turns.append(be_whole)
    _, end = await collect(session.send("go"))
    assert (end.status, tool.done) == ("done", [])
    assert "cut off" in results(session.state.chat_history)[0][1]


async def test_a_model_that_only_makes_mistakes_is_stopped_resumable(store: Store) -> None:
    model = ScriptedModel(*[[("nope", {})]] * 5, "at last")
    session = await open_session(store, model, Recorder())
    _, end = await collect(session.send("go"))
    assert (end.status, end.exit_code) == ("error", 1)
    _, end = await collect(session.carry_on())
    assert (end.status, end.result) == ("done", "at last")


async def test_an_id_that_a_model_uses_again_is_renamed(store: Store) -> None:
    tool = Recorder()
    model = ScriptedModel(act("a"), act("b"), "x")
    session = await open_session(store, model, tool)
    await collect(session.send("go"))
    model.requests.clear()
    model.turns = [act("c"), "y"]
    await collect(session.send("more"))
    assert tool.done == ["a", "b", "c"]
    ids = [use.call_id for message in session.state.chat_history for use in message.tool_uses]
    assert len(set(ids)) == 3
    assert_every_call_is_answered(session.state.chat_history)


@pytest.mark.parametrize(
    ("error", "status", "exit_code"),
    [
        (Overloaded("overloaded"), "rate_limited", 75),
        (CredentialsError("no key"), "error", 41),
        (ValueError("a bug"), "error", 1),
    ],
)
async def test_a_failing_model_ends_the_run_and_loses_nothing(
    store: Store, error: Exception, status: str, exit_code: int
) -> None:
    model = ScriptedModel(act("a"), error, "the answer")
    session = await open_session(store, model, Recorder())
    events, end = await collect(session.send("go"))
    assert (end.status, end.exit_code, session.next_action) == (status, exit_code, "router")
    assert any(isinstance(event, ErrorRaised) for event in events)
    resumed = await open_session(reopen(store), ScriptedModel("the answer"), Recorder())
    _, end = await collect(resumed.carry_on())
    assert (end.status, end.result) == ("done", "the answer")


async def test_an_interrupted_tool_has_a_result_and_is_not_run_again(store: Store) -> None:
    running = asyncio.Event()

    async def hang(text: str) -> None:
        running.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise asyncio.CancelledError("half of it") from None

    tool = Recorder("act", "effect", hang)
    session = await open_session(store, ScriptedModel(act("a", "b")), tool)
    run = asyncio.ensure_future(collect(session.send("go")))
    await asyncio.wait_for(running.wait(), 5)
    await session.interrupt()
    events, end = await run
    assert (end.status, end.exit_code) == ("interrupted", 130)
    assert [event.outcome for event in events if isinstance(event, ToolFinished)] == ["interrupted"]
    later = Recorder()
    resumed = await open_session(reopen(store), ScriptedModel("done"), later)
    _, end = await collect(resumed.carry_on())
    assert (end.status, later.done) == ("done", ["b"])
    (outcome, content), _ = results(resumed.state.chat_history)
    assert outcome == "interrupted"
    assert "half of it" in content
    assert_every_call_is_answered(resumed.state.chat_history)


async def test_steps_are_numbered_without_gaps_after_errors(store: Store) -> None:
    model = ScriptedModel(Overloaded("no"), Overloaded("no"), act("a"), "yes")
    session = await open_session(store, model, Recorder())
    await collect(session.send("go"))
    await collect(session.carry_on())
    await collect(session.carry_on())
    steps = [record["seq"] for record in export_session(store.database, "s1") if record["kind"] == "step"]
    assert steps == list(range(4))


async def test_a_session_that_went_on_elsewhere_is_not_written_over(store: Store) -> None:
    here = await open_session(store, ScriptedModel("one", "three"))
    await collect(here.send("first"))
    there = await open_session(reopen(store), ScriptedModel("two"))
    await collect(there.send("second"))
    with pytest.raises(StoreError, match="was continued by another process"):
        await collect(here.send("third"))


async def test_a_new_message_closes_an_interrupted_turn(store: Store) -> None:
    running = asyncio.Event()

    async def hang(text: str) -> None:
        running.set()
        await asyncio.sleep(60)

    model = ScriptedModel(START, plan("one"), act("a", "b"), "never mind")
    session = await open_session(store, model, Recorder("act", "effect", hang))
    run = asyncio.ensure_future(collect(session.send("go")))
    await asyncio.wait_for(running.wait(), 5)
    await session.interrupt()
    await run
    step = session.state.active_step
    assert step is not None
    _, end = await collect(session.send("stop that"))
    assert (end.status, end.result, end.steps) == ("done", "never mind", ())
    assert_every_call_is_answered(session.state.chat_history)
    assert any("Step 1 interrupted" in message.text for message in session.state.chat_history)


async def test_turn_limit_stops_before_the_next_call_and_counts_anew(store: Store) -> None:
    model = ScriptedModel(act("a"), act("b"), act("c"), "done")
    session = await open_session(store, model, Recorder(), limits=Limits(max_turns=2))
    _, end = await collect(session.send("go"))
    assert (end.status, end.exit_code, len(model.requests)) == ("turn_limit", 53, 2)
    _, end = await collect(session.carry_on())
    assert (end.status, end.result) == ("done", "done")


async def test_the_time_limit_stops_a_hanging_tool(store: Store) -> None:
    tool = Recorder("act", "effect", lambda text: asyncio.sleep(60))
    session = await open_session(store, ScriptedModel(act("a")), tool, limits=Limits(timeout_s=0.2))
    _, end = await collect(session.send("go"))
    assert (end.status, end.exit_code) == ("timeout", 124)


async def test_the_conversation_is_compressed_when_it_gets_too_long(store: Store) -> None:
    model = ScriptedModel(act("x" * 20_000), "all was x", "short", context_window=10_000)
    session = await open_session(store, model, Recorder())
    events, end = await collect(session.send("remember: swordfish"))
    assert (end.status, end.result) == ("done", "short")
    assert any(isinstance(event, Notice) and "compress" in event.message for event in events)
    seen = [message.text for message in model.requests[-1].messages]
    assert "swordfish" in seen[0]
    whole = export_session(store.database, "s1")
    assert any("x" * 20_000 in json.dumps(record) for record in whole)


async def test_a_full_context_is_compressed_and_tried_again(store: Store) -> None:
    model = ScriptedModel("one", ContextFull("too long"), "a summary", "two")
    session = await open_session(store, model)
    await collect(session.send("first"))
    _, end = await collect(session.send("second"))
    assert (end.status, end.result) == ("done", "two")
    texts = [message.text for message in model.requests[-1].messages]
    assert "a summary" in texts[0]
    assert texts[-1] == "second"


async def test_a_request_that_never_fits_is_an_error_and_not_a_loop(store: Store) -> None:
    model = ScriptedModel(*itertools.chain.from_iterable([(ContextFull("no"), "sum")] * 5))
    session = await open_session(store, model)
    _, end = await collect(session.send("hello"))
    assert (end.status, end.exit_code) == ("error", 1)
    assert end.error is not None
    assert end.error.code == "context_full"


async def test_commands_are_answered_without_a_model(store: Store) -> None:
    model = ScriptedModel()
    session = await open_session(store, model, mode="interactive")
    events, _ = await collect(session.send("/mode yolo"))
    assert session.state.execution_mode == "yolo"
    for text in ("/help", "/nonsense", "/mode wild", "/exit"):
        events, end = await collect(session.send(text))
        assert end.exit_code == 0
        assert any(isinstance(event, Notice) for event in events)
    assert session.state.exit_chat
    assert model.requests == []


async def test_a_path_is_a_message_and_no_command(store: Store) -> None:
    session = await open_session(store, ScriptedModel("a file"))
    _, end = await collect(session.send("/etc/hosts what is it?"))
    assert end.result == "a file"


async def test_lone_surrogates_are_replaced_wherever_they_come_from(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(text: str) -> None:
        raise OSError("a file named \udcff")

    caplog.set_level(logging.INFO, logger="sandbur")
    session = await open_session(store, ScriptedModel(act("a"), "ok"), Recorder("act", "effect", fail))
    _, end = await collect(session.send("what is \ud800?"))
    assert end.status == "done"
    assert results(session.state.chat_history)[0][1].endswith("a file named ?")
    assert caplog.text.endswith("OSError: a file named ?\n")


async def test_a_message_after_exit_opens_a_turn(store: Store) -> None:
    session = await open_session(store, ScriptedModel("hello again"))
    await collect(session.send("/exit"))
    _, end = await collect(session.send("hi"))
    assert end.result == "hello again"


def test_messages_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Message(role="user", origin="person", blocks=()).role = "tool"  # type: ignore[misc]


async def test_a_command_at_an_approval_leaves_the_call_waiting(store: Store) -> None:
    tool = Recorder()
    session = await open_session(store, ScriptedModel(act("a"), "done"), tool, mode="interactive")
    await collect(session.send("go"))
    for text in ("/help", "/nonsense", "/mode plan", "/mode interactive", "/exit"):
        _, end = await collect(session.send(text))
        assert (end.exit_code, len(end.pending), session.next_action) == (0, 1, "human_confirm")
    _, end = await collect(session.send("/mode yolo"))
    _, end = await collect(session.carry_on())
    assert (end.status, tool.done) == ("done", ["a"])


async def test_deciding_when_nothing_waits_is_a_usage_error(store: Store) -> None:
    session = await open_session(store, ScriptedModel("hi"))
    await collect(session.send("go"))
    with pytest.raises(UsageError, match="waits for a decision"):
        session.decide([])


async def test_a_deny_rule_beats_an_earlier_approval(store: Store) -> None:
    tool = Recorder()
    session = await open_session(store, ScriptedModel(act("a"), "x"), tool, mode="interactive")
    _, end = await collect(session.send("go"))
    decision = CallDecision(call_id=end.pending[0].call_id, approved=True)
    await collect(session.decide([decision], record_only=True))
    stricter = await open_session(reopen(store), ScriptedModel("x"), tool, gate=DenyAll())
    _, end = await collect(stricter.carry_on())
    assert (end.status, tool.done) == ("denied", [])


async def test_what_yolo_let_pass_asks_again_in_interactive_mode(store: Store) -> None:
    model = ScriptedModel(act("a"))
    session = await open_session(store, model, Recorder(), limits=Limits(max_turns=1))
    events = session.send("go")
    async for event in events:
        if isinstance(event, ToolRequested):
            await session.interrupt()
    tool = Recorder()
    resumed = await open_session(reopen(store), ScriptedModel(), tool)
    resumed.change_mode("interactive")
    _, end = await collect(resumed.carry_on())
    assert (end.status, tool.done) == ("needs_approval", [])


async def test_an_edit_that_cannot_run_keeps_the_call_waiting(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a"), "x"), Recorder(), mode="interactive")
    _, end = await collect(session.send("go"))
    edit = CallDecision(call_id=end.pending[0].call_id, approved=True, arguments="{broken")
    events, end = await collect(session.decide([edit]))
    assert (end.status, len(end.pending)) == ("needs_approval", 1)
    assert any(isinstance(event, Notice) and "still waits" in event.message for event in events)


async def test_a_budget_holds_although_an_earlier_call_had_no_price(store: Store) -> None:
    session = await open_session(
        store, ScriptedModel("x", act("a"), act("b"), "y", cost_usd=None), Recorder(),
        limits=Limits(max_budget_usd=1.0),
    )  # fmt: skip
    await collect(session.send("go"))
    session.ports.model.cost_usd = 0.6  # type: ignore[attr-defined]
    _, end = await collect(session.send("more"))
    assert (end.status, end.exit_code) == ("budget_limit", 125)


async def test_a_summary_that_does_not_fit_either_is_made_without_the_model(store: Store) -> None:
    model = ScriptedModel("one", "two", ContextFull("no"), ContextFull("no"), "three")
    session = await open_session(store, model)
    for text in ("first", "second"):
        await collect(session.send(text))
    _, end = await collect(session.send("third"))
    assert (end.status, end.result) == ("done", "three")


async def test_a_timeout_inside_a_tool_is_a_result_and_no_limit(store: Store) -> None:
    async def late(text: str) -> None:
        raise TimeoutError

    session = await open_session(store, ScriptedModel(act("a"), "x"), Recorder("act", "effect", late))
    _, end = await collect(session.send("go"))
    assert end.status == "done"


async def test_two_runs_of_one_session_do_not_run_at_once(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a"), "x"), Recorder())
    twin = await open_session(store, ScriptedModel("y"))
    first = session.send("go")
    await anext(first)
    with pytest.raises(StoreError, match="is running in process"):
        await anext(twin.send("go"))
    with pytest.raises(StoreError, match="running in process"):
        store.delete("s1")
    _, end = await collect(first)
    assert end.result == "x"
