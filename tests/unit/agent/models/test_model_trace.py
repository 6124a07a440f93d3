"""Each model call leaves one record: what was asked, what came of it, and how long that took."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan

from sandbur.actions.ports import ModelEvent, ModelRequest
from sandbur.actions.ports.events import Notice, TextDelta, ThinkingDelta
from sandbur.state.errors import ContextFull, ModelError, Overloaded
from sandbur.state.store.recording import list_traces
from sandbur.state.store.store import Store
from sandbur.state.trace import ModelCalled, RequestShape

ACT = [("act", {"text": "a"})]


class TalkingModel(ScriptedModel):
    """Says more on the way than its answer."""

    def __init__(self, *said: ModelEvent) -> None:
        super().__init__("the answer")
        self._said = said

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in self._said:
            yield event
        async for event in super().stream(request):
            yield event


def called(store: Store, session_id: str = "s1") -> list[ModelCalled]:
    found = [one.record for one in list_traces(store.database, session_id)]
    return [record for record in found if isinstance(record, ModelCalled)]


async def calls_of(store: Store, model: Any, *tools: Recorder, **options: Any) -> list[ModelCalled]:
    session = await open_session(store, model, *tools, **options)
    await collect(session.send("go"))
    return called(store)


async def test_a_call_is_recorded_with_what_it_used_and_how_it_ended(store: Store) -> None:
    (call,) = await calls_of(store, ScriptedModel("hi", cost_usd=0.25))
    assert (call.model, call.finish, call.error) == ("scripted/one", "stop", None)
    assert (call.usage.llm_calls, call.usage.output_tokens, call.usage.cost_usd) == (1, 5, 0.25)
    assert (call.pieces, call.notices, call.reply) == (1, (), None)
    assert call.first_ms is not None
    assert 0 <= call.first_ms <= call.duration_ms
    assert datetime.fromisoformat(call.began_at).utcoffset() is not None


async def test_a_call_without_text_has_no_first_piece(store: Store) -> None:
    first, _ = await calls_of(store, ScriptedModel(ACT, "done"), Recorder())
    assert (first.finish, first.pieces, first.first_ms) == ("tool_calls", 0, None)


async def test_text_and_thinking_are_pieces(store: Store) -> None:
    model = TalkingModel(ThinkingDelta("hm"), TextDelta("a"), TextDelta("b"))
    (call,) = await calls_of(store, model)
    assert call.pieces == 4


async def test_what_was_said_on_the_way_is_kept_in_bounds(store: Store) -> None:
    (call,) = await calls_of(store, TalkingModel(*(Notice(f"try {n}") for n in range(50))))
    assert call.notices == tuple(f"try {n}" for n in range(20))


async def test_the_shape_of_each_request_is_recorded(store: Store) -> None:
    model = ScriptedModel(START, plan("first"), ACT, finish("one"), "all done")
    found = await calls_of(store, model, Recorder())
    assert [call.request.forced_tool for call in found] == [None, "submit_plan", None, None, None]
    assert [len(call.request.histories) for call in found] == [
        len(request.histories) for request in model.requests
    ]
    sizes = [[size for _, size in call.request.histories] for call in found]
    assert sizes[0] == [len(b"go")]
    assert len(sizes[2]) == 2
    growing = [call.request.histories[-1] for call in found[2:4]]
    assert growing[0][0] < growing[1][0]
    assert growing[0][1] < growing[1][1]


async def test_a_call_belongs_to_the_step_that_comes_next(store: Store) -> None:
    session = await open_session(store, ScriptedModel(ACT, "done"), Recorder())
    await collect(session.send("go"))
    found = [one.seq for one in list_traces(store.database, "s1") if isinstance(one.record, ModelCalled)]
    steps = store.database.query("SELECT seq, position FROM steps WHERE session_id = 's1' ORDER BY seq")
    assert [seq + 1 for seq in found] == [seq for seq, action in steps if action == "router"]


async def test_a_call_that_fails_is_recorded_with_its_error(store: Store) -> None:
    (call,) = await calls_of(store, ScriptedModel(ModelError("No such model.", "Look it up.")))
    assert call.error is not None
    assert (call.error.code, call.error.message) == ("model", "No such model.")
    assert (call.finish, call.usage.llm_calls) == (None, 0)
    overloaded = await open_session(store, ScriptedModel(Overloaded("Too many.")), session_id="s2")
    await collect(overloaded.send("go"))
    (call,) = called(store, "s2")
    assert call.error is not None
    assert call.error.code == "overloaded"


async def test_a_bug_in_a_model_is_recorded_as_a_call_without_an_end(store: Store) -> None:
    (call,) = await calls_of(store, ScriptedModel(ZeroDivisionError("oops")))
    assert call.finish is None
    assert call.error is not None


async def test_an_interrupted_call_is_recorded_as_such(store: Store) -> None:
    asked = asyncio.Event()

    async def hangs() -> str:
        asked.set()
        await asyncio.sleep(60)
        return "never"

    session = await open_session(store, ScriptedModel(hangs))
    running = asyncio.ensure_future(collect(session.send("go")))
    await asked.wait()
    await session.interrupt()
    await running
    (call,) = called(store)
    assert call.error is not None
    assert (call.error.code, call.finish) == ("interrupted", None)


async def test_a_compression_keeps_the_answer_that_no_history_holds(store: Store) -> None:
    model = ScriptedModel("one", "two", ContextFull("too long"), "a summary of it", "three")
    session = await open_session(store, model)
    for text in ("a " * 400, "b " * 400, "c " * 400):
        await collect(session.send(text))
    found = called(store)
    assert [call.error.code if call.error else "" for call in found] == ["", "", "context_full", "", ""]
    summary = found[3]
    assert summary.reply is not None
    assert summary.reply.text == "a summary of it"
    assert [call.reply for call in found if call is not summary] == [None] * 4
    assert [count for count, _ in summary.request.histories] == [1]


async def test_the_record_of_a_call_is_on_disk_with_its_step(store: Store) -> None:
    session = await open_session(store, ScriptedModel(ACT, ACT, "done"), Recorder())
    seen: list[tuple[int, int]] = []
    async for _ in session.send("go"):
        steps = store.database.query("SELECT COUNT(*) FROM steps WHERE position = 'router'")
        seen.append((len(called(store)), int(steps[0][0])))
    assert all(calls - steps in (0, 1) for calls, steps in seen)
    assert seen[-1] == (3, 3)


async def test_retries_are_counted_by_kind_and_not_by_words(store: Store) -> None:
    said = Notice("cut", "discarded"), Notice("again", "retry"), Notice("other", "fallback")
    model = TalkingModel(*said, Notice("trying again in"))
    (call,) = await calls_of(store, model)
    assert (len(call.notices), call.retry_count) == (4, 2)


async def test_a_notice_of_another_kind_is_no_retry(store: Store) -> None:
    (call,) = await calls_of(store, TalkingModel(Notice("hm")))
    assert (call.notices, call.retry_count) == (("hm",), 0)


def test_a_record_without_the_number_is_counted_by_its_words() -> None:
    notices = ("The partial answer above is discarded.", "openai was cut off, trying again in 1 s (2 of 5)")
    fields = {"model": "m", "began_at": "", "duration_ms": 1, "notices": notices}
    request = RequestShape(fixed_sha256="", histories=())
    assert ModelCalled(**fields, request=request).retry_count == 1


async def test_a_call_without_notices_is_stored_as_it_always_was(store: Store) -> None:
    (call,) = await calls_of(store, ScriptedModel("hi"))
    assert "retries" not in call.model_dump_json(exclude_defaults=True)
