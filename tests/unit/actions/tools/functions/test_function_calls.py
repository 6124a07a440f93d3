"""A function runs as it is: async or in a thread, within its time, again only where that is harmless."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.tools.tool_calls import call, context

from sandbur import RunContext, ToolError, tool
from sandbur.actions.ports import Tool, ToolOutcome
from sandbur.actions.tools.functions.decorator import index_tools
from sandbur.state.errors import UsageError

told: ContextVar[str] = ContextVar("told", default="")


def test_a_tool_stays_the_function_that_it_was():
    @tool
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert add(2) == 3
    assert (add.__name__, add.__doc__) == ("add", "Add.")
    assert isinstance(add, Tool)


async def test_an_async_tool_stays_a_coroutine_function():
    @tool(effect="read")
    async def find(name: str) -> str:
        return name.upper()

    assert await find("a") == "A"
    assert await call(find, name="a") == ToolOutcome("ok", "A")


async def test_a_blocking_function_runs_in_a_thread_with_the_context_of_its_caller():
    @tool
    def where() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), told.get()]

    told.set("yes")
    assert (await call(where)).content == '[false,"yes"]'


async def test_blocking_functions_run_side_by_side():
    both = threading.Barrier(2, timeout=20)

    @tool(effect="read")
    def meet() -> str:
        both.wait()
        return "met"

    outcomes = await asyncio.gather(call(meet), call(meet))
    assert [one.content for one in outcomes] == ["met", "met"]


async def test_callables_of_every_kind_are_tools():
    class Greeting:
        async def __call__(self, name: str) -> str:
            return f"Hello {name}"

    def greet(greeting: str, name: str) -> str:
        return f"{greeting} {name}"

    hello = tool(name="hello")(Greeting())
    moin = tool(name="moin")(partial(greet, "Moin"))
    later = tool(name="later")(lambda: asyncio.sleep(0, "Later"))
    assert (await call(hello, name="A")).content == "Hello A"
    assert (await call(moin, name="A")).content == "Moin A"
    assert (await call(later)).content == "Later"


async def test_a_positional_parameter_is_given_by_name():
    @tool
    def cut(text: str, /, at: int, *, end: str = ".") -> str:
        return text[:at] + end

    assert (await call(cut, text="hello", at=2)).content == "he."


async def test_the_context_says_which_call_it_is(tmp_path: Path):
    @tool
    async def tell(run: RunContext) -> list[str]:
        return [run.tool, run.session_id, run.call_id, run.idempotency_key, str(run.workspace)]

    outcome = await call(tell, context(folder=tmp_path))
    assert outcome.content == f'["tell","s1","c1","s1:c1","{tmp_path}"]'


async def test_live_output_comes_from_any_thread_until_the_call_has_ended():
    live: list[str] = []
    kept: list[RunContext] = []

    @tool
    def work(run: RunContext | None) -> str:
        assert run is not None
        run.emit("half")
        kept.append(run)
        return "done"

    await call(work, context(live.append))
    kept[0].emit("too late")
    await asyncio.to_thread(kept[0].emit, "too late")
    await asyncio.sleep(0)
    assert live == ["half"]
    assert kept[0].is_cancelled


async def test_a_cancelled_function_knows_it_and_says_what_it_gave_until_then():
    @tool
    async def count() -> AsyncIterator[str]:
        yield "one "
        yield "two "
        await asyncio.sleep(60)

    started = asyncio.Event()
    running = asyncio.create_task(call(count, context(lambda text: started.set())))
    await started.wait()
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError, match="one two "):
        await running


async def test_a_cancellation_does_not_wait_for_a_thread():
    ended = threading.Event()

    @tool
    def work(run: RunContext) -> None:
        while not run.is_cancelled:
            time.sleep(0.005)
        ended.set()

    running = asyncio.create_task(call(work))
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(ended.wait, 20)


async def test_a_function_that_takes_too_long_is_stopped():
    @tool(effect="read", timeout_s=0.05)
    async def slow() -> str:
        await asyncio.sleep(60)
        return ""

    @tool(timeout_s=0.05)
    async def slow_stream() -> AsyncIterator[str]:
        yield "half"
        await asyncio.sleep(60)

    assert await call(slow) == ToolOutcome("timeout", "slow did not end within 0.05 s and was stopped.")
    outcome = await call(slow_stream)
    assert outcome.outcome == "timeout"
    assert outcome.content.endswith("It may have taken effect. Output so far:\nhalf")


async def test_a_thread_that_takes_too_long_is_left_alone():
    go_on = threading.Event()

    @tool(timeout_s=0.05)
    def slow() -> None:
        go_on.wait(20)

    outcome = await call(slow)
    go_on.set()
    assert outcome.outcome == "timeout"
    assert "cannot be stopped: it may still run" in outcome.content


async def test_a_time_limit_of_the_functions_own_is_a_failure_of_it():
    @tool(timeout_s=30)
    async def slow() -> None:
        raise TimeoutError("the server is slow")

    with pytest.raises(TimeoutError, match="the server is slow"):
        await call(slow)


def failing(times: int, error: Exception) -> tuple[list[int], Any]:
    calls: list[int] = []

    async def act() -> str:
        calls.append(1)
        if len(calls) <= times:
            raise error
        return "worked"

    return calls, act


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_failure_is_tried_again_where_that_is_harmless(effect: Any):
    calls, act = failing(2, OSError("gone"))
    assert (await call(tool(effect=effect, retries=2)(act))).content == "worked"
    assert len(calls) == 3


async def test_the_last_failure_is_told():
    calls, act = failing(9, OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        await call(tool(effect="read", retries=1)(act))
    assert len(calls) == 2


async def test_what_the_tool_says_itself_is_not_tried_again():
    calls, act = failing(9, ToolError("There is no such order. Search first."))
    outcome = await call(tool(effect="read", retries=3)(act))
    assert outcome == ToolOutcome("error", "There is no such order. Search first.")
    assert len(calls) == 1


@pytest.mark.parametrize(("answer", "runs"), [("not_done", 2), ("done", 1), ("unknown", 1), (False, 2)])
async def test_a_checked_effect_is_tried_again_only_if_it_did_not_happen(answer: Any, runs: int):
    calls, act = failing(1, OSError("gone"))
    made = tool(effect="verifiable", check=lambda: answer, retries=1)(act)
    if runs == 1:
        with pytest.raises(OSError, match="gone"):
            await call(made)
    else:
        assert (await call(made)).content == "worked"
    assert len(calls) == runs


async def test_a_function_that_leaves_the_program_is_a_failed_call():
    @tool
    async def leave() -> None:
        sys.exit(3)

    @tool
    def leave_in_a_thread() -> None:
        sys.exit(3)

    assert await call(leave) == ToolOutcome("error", "leave failed: it called sys.exit(3).")
    with pytest.raises(RuntimeError, match=r"SystemExit\(3\)"):
        await call(leave_in_a_thread)


async def test_a_cancellation_from_within_is_a_failure_and_no_end_of_the_run():
    @tool
    async def wait() -> None:
        inner = asyncio.ensure_future(asyncio.sleep(60))
        inner.cancel()
        await inner

    assert await call(wait) == ToolOutcome(
        "error", "wait failed: an operation that it waited for was cancelled."
    )


def test_rules_are_held_against_the_subject_or_against_everything():
    @tool(subject="to")
    def send(to: str, body: str) -> None: ...

    @tool
    def send_all(to: str, body: str) -> None: ...

    text = '{"to": "a@b.c", "body": "hi"}'
    assert send.subject(send.parse(text)) == "a@b.c"
    assert send_all.subject(send_all.parse(text)) == '{"to":"a@b.c","body":"hi"}'


def test_what_the_decorator_is_told_is_what_others_see():
    @tool(name="mail", description="Send.", effect="idempotent", ephemeral=2, ask="always", needs=["post"])
    def send(to: str) -> None: ...

    assert (send.spec.name, send.spec.description, send.effect) == ("mail", "Send.", "idempotent")
    assert send.effect_of(send.parse('{"to": "a"}')) == "idempotent"
    traits = send.traits
    assert (traits.asks, traits.groups, traits.ephemeral) == ("always", ("post",), 2)


def ask_for_other(other: str) -> str:
    return other


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"effect": "verifiable"}, "The tool act: a check and the effect verifiable need each other."),
        ({"check": lambda: "done"}, "The tool act: a check and the effect verifiable need each other."),
        ({"effect": "writes"}, "The tool act has the effect 'writes'. It is one of"),
        ({"retries": 1}, "The tool act has retries=1, but its effect is not declared"),
        ({"retries": -1, "effect": "read"}, "The tool act: retries and ephemeral are 0 or more."),
        ({"timeout_s": 0}, "The tool act has timeout_s=0: it must be more than 0."),
        ({"ask": "sometimes"}, "The tool act has ask='sometimes'."),
        ({"name": "a.b"}, "'a.b' is not a name for a tool"),
        ({"name": "x" * 65}, "is not a name for a tool"),
        ({"subject": "body"}, "The tool act has no argument `body`"),
        (
            {"effect": "verifiable", "check": ask_for_other},
            "its check ask_for_other has a parameter `other`, which the tool does not have",
        ),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(options: dict[str, Any], sentence: str):
    def act(text: str) -> None: ...

    with pytest.raises(UsageError) as raised:
        tool(**options)(act)
    assert sentence in str(raised.value)


def test_a_lambda_needs_a_name():
    with pytest.raises(UsageError, match="'<lambda>' is not a name for a tool"):
        tool(lambda: None)


def test_two_tools_of_one_name_are_told_with_where_they_are_from():
    def find() -> None: ...

    other = tool(name="find")(test_a_lambda_needs_a_name)
    with pytest.raises(UsageError, match=r"There are two tools called find: .*\.find and .*test_a_lambda"):
        index_tools([find, other])
    with pytest.raises(UsageError, match="3 is not a tool"):
        index_tools([3])  # pyright: ignore
    assert list(index_tools([other, tool(name="act")(find)])) == ["find", "act"]
