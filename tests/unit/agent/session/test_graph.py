"""The routes through the graph, and how many model calls each of them costs."""

import itertools

import pytest
from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan

from sandbur.agent.graph import ACTIONS, TRANSITIONS, dot, mermaid, next_action
from sandbur.state.application import ApplicationState
from sandbur.state.calls import PendingCall
from sandbur.state.store.store import Store

DESIGN = {
    "prompt", "router", "vibe_planner", "vibe_step_executor", "human_confirm", "execute_tools",
    "vibe_result_analyzer", "step_summarizer", "context_compressor",
}  # fmt: skip


def act(*texts: str) -> list[tuple[str, dict[str, str]]]:
    return [("act", {"text": text}) for text in texts]


def test_the_graph_has_exactly_the_nine_actions() -> None:
    assert set(ACTIONS) == DESIGN
    assert {end for pair in TRANSITIONS for end in pair[:2]} == DESIGN


def test_every_action_can_be_reached_and_left() -> None:
    assert {start for start, _, _ in TRANSITIONS} == DESIGN
    assert {end for _, end, _ in TRANSITIONS} == DESIGN


def test_an_action_whose_request_did_not_fit_comes_next_after_the_compression() -> None:
    for action in {start for start, end, _ in TRANSITIONS if end == "context_compressor"}:
        assert next_action("context_compressor", ApplicationState(return_to=action)) == action


def test_no_path_leads_an_undecided_call_into_execution() -> None:
    decisions = ("undecided", "approved", "denied", "invalid")
    for count, start in itertools.product((1, 2, 3), ACTIONS):
        for combination in itertools.product(decisions, repeat=count):
            calls = tuple(
                PendingCall(call_id=str(n), tool="act", arguments="{}", decision=decision)
                for n, decision in enumerate(combination)
            )
            for phase, step in itertools.product(("idle", "planning", "working", "answering"), (None, "1")):
                state = ApplicationState(
                    pending_tool_calls=calls, phase=phase, active_step_id=step, turn_open=True
                )
                if "undecided" in combination:
                    assert next_action(start, state) != "execute_tools"


@pytest.mark.parametrize("picture", [mermaid(), dot()])
def test_the_picture_names_every_transition(picture: str) -> None:
    assert all(f"{start} -" in picture and end in picture for start, end, _ in TRANSITIONS)


async def test_chat_costs_one_call(store: Store) -> None:
    model = ScriptedModel("hello")
    _, end = await collect((await open_session(store, model)).send("hi"))
    assert (end.status, end.result, end.workflow_mode, end.usage.llm_calls) == ("done", "hello", "chat", 1)


async def test_ops_costs_one_call_more_than_it_has_rounds(store: Store) -> None:
    tool = Recorder()
    model = ScriptedModel(act("a", "b"), act("c"), "all done")
    _, end = await collect((await open_session(store, model, tool)).send("work"))
    assert (end.result, end.workflow_mode, end.usage.llm_calls) == ("all done", "ops", 3)
    assert tool.done == ["a", "b", "c"]


async def test_vibe_costs_route_plan_rounds_and_answer(store: Store) -> None:
    model = ScriptedModel(
        START, plan("one", "two"),
        act("a"), act("b"), finish("saw a and b"),
        act("c"), "two is done too",
        "the answer",
    )  # fmt: skip
    _, end = await collect((await open_session(store, model, Recorder())).send("a big thing"))
    assert end.usage.llm_calls == 1 + 1 + (2 + 1) + (1 + 1) + 1
    assert (end.status, end.result, end.workflow_mode) == ("done", "the answer", "vibe")
    assert [(step.status, step.summary) for step in end.steps] == [
        ("completed", "saw a and b"),
        ("completed", "two is done too"),
    ]


async def test_a_failed_step_costs_one_more_plan_and_can_be_made_good(store: Store) -> None:
    model = ScriptedModel(
        START, plan("one", "two", "three"), finish("no luck", "failed"), plan("another way"),
        finish("worked"), "answer",
    )  # fmt: skip
    _, end = await collect((await open_session(store, model)).send("go"))
    assert end.usage.llm_calls == 6
    assert [(step.step_id, step.description, step.status) for step in end.steps] == [
        ("1", "one", "failed"),
        ("2", "another way", "completed"),
    ]
    assert (end.status, end.exit_code) == ("done", 0)


async def test_a_plan_that_ends_with_a_failed_step_has_not_reached_its_goal(store: Store) -> None:
    model = ScriptedModel(START, plan("one", "two"), finish("no", "failed"), plan(), "cannot be done")
    _, end = await collect((await open_session(store, model)).send("go"))
    assert (end.status, end.exit_code, end.result) == ("goal_not_reached", 4, "cannot be done")


async def test_a_plan_is_revised_three_times_at_most(store: Store) -> None:
    failing = [finish("no", "failed"), plan("again")]
    model = ScriptedModel(START, plan("one"), *failing, *failing, *failing, finish("no", "failed"), "gave up")
    _, end = await collect((await open_session(store, model)).send("go"))
    assert (end.status, end.result, len(end.steps)) == ("goal_not_reached", "gave up", 4)


async def test_a_plan_in_words_is_accepted(store: Store) -> None:
    words = "Here is my plan:\n1. look at it\n2) fix it\n- check it"
    model = ScriptedModel(START, words, finish("a"), finish("b"), finish("c"), "ok")
    _, end = await collect((await open_session(store, model)).send("go"))
    assert [step.description for step in end.steps] == ["look at it", "fix it", "check it"]


async def test_the_steps_of_a_plan_may_be_plain_texts(store: Store) -> None:
    texts = [("submit_plan", {"steps": ["look at it", "fix it"]})]
    model = ScriptedModel(START, texts, finish("a"), finish("b"), "ok")
    _, end = await collect((await open_session(store, model)).send("go"))
    assert [step.description for step in end.steps] == ["look at it", "fix it"]


async def test_a_plan_that_cannot_be_read_is_asked_for_again(store: Store) -> None:
    model = ScriptedModel(START, [("submit_plan", {"steps": "none"})], plan("one"), finish("a"), "ok")
    _, end = await collect((await open_session(store, model)).send("go"))
    assert (end.status, len(end.steps)) == ("done", 1)


async def test_the_next_step_sees_the_summary_and_none_of_the_output(store: Store) -> None:
    model = ScriptedModel(START, plan("one", "two"), act("secret"), finish("found 42"), finish("ok"), "end")
    await collect((await open_session(store, model, Recorder())).send("go"))
    seen = "\n".join(str(message.blocks) for message in model.requests[4].messages)
    assert "Step 1 completed: found 42" in seen
    assert "did secret" not in seen


async def test_every_request_extends_the_one_before_in_its_history(store: Store) -> None:
    model = ScriptedModel(
        act("a"), START, plan("one", "two"), act("b"), act("c"), finish("x"), finish("y"), "end"
    )
    await collect((await open_session(store, model, Recorder())).send("go"))
    sent = [list(request.messages) for request in model.requests]
    in_order = [sent[0], sent[1], sent[2], sent[3], sent[4], sent[5]]
    for before, after in itertools.pairwise(in_order):
        assert after[: len(before)] == before
    globally = [list(request.histories[0]) for request in model.requests]
    for before, after in itertools.pairwise(globally):
        assert after[: len(before)] == before
    assert len({(request.system, id(request.tools)) for request in model.requests}) == 1
