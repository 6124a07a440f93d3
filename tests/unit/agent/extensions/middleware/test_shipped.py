"""The middleware that ships: retry, time limit, call limit, model router, redaction of personal data."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session
from support.stores.histories import results

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.ports.events import Notice
from sandbur.agent.extensions.middleware.call_limit import CallLimit
from sandbur.agent.extensions.middleware.middleware import Middleware, MiddlewareSession
from sandbur.agent.extensions.middleware.model_router import ModelRouter, Route
from sandbur.agent.extensions.middleware.pii_redaction import PIIRedaction
from sandbur.agent.extensions.middleware.retry_and_timeout import Retry, TimeLimit
from sandbur.state.errors import ContextFull, CredentialsError, ModelError, Overloaded
from sandbur.state.store.store import Store

FAST = Retry(first_delay_s=0.001)


class Flaky(Recorder):
    """Fails as often as told, then works."""

    def __init__(self, failures: int, effect: Any = "read") -> None:
        super().__init__(effect=effect)
        self._failures = failures

    async def run(self, arguments: str, context: ToolContext) -> ToolOutcome:
        self.done.append(context.idempotency_key)
        if len(self.done) <= self._failures:
            return ToolOutcome("error", "not now")
        return ToolOutcome("ok", "now")


async def test_a_model_call_that_failed_is_tried_again(store: Store) -> None:
    session = await open_session(store, ScriptedModel(Overloaded("busy"), "done"), middleware=[FAST])
    events, end = await collect(session.send("go"))
    assert (end.status, end.result) == ("done", "done")
    assert "The middleware Retry asks the model again." in [
        e.message for e in events if isinstance(e, Notice)
    ]


async def test_what_no_retry_helps_is_not_tried_again(store: Store) -> None:
    model = ScriptedModel(CredentialsError("no key"), "never")
    session = await open_session(store, model, middleware=[FAST])
    _, end = await collect(session.send("go"))
    assert (end.error.code if end.error else "", len(model.requests)) == ("credentials", 1)


@pytest.mark.parametrize(
    ("effect", "tries"), [("read", 3), ("idempotent", 3), ("effect", 1), ("verifiable", 1)]
)
async def test_only_a_call_that_may_run_twice_is_tried_again(store: Store, effect: Any, tries: int) -> None:
    tool = Flaky(2, effect)
    session = await open_session(store, ScriptedModel(act("a"), "done"), tool, middleware=[FAST])
    await collect(session.send("go"))
    assert len(tool.done) == tries
    assert len(set(tool.done)) == 1
    expected = ("ok", "now") if tries == 3 else ("error", "not now")
    assert results(session.state.chat_history) == [expected]


async def test_a_model_that_takes_too_long_is_ended_with_a_sentence(store: Store) -> None:
    async def slow() -> str:
        await asyncio.sleep(30)
        return "late"

    session = await open_session(store, ScriptedModel(slow), middleware=[TimeLimit(model_s=0.05)])
    _, end = await collect(session.send("go"))
    assert end.error is not None
    assert end.error.message == "The model did not answer within 0.05 s."


async def test_a_command_that_takes_too_long_is_stopped_with_its_output(store: Store, tmp_path: Path) -> None:
    slow = [("run_shell_command", {"command": "echo begun; touch made; sleep 60"})]
    folder = tmp_path / "work"
    folder.mkdir()
    limit = TimeLimit(tool_s=1.0)
    session = await open_real(store, ScriptedModel(slow, "done"), folder, middleware=[limit])
    await collect(session.send("go"))
    [(outcome, content)] = results(session.state.chat_history)
    assert outcome == "timeout"
    assert content.startswith("Stopped after 1 s, which is the limit of a call. It may have taken effect.")
    assert "begun" in content
    assert [Path(row[0]).name for row in store.database.query("SELECT path FROM files")] == ["made"]


async def test_a_run_with_too_many_model_calls_ends_and_counts_anew(store: Store) -> None:
    limit = [CallLimit(model_calls=1)]
    session = await open_session(store, ScriptedModel(act("a"), "done"), Recorder(), middleware=limit)
    _, end = await collect(session.send("go"))
    assert (end.status, end.exit_code) == ("turn_limit", 53)
    _, end = await collect(session.carry_on())
    assert (end.status, end.result) == ("done", "done")


async def test_a_tool_that_was_used_often_enough_does_not_run(store: Store) -> None:
    tool = Recorder()
    limit = CallLimit(per_tool={"act": 2}, tool_calls=5)
    session = await open_session(store, ScriptedModel(act("a", "b", "c"), "done"), tool, middleware=[limit])
    await collect(session.send("go"))
    assert tool.done == ["a", "b"]
    refused = "Not run: the limit of 2 calls of act in one run is reached. Do without."
    assert results(session.state.chat_history)[2] == ("error", refused)


async def test_two_sessions_share_a_limit_object_and_not_its_counts(store: Store) -> None:
    limit, tool = CallLimit(tool_calls=1), Recorder()
    for name in ("s1", "s2"):
        model = ScriptedModel(act(name), "done")
        session = await open_session(store, model, tool, session_id=name, middleware=[limit])
        await collect(session.send("go"))
    assert tool.done == ["s1", "s2"]


def named(name: str, *turns: Any, context_window: int = 100_000) -> ScriptedModel:
    model = ScriptedModel(*turns, context_window=context_window)
    model.name = name
    return model


async def test_a_summary_goes_to_the_cheapest_model_that_has_room(store: Store) -> None:
    dear = named("anthropic/claude-opus-4-1", "unused")
    cheap = named("openai/gpt-4o-mini", "a cheap summary")
    small = named("demo", "unused", context_window=10)
    main = ScriptedModel(act("a" * 2000), ContextFull("too long"), "done")
    router = ModelRouter(summaries=[dear, cheap, small])
    session = await open_session(store, main, Recorder(), middleware=[router])
    _, end = await collect(session.send("go"))
    assert (end.result, len(cheap.requests), len(dear.requests), len(small.requests)) == ("done", 1, 0, 0)
    assert "a cheap summary" in next(iter(session.state.chat_history)).text


async def test_the_first_route_that_fits_decides(store: Store) -> None:
    short, long = named("a/short", "short"), named("a/long", "long")
    router = ModelRouter(
        Route(lambda request: request.size_bytes < 50, short), Route(lambda request: True, long)
    )
    for said, expected in (("hi", "short"), ("hi " * 50, "long")):
        session = await open_session(store, ScriptedModel(), session_id=expected, middleware=[router])
        _, end = await collect(session.send(said))
        assert end.result == expected


async def test_a_model_that_is_down_is_replaced_for_the_call(store: Store) -> None:
    router = ModelRouter(fall_back=[named("a/down", Overloaded("also busy")), named("a/up", "here")])
    session = await open_session(store, ScriptedModel(Overloaded("busy")), middleware=[router])
    events, end = await collect(session.send("go"))
    assert end.result == "here"
    told = [event.message for event in events if isinstance(event, Notice)]
    assert "busy Starting over with a/down." in told
    assert "also busy Starting over with a/up." in told


async def test_a_model_that_is_named_wrong_is_one_sentence(store: Store) -> None:
    router = ModelRouter(Route(lambda request: True, "nobody/x"))
    session = await open_session(store, ScriptedModel(), middleware=[router])
    _, end = await collect(session.send("go"))
    assert end.error is not None
    assert end.error.message == "There is no provider 'nobody'."


PERSONAL = {
    "email": "jo.doe+x@example.co.uk",
    "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00",
    "ssn": "078-05-1120",
    "phone": "+49 30 901820",
}


async def test_personal_data_reaches_no_model_and_no_record_of_a_result(store: Store) -> None:
    async def nothing(text: str) -> None: ...

    class Lookup(Recorder):
        async def run(self, arguments: str, context: ToolContext) -> ToolOutcome:
            return ToolOutcome("ok", "; ".join(PERSONAL.values()), full_output=str(PERSONAL).encode())

    model = ScriptedModel(act("a"), "done")
    session = await open_session(store, model, Lookup(work=nothing), middleware=[PIIRedaction()])
    await collect(session.send(f"Write to {PERSONAL['email']}"))
    sent = [str([message.model_dump() for message in request.messages]) for request in model.requests]
    [(_, content)] = results(session.state.chat_history)
    for kind, value in PERSONAL.items():
        assert f"[{kind} " in content
        assert value not in content
        assert not any(value in text for text in sent)
        assert not [row for row in store.database.query("SELECT chunk FROM outputs") if value in str(row)]
    mark = sent[0][sent[0].index("[email") :][:12]
    assert mark in content


async def test_each_request_still_begins_with_the_one_before(store: Store) -> None:
    model = ScriptedModel(act("a"), act("b"), "done")
    session = await open_session(store, model, Recorder(), middleware=[PIIRedaction()])
    await collect(session.send("I am a@example.com"))
    said = [[message.model_dump_json() for message in request.messages] for request in model.requests]
    assert said[1][: len(said[0])] == said[0]
    assert said[2][: len(said[1])] == said[1]


@pytest.mark.parametrize(
    "text",
    ["4111 1111 1111 1112", "order 12345", "DE00 3704 0044 0532 0130 00", "000-12-3456", "v1.2.3", "a@b"],
)
def test_what_only_looks_like_personal_data_stays(text: str) -> None:
    assert PIIRedaction().redact(text) == text


def test_a_kind_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind of personal data 'name'; known are email, iban"):
        PIIRedaction("name")  # pyright: ignore


def test_a_retry_without_a_try_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Retry(model_tries=0)


async def test_errors_of_the_model_that_end_all_tries_are_told_as_they_are(store: Store) -> None:
    session = await open_session(store, ScriptedModel(ModelError("a"), ModelError("b")), middleware=[FAST])
    _, end = await collect(session.send("go"))
    assert end.error is not None
    assert end.error.message == "b"


def test_shipped_middleware_stands_outside_of_the_persons_own() -> None:
    for made in (Retry(), TimeLimit(), CallLimit(), ModelRouter(), PIIRedaction()):
        assert 100 <= made.priority < Middleware().priority


async def test_named_models_are_closed_with_the_last_session() -> None:
    router = ModelRouter()
    one = MiddlewareSession("a", "m", Path())
    router.on_start(one)
    await router.on_stop(one)
