"""A model that goes round in circles is stopped, and a reply holds no more calls than it may."""

from typing import Any

from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session

from sandbur.actions.events import ToolFinished
from sandbur.actions.ports import Verdict
from sandbur.actions.turn.proposals import MOST_CALLS
from sandbur.actions.turn.repetition import STUCK
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store


class AllowAll:
    def judge(self, tool: Any, arguments: Any, mode: Any, paths: Any = None) -> Verdict:
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


async def test_a_call_between_two_same_ones_makes_them_no_circle(store: Store) -> None:
    tool = Recorder()
    model = ScriptedModel(*[act("a"), act("b")] * 5, "end")
    await collect((await open_session(store, model, tool)).send("go"))
    assert tool.done == ["a", "b"] * 5


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
