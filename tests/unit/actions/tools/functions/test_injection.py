"""What a function needs is provided once for a run, and closed at its end whatever happens."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest
from support.tools.tool_calls import call, context

from sandbur import Depends, RunContext, tool
from sandbur.actions.ports import ToolOutcome
from sandbur.actions.tools.functions.injection import overrides
from sandbur.actions.tools.functions.run_scope import RunScope
from sandbur.state.errors import UsageError


class Log(list[str]):
    """What happened, in order."""


def providing(log: Log) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return two providers, of which the second needs the first."""

    async def connection() -> AsyncIterator[str]:
        log.append("open connection")
        yield "connection"
        log.append("close connection")

    def transaction(of: Annotated[str, Depends(connection)]) -> Iterator[str]:
        log.append(f"begin on {of}")
        yield f"transaction on {of}"
        log.append("commit")

    return connection, transaction


async def test_what_is_opened_is_shared_by_a_run_and_closed_at_its_end_the_last_first():
    log = Log()
    connection, transaction = providing(log)

    @tool
    async def one(db: Annotated[str, Depends(transaction)]) -> str:
        return db

    @tool
    def other(db: Annotated[str, Depends(connection)], again: str = Depends(transaction)) -> list[str]:
        return [db, again]

    scope = RunScope()
    outcomes = await asyncio.gather(*(call(made, context(scope=scope)) for made in (one, other, one)))
    assert [each.content for each in outcomes] == [
        "transaction on connection",
        '["connection","transaction on connection"]',
        "transaction on connection",
    ]
    assert log == ["open connection", "begin on connection"]
    assert await scope.aclose() == []
    assert log[2:] == ["commit", "close connection"]
    await call(one, context(scope=scope))
    assert log[4:] == ["open connection", "begin on connection"]
    await scope.aclose()


async def test_what_is_for_a_call_alone_is_closed_before_its_result_is_there():
    log = Log()
    connection, _ = providing(log)

    @tool
    async def act(db: Annotated[str, Depends(connection, per="call")]) -> str:
        log.append(f"act on {db}")
        return "acted"

    scope = RunScope()
    for _ in range(2):
        assert await call(act, context(scope=scope)) == ToolOutcome("ok", "acted")
    assert log == ["open connection", "act on connection", "close connection"] * 2


async def test_without_a_run_a_call_closes_what_it_opens():
    log = Log()
    connection, _ = providing(log)

    @tool
    def act(db: Annotated[str, Depends(connection)]) -> str:
        return db

    assert (await call(act)).content == "connection"
    assert log == ["open connection", "close connection"]


async def test_providers_of_every_kind_provide():
    class Settings:
        def __init__(self, run: RunContext) -> None:
            self.name = run.session_id

    class Clock:
        def __call__(self) -> int:
            return 12

    async def later() -> str:
        return "later"

    def blocking() -> bool:
        return threading.current_thread() is threading.main_thread()

    @tool
    async def act(
        a: Annotated[Settings, Depends(Settings)],
        b: Annotated[int, Depends(Clock())],
        c: Annotated[str, Depends(later)],
        d: Annotated[bool, Depends(blocking)],
    ) -> list[Any]:
        return [a.name, b, c, d]

    assert (await call(act)).content == '["s1",12,"later",false]'


async def test_a_provider_may_have_defaults_of_its_own():
    def page_size(size: int = 20) -> int:
        return size

    @tool
    def act(size: Annotated[int, Depends(page_size)]) -> int:
        return size

    assert (await call(act)).content == "20"


async def test_something_else_takes_the_place_of_a_provider_in_tests():
    log = Log()
    connection, transaction = providing(log)

    async def fake() -> AsyncIterator[str]:
        yield "fake"
        log.append("close fake")

    @tool
    async def act(db: Annotated[str, Depends(transaction)]) -> str:
        return db

    with overrides({connection: fake}):
        assert (await call(act)).content == "transaction on fake"
        with overrides({transaction: lambda: "inner"}):
            assert (await call(act)).content == "inner"
        assert (await call(act)).content == "transaction on fake"
    assert (await call(act)).content == "transaction on connection"
    assert log.count("close fake") == 2


async def test_overrides_of_one_task_are_none_of_another():
    def real() -> str:
        return "real"

    @tool
    def act(db: Annotated[str, Depends(real)]) -> str:
        return db

    async def within(name: str) -> str:
        with overrides({real: lambda: name}):
            await asyncio.sleep(0)
            return (await call(act)).content

    assert await asyncio.gather(within("a"), within("b")) == ["a", "b"]


def test_an_override_that_can_be_no_provider_is_refused():
    def real() -> str:
        return "real"

    def fake(name: str) -> str:
        return name

    with (
        pytest.raises(UsageError, match=r"The override .*fake: nothing fills the parameter `name`"),
        overrides({real: fake}),
    ):
        pass


def test_an_override_that_needs_what_it_replaces_is_a_circle():
    def real() -> str:
        return "real"

    def fake(db: Annotated[str, Depends(real)]) -> str:
        return db

    with pytest.raises(UsageError, match="can never be called"), overrides({real: fake}):
        pass


def get_a(b: "Annotated[int, Depends(get_b)]") -> int:
    return b


def get_b(c: "Annotated[int, Depends(get_c)]") -> int:
    return c


