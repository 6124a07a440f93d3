"""Every failure of a provider: tried again where that helps, visible, and never a reply."""

import asyncio
import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from support.models.server import ModelServer, ToolCall, Turn, cut, fail, leave_unfinished, say, stall
from support.models.talk import QUICK, ROADS, ask_model, connect_to_model, converse, talk

from sandbur.actions.ports.events import Notice
from sandbur.agent.models.failures import Transient
from sandbur.agent.models.model import RetryPolicy, Tries, TryLimits
from sandbur.state.conversation.messages import person_message
from sandbur.state.errors import Overloaded

pytestmark = pytest.mark.slow

every_wire = pytest.mark.parametrize("wire", ROADS)
HALF = Turn("half an answer", (ToolCall("run_shell_command", '{"command": "rm -rf x"}'),))


@every_wire
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_passing_failure_is_tried_again_and_announced(wire: str, status: int):
    async with ModelServer([fail(status), say("fine")]) as server, connect_to_model(server, wire) as model:
        heard = await talk(model)
        first, second = (request.raw for request in server.requests)
    assert heard.reply.message.text == "fine"
    assert len(heard.notices) == 1
    assert "trying again in 0" in heard.notices[0]
    assert "(2 of 3)" in heard.notices[0]
    assert first == second


@every_wire
async def test_a_failure_that_lasts_ends_as_overloaded_after_the_last_try(wire: str):
    async with ModelServer([fail(429)] * 9) as server, connect_to_model(server, wire) as model:
        with pytest.raises(Overloaded, match=r"Rate limited by .*; gave up after 3 tries") as caught:
            await talk(model)
        assert server.served == 3
    assert (caught.value.exit_code, caught.value.status) == (75, "rate_limited")


@every_wire
@pytest.mark.parametrize("fault", [cut, leave_unfinished])
async def test_a_cut_stream_is_never_a_reply_but_tried_again(wire: str, fault: Any):
    async with ModelServer([fault(HALF), say("whole")]) as server, connect_to_model(server, wire) as model:
        heard = await talk(model)
    assert heard.reply.message.text == "whole"
    assert heard.reply.message.tool_uses == ()
    assert "discarded" in heard.notices[0]
    assert "was cut off, trying again" in heard.notices[1]


@every_wire
async def test_a_stream_that_is_always_cut_leaves_the_session_resumable(wire: str):
    async with ModelServer([cut(HALF)] * 9) as server, connect_to_model(server, wire) as model:
        with pytest.raises(Overloaded, match="cut off"):
            await talk(model)


@every_wire
async def test_a_stream_that_falls_silent_is_tried_again(wire: str):
    limits = TryLimits(idle_s=1)
    async with (
        ModelServer([stall(HALF), say("whole")]) as server,
        connect_to_model(server, wire, limits=limits) as model,
    ):
        heard = await talk(model)
    assert heard.reply.message.text == "whole"
    assert "stopped answering" in heard.notices[-1]


@every_wire
async def test_a_stream_that_drips_for_ever_meets_the_total_limit(wire: str):
    limits = TryLimits(idle_s=5, total_s=0.15)
    slow = Turn("x" * 400, pieces=400, delay_s=0.02)
    async with ModelServer([slow] * 3) as server, connect_to_model(server, wire, limits=limits) as model:
        began = time.monotonic()
        with pytest.raises(Overloaded):
            await talk(model)
    assert time.monotonic() - began < 60


async def test_a_slow_stream_that_keeps_coming_is_not_silent():
    slow = Turn("slow but sure", delay_s=0.1)
    async with (
        ModelServer([slow]) as server,
        connect_to_model(server, "chat", limits=TryLimits(idle_s=0.3)) as model,
    ):
        assert (await talk(model)).reply.message.text == "slow but sure"


async def test_the_server_may_say_how_long_to_wait():
    async with (
        ModelServer([fail(429, retry_after=0.2), say("fine")]) as server,
        connect_to_model(server, "chat") as model,
    ):
        began = time.monotonic()
        heard = await talk(model)
    assert time.monotonic() - began >= 0.2
    assert heard.notices == ["rate limited by openai-chat, trying again in 0.2 s (2 of 3)"]


