"""A model that goes round in circles is stopped, and a reply holds no more calls than it may."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session

from sandbur.actions.ports import Verdict
from sandbur.actions.ports.events import ToolFinished
from sandbur.actions.turn.calls.proposals import MOST_CALLS
from sandbur.actions.turn.calls.start_check import (
    MOST_ALLOWED,
    MOST_READ_BY_RULE,
    MOST_REFUSED_ROUNDS,
    Cycle,
    describe_repetition,
)
from sandbur.state.calls import CallDecision, JournaledCall
from sandbur.state.conversation.messages import ToolResult
from sandbur.state.errors import ModelError
from sandbur.state.process.clock import format_time
from sandbur.state.store.store import Store

STUCK = describe_repetition(3, 1)


class AllowAll:
    def judge(self, tool: Any, arguments: Any, mode: Any, paths: Any = None, plan: Any = None) -> Verdict:
        return Verdict("allow", "")


def answers(events: list[Any]) -> list[str]:
    return [event.content for event in events if isinstance(event, ToolFinished)]


async def test_the_fourth_same_call_with_the_same_result_is_answered_and_not_run_in_yolo(
    store: Store,
) -> None:
    tool = Recorder()
    model = ScriptedModel(*[act("a")] * 6, "end")
    events, end = await collect((await open_session(store, model, tool)).send("go"))
    assert (end.result, tool.done) == ("end", ["a"] * 3)
    assert answers(events) == ["did a"] * 3 + [STUCK] * 3


async def test_rounds_of_calls_that_repeat_are_circles_too(store: Store) -> None:
    tool = Recorder()
    model = ScriptedModel(*[act("a", "b")] * 5, "end")
    await collect((await open_session(store, model, tool)).send("go"))
    assert tool.done == ["a", "b"] * 3


async def test_the_fourth_same_call_asks_elsewhere_and_runs_once_a_person_wants_it(store: Store) -> None:
    tool = Recorder()
    model = ScriptedModel(*[act("a")] * 4, "end")
    session = await open_session(store, model, tool, mode="auto-edit", gate=AllowAll())
    _, end = await collect(session.send("go"))
    assert (end.exit_code, tool.done) == (3, ["a"] * 3)
    assert "same result 3 times in a row" in end.pending[0].reason
    _, end = await collect(session.decide([CallDecision(call_id="c4_0", approved=True)]))
    assert (end.result, tool.done) == ("end", ["a"] * 4)


@pytest.mark.parametrize("period", [1, 2, 3, 4])
@pytest.mark.parametrize("together", [1, 2])
async def test_a_cycle_of_up_to_four_rounds_is_a_circle(store: Store, period: int, together: int) -> None:
    rounds = [act(*(f"{number}.{part}" for part in range(together))) for number in range(period)]
    tool = Recorder()
    model = ScriptedModel(*rounds * 3, *rounds[:2], "end")
    events, end = await collect((await open_session(store, model, tool)).send("go"))
    assert end.result == "end"
    assert tool.done == [call["text"] for one in rounds for _, call in one] * 3
    refused = [text for text in answers(events) if text.startswith("Not run")]
    assert refused == [describe_repetition(3, period * together)] * (min(period, 2) * together)


async def test_a_cycle_of_five_rounds_is_none(store: Store) -> None:
    tool = Recorder()
    await collect((await open_session(store, ScriptedModel(*map(act, "abcde" * 5), "end"), tool)).send("go"))
    assert tool.done == list("abcde" * 5)


async def test_another_call_between_two_same_ones_makes_them_no_circle(store: Store) -> None:
    tool = Recorder()
    turns = [turn for number in range(5) for turn in (act("a"), act(str(number)))]
    await collect((await open_session(store, ScriptedModel(*turns, "end"), tool)).send("go"))
    assert tool.done == [text for number in range(5) for text in ("a", str(number))]


@pytest.mark.parametrize("texts", ["a", "ab", "abc", "abcd"])
async def test_in_yolo_a_run_that_goes_on_with_what_is_refused_ends_as_repeated(
    store: Store, texts: str
) -> None:
    tool = Recorder()
    model = ScriptedModel(*map(act, texts * 50))
    session = await open_session(store, model, tool)
    _, end = await collect(session.send("go"))
    assert (end.status, end.exit_code) == ("repeated", 4)
    assert end.error.code == "repeated"
    assert len(model.requests) == 3 * len(texts) + MOST_REFUSED_ROUNDS
    assert tool.done == list(texts * 3)

    # To resume is to let it try once more; what it did before is known from the history.
    again = await open_session(store, model, tool, session_id=session.id)
    _, end = await collect(again.carry_on())
    assert (end.status, len(model.requests)) == ("repeated", 3 * len(texts) + MOST_REFUSED_ROUNDS + 1)
    model.turns[:] = ["end"]
    _, end = await collect(again.send("do something else"))
    assert (end.status, end.result) == ("done", "end")


async def test_in_yolo_a_run_that_asks_for_what_is_denied_again_and_again_ends_as_repeated(
    store: Store,
) -> None:
    model = ScriptedModel(*[act("forbidden")] * 50)
    _, end = await collect((await open_session(store, model, Recorder())).send("go"))
    assert (end.status, len(model.requests)) == ("repeated", MOST_REFUSED_ROUNDS)


class AllowedByRule:
    def judge(self, tool: Any, arguments: Any, mode: Any, paths: Any = None, plan: Any = None) -> Verdict:
        return Verdict("allow", "allowed by rule act", "act")


@pytest.mark.parametrize("mode", ["interactive", "yolo"])
@pytest.mark.parametrize(
    ("effect", "most"), [("read", MOST_READ_BY_RULE), ("idempotent", MOST_ALLOWED), ("effect", MOST_ALLOWED)]
)
async def test_a_rule_does_not_let_a_call_pass_without_end(
    store: Store, mode: Any, effect: Any, most: int
) -> None:
    tool = Recorder()
    tool.effect = effect
    model = ScriptedModel(*[act("a")] * 2 * most)
    session = await open_session(store, model, tool, mode=mode, gate=AllowedByRule())
    _, end = await collect(session.send("go"))
    assert (end.status, len(tool.done)) == ("repeated", most)


def polled(tool: Recorder, **traits: Any) -> Recorder:
    tool.traits = replace(tool.traits, **traits)
    return tool


async def test_a_tool_that_is_meant_to_be_polled_is_no_circle(store: Store) -> None:
    tool = polled(Recorder(), repeats=True)
    model = ScriptedModel(*[act("a")] * 200, "end")
    session = await open_session(store, model, tool, mode="auto-edit", gate=AllowAll())
    _, end = await collect(session.send("go"))
    assert (end.status, len(tool.done)) == ("done", 200)


async def test_a_polled_tool_in_between_does_not_hide_a_circle_of_others(store: Store) -> None:
    poll, tool = polled(Recorder("poll"), repeats=True), Recorder()
    model = ScriptedModel(*[[("poll", {"text": "p"})], act("a")] * 4, "end")
    await collect((await open_session(store, model, poll, tool)).send("go"))
    assert (tool.done, poll.done) == (["a"] * 3, ["p"] * 4)


async def test_a_tool_that_never_asks_does_not_ask_because_it_repeats_itself(store: Store) -> None:
    tool = polled(Recorder(), asks="never")
    model = ScriptedModel(*[act("a")] * 6, "end")
    session = await open_session(store, model, tool, mode="interactive", gate=AllowAll())
    _, end = await collect(session.send("go"))
    assert (end.status, tool.done) == ("done", ["a"] * MOST_ALLOWED)


async def test_calls_with_seconds_in_between_are_a_poll_and_no_circle(store: Store) -> None:
    tool = Recorder()

    async def later() -> Any:
        await asyncio.sleep(1.05)
        return act("a")

    model = ScriptedModel(*[later] * 5, "end")
    session = await open_session(store, model, tool, mode="auto-edit", gate=AllowAll())
    _, end = await collect(session.send("go"))
    assert (end.status, tool.done) == ("done", ["a"] * 5)


@pytest.mark.parametrize(
    ("pause_s", "allowed_by", "most", "most_read"),
    [(0, "mode", 3, 3), (0.9, "mode", 3, 3), (-5, "mode", 3, 3), (1, "mode", 10, 10), (9.9, "mode", 10, 10),
     (10, "mode", None, None), (0, "rule", 5, 100), (1, "rule", 10, 100), (3600, "rule", None, None),
     (0, "person", 5, 5), (1, "person", None, None)],
)  # fmt: skip
def test_how_many_turns_a_cycle_may_have_depends_on_the_time_between(
    pause_s: float, allowed_by: Any, most: int | None, most_read: int | None
) -> None:
    took_ms, begin = 2_500, datetime(2026, 1, 1, tzinfo=UTC)
    result = ToolResult(call_id="b", tool="act", outcome="ok", content="", duration_ms=took_ms)
    ends = {"a": begin, "b": begin + timedelta(seconds=pause_s, milliseconds=took_ms)}
    recorded = {
        call_id: JournaledCall(call_id=call_id, move="finished", at=format_time(at), result=result)
        for call_id, at in ends.items()
    }
    cycle = Cycle(1, 3, ("b", "a"))
    assert cycle.most_turns(recorded, allowed_by) == most
    assert cycle.most_turns(recorded, allowed_by, is_read_only=True) == most_read


async def test_a_circle_is_noticed_over_a_resume(store: Store) -> None:
    """The calls before a resume count, as the history has them."""
    tool = Recorder()
    model = ScriptedModel(act("a"), act("a"), ModelError("gone"), act("a"), act("a"), "end")
    session = await open_session(store, model, tool)
    _, end = await collect(session.send("go"))
    assert (end.status, tool.done) == ("error", ["a"] * 2)
    resumed = await open_session(store, model, tool, session_id=session.id)
    events, end = await collect(resumed.carry_on())
    assert (end.result, tool.done) == ("end", ["a"] * 3)
    assert answers(events) == ["did a", STUCK]


async def test_other_results_make_same_calls_no_circle(store: Store) -> None:
    class Counter(Recorder):
        async def run(self, arguments: str, context: Any) -> Any:
            outcome = await super().run(arguments, context)
            return type(outcome)("ok", f"{len(self.done)}")

    tool = Counter()
    await collect((await open_session(store, ScriptedModel(*[act("a")] * 9, "end"), tool)).send("go"))
    assert tool.done == ["a"] * 9


async def test_what_the_person_says_begins_anew(store: Store) -> None:
    tool = Recorder()
    session = await open_session(store, ScriptedModel(*[act("a")] * 3, "end", act("a"), "end"), tool)
    await collect(session.send("go"))
    await collect(session.send("once more"))
    assert tool.done == ["a"] * 4


async def test_a_reply_holds_no_more_calls_than_it_may_and_each_is_answered(store: Store) -> None:
    tool = Recorder()
    model = ScriptedModel(act(*(str(number) for number in range(MOST_CALLS + 3))), "end")
    events, end = await collect((await open_session(store, model, tool)).send("go"))
    assert (end.result, len(tool.done)) == ("end", MOST_CALLS)
    said = answers(events)
    assert len(said) == MOST_CALLS + 3
    assert sum("at most 64 calls" in text for text in said) == 3
    sent = [result for message in model.requests[1].messages for result in message.tool_results]
    assert len({result.call_id for result in sent}) == len(sent) == MOST_CALLS + 3