def get_c(a: Annotated[int, Depends(get_a)]) -> int:
    return a


def test_a_circle_is_found_when_the_tool_is_made():
    def act(a: Annotated[int, Depends(get_a)]) -> None: ...

    with pytest.raises(UsageError) as raised:
        tool(act)
    assert str(raised.value) == (
        "The tool act can never be called: get_a needs get_b needs get_c needs get_a. Remove one dependency."
    )


def test_a_parameter_that_nothing_fills_is_found_when_the_tool_is_made():
    def get_db(url: str) -> str:
        return url

    def act(db: Annotated[str, Depends(get_db)]) -> None: ...

    with pytest.raises(UsageError, match=r"The tool act: nothing fills the parameter `url` of .*get_db"):
        tool(act)


def test_what_is_kept_for_the_run_cannot_need_what_is_not():
    def short() -> str:
        return ""

    def long(of: Annotated[str, Depends(short, per="call")]) -> str:
        return of

    def act(db: Annotated[str, Depends(long)]) -> None: ...

    with pytest.raises(UsageError, match=r"long is kept for the run, but needs .*short, which is not"):
        tool(act)


def test_only_a_function_can_provide():
    with pytest.raises(UsageError, match="not 3"):
        Depends(3)  # pyright: ignore


async def test_a_provider_that_fails_is_asked_again_by_the_next_call():
    tries: list[int] = []

    async def flaky() -> AsyncIterator[str]:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no server")
        yield "db"

    @tool
    async def act(db: Annotated[str, Depends(flaky)]) -> str:
        return db

    scope = RunScope()
    with pytest.raises(OSError, match="no server"):
        await call(act, context(scope=scope))
    assert (await call(act, context(scope=scope))).content == "db"
    assert await scope.aclose() == []


async def test_what_goes_wrong_at_closing_is_told_and_the_rest_is_closed():
    log = Log()

    async def first() -> AsyncIterator[str]:
        yield "first"
        log.append("first closed")

    async def second(of: Annotated[str, Depends(first)]) -> AsyncIterator[str]:
        yield of
        raise OSError("disk full")

    @tool
    async def act(db: Annotated[str, Depends(second)]) -> str:
        return db

    scope = RunScope()
    await call(act, context(scope=scope))
    (problem,) = await scope.aclose()
    assert problem.endswith("second failed when it was closed: OSError: disk full")
    assert log == ["first closed"]
    assert await call(act) == ToolOutcome("ok", f"first\n{problem}")


async def test_a_generator_is_opened_and_closed_in_one_task():
    tasks: list[Any] = []

    async def limited() -> AsyncIterator[str]:
        async with asyncio.timeout(30):
            tasks.append(asyncio.current_task())
            yield "limited"
            tasks.append(asyncio.current_task())

    @tool
    async def act(db: Annotated[str, Depends(limited)]) -> str:
        return db

    scope = RunScope()
    await asyncio.create_task(call(act, context(scope=scope)))
    assert await scope.aclose() == []
    assert tasks[0] is tasks[1]


async def test_a_cancelled_call_leaves_what_others_wait_for():
    opening, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[str]:
        opening.set()
        await go_on.wait()
        yield "db"

    @tool
    async def act(db: Annotated[str, Depends(slow)]) -> str:
        return db

    scope = RunScope()
    first, second = (asyncio.create_task(call(act, context(scope=scope))) for _ in range(2))
    await opening.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    go_on.set()
    assert (await second).content == "db"
    assert await scope.aclose() == []


async def test_what_never_opens_does_not_keep_a_run_from_ending():
    opening = asyncio.Event()

    async def stuck() -> AsyncIterator[str]:
        opening.set()
        await asyncio.sleep(600)
        yield "never"

    @tool
    async def act(db: Annotated[str, Depends(stuck)]) -> str:
        return db

    scope = RunScope()
    running = asyncio.create_task(call(act, context(scope=scope)))
    await opening.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await scope.aclose() == []


@pytest.mark.parametrize("is_generator", [False, True])
async def test_a_provider_that_leaves_the_program_fails_the_call(is_generator: bool):
    async def leave() -> str:
        sys.exit(3)

    async def leave_later() -> AsyncIterator[str]:
        yield await leave()

    @tool
    async def act(db: Annotated[str, Depends(leave_later if is_generator else leave)]) -> str:
        return db

    with pytest.raises(RuntimeError, match=r"it called sys\.exit\(3\)"):
        await call(act)


async def test_what_never_closes_is_given_up_and_told():
    async def stuck() -> AsyncIterator[str]:
        yield "db"
        await asyncio.sleep(600)

    @tool
    async def act(db: Annotated[str, Depends(stuck)]) -> str:
        return db

    scope = RunScope(close_s=0.05)
    await call(act, context(scope=scope))
    (problem,) = await scope.aclose()
    assert problem.endswith("stuck did not close within 0.05 s.")


async def test_a_function_that_fails_closes_what_its_call_opened():
    log = Log()
    connection, _ = providing(log)

    @tool
    async def act(db: Annotated[str, Depends(connection, per="call")]) -> str:
        raise ValueError(db)

    with pytest.raises(ValueError, match="connection"):
        await call(act)
    assert log == ["open connection", "close connection"]