@pytest.mark.parametrize("as_date", [False, True])
async def test_a_wait_longer_than_the_limit_ends_at_once_and_names_it(as_date: bool):
    in_an_hour = datetime.now(UTC) + timedelta(hours=1, seconds=30)
    retry_after = format_datetime(in_an_hour, usegmt=True) if as_date else "3600"
    async with (
        ModelServer([fail(429, retry_after=retry_after)]) as server,
        connect_to_model(server, "chat") as model,
    ):
        with pytest.raises(Overloaded, match=r"it asks to wait (60|6\d) minutes"):
            await talk(model)
        assert server.served == 1


@pytest.mark.parametrize("nonsense", ["soon", "-5", "", "1.2.3", "nan"])
async def test_a_wait_that_makes_no_sense_is_ignored(nonsense: str):
    async with (
        ModelServer([fail(429, retry_after=nonsense), say("fine")]) as server,
        connect_to_model(server, "chat") as model,
    ):
        assert (await talk(model)).reply.message.text == "fine"


@every_wire
async def test_a_server_that_is_not_there_is_tried_again_and_leaves_the_session_resumable(wire: str):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        server = ModelServer(port=port)
        async with connect_to_model(server, wire) as model:
            with pytest.raises(
                Overloaded, match=rf"Cannot reach http://127\.0\.0\.1:{port}.*gave up after 3 tries"
            ):
                await talk(model)


async def test_a_server_that_accepts_and_says_nothing_is_given_up():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        server = ModelServer(port=deaf.getsockname()[1])
        async with connect_to_model(server, "chat", limits=TryLimits(idle_s=0.1)) as model:
            with pytest.raises(Overloaded, match="does not answer"):
                await talk(model)


async def test_a_connection_that_was_closed_meanwhile_is_no_lost_turn():
    async with ModelServer([say("one")]) as first:
        port = first.port
        async with connect_to_model(first, "chat") as model:
            await talk(model)
            await first.__aexit__()
            async with ModelServer([say("two")], port=port):
                assert (await talk(model)).reply.message.text == "two"


async def test_cancelling_a_wait_leaves_at_once():
    policy = RetryPolicy(first_delay_s=30, max_total_s=60)
    async with (
        ModelServer([fail(429, retry_after=30)]) as server,
        connect_to_model(server, "chat", retry=policy) as model,
    ):
        announced = asyncio.Event()

        async def listen() -> None:
            async for event in model.stream(ask_model(person_message("hello"))):
                if isinstance(event, Notice):
                    announced.set()

        task = asyncio.create_task(listen())
        await asyncio.wait_for(announced.wait(), 5)
        task.cancel()
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert time.monotonic() - began < 10


async def test_leaving_a_stream_early_does_not_spoil_the_next_one():
    async with (
        ModelServer([Turn("slow", delay_s=0.05), say("fine")]) as server,
        connect_to_model(server, "chat") as model,
    ):
        stream = model.stream(ask_model(person_message("hello")))
        await anext(stream)
        await stream.aclose()
        assert (await talk(model)).reply.message.text == "fine"


async def test_a_retry_in_the_middle_of_a_session_keeps_the_history_whole():
    script = [say("one"), fail(503), cut(say("two")), say("two"), say("three")]
    async with ModelServer(script) as server, connect_to_model(server, "messages") as model:
        history = await converse(model, 3)
        assert server.rejections == []
    assert [m.text for m in history if m.role == "assistant"] == ["one", "two", "three"]


def test_waits_double_with_full_jitter_up_to_a_ceiling():
    policy = RetryPolicy(max_tries=9, max_total_s=1000, first_delay_s=1, max_delay_s=5)
    for ceilings in ([1, 2, 4, 5, 5],) * 50:
        tries = Tries(policy)
        for ceiling in ceilings:
            wait_s, _ = tries.after(Transient("x"))
            assert 0 <= wait_s <= ceiling


def test_the_time_limit_counts_from_the_first_failure():
    policy = RetryPolicy(max_tries=9, max_total_s=0.05, first_delay_s=0)
    tries = Tries(policy)
    tries.after(Transient("x"))
    time.sleep(0.06)
    with pytest.raises(Overloaded, match="gave up after"):
        tries.after(Transient("x"))


def test_the_default_policy_is_five_tries_within_a_minute():
    assert (RetryPolicy().max_tries, RetryPolicy().max_total_s) == (5, 60)
    assert QUICK.max_tries == 3
