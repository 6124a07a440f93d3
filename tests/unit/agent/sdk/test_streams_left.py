"""A stream of events that is left before its end: its run is interrupted, and its session is free."""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from support.waiting import until

from sandbur import Agent, AgentSession, EventStream, ModelRequest, SandburError, events, tool
from sandbur.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.slow

ELSEWHERE = """
import asyncio, sys
from sandbur import Agent
from sandbur.testing import ScriptedModel

async def main():
    agent = Agent(ScriptedModel(lambda request: "From elsewhere."))
    result = await agent.run("go on", session_id=sys.argv[1])
    print(result.status, result.output)

asyncio.run(main())
"""


@dataclass
class Shop:
    """An agent with a tool that never ends by itself, and what another process makes of its sessions."""

    env: dict[str, str]
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    cut: list[str] = field(default_factory=list[str])

    def agent(self) -> Agent:
        @tool(effect="read")
        async def wait() -> str:
            """Wait."""
            self.entered.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)  # a tool that takes a moment to end
                self.cut.append("wait")
                raise
            return "waited"

        def answer(request: ModelRequest) -> ToolCall | str:
            last = list(request.messages)[-1]
            return ToolCall("wait") if last.text == "wait" else "Done."

        return Agent(ScriptedModel(answer), tools=[wait], env=self.env)

    async def taken_over(self, session_id: str) -> str:
        """Return what another process says that goes on with a session at once."""
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ELSEWHERE, session_id, env=self.env, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await program.communicate()
        return (out or err).decode().strip()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop({"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]})


@pytest.fixture(autouse=True)
async def nothing_is_lost() -> AsyncGenerator[None]:
    """Fail for what asyncio says of exceptions and tasks that nobody waited for."""
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
    yield
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


class OwnError(Exception):
    """What the program that reads a stream raises by itself."""


async def leave_by_break(session: AgentSession, shop: Shop) -> None:
    async for event in session.stream("wait"):
        if isinstance(event, events.ToolStarted):
            await shop.entered.wait()
            break


async def leave_by_return(session: AgentSession, shop: Shop) -> None:
    async for event in session.stream("wait"):
        if isinstance(event, events.ToolStarted):
            await shop.entered.wait()
            return


async def leave_by_exception(session: AgentSession, shop: Shop) -> None:
    with pytest.raises(OwnError):
        await read_and_raise(session, shop)


async def read_and_raise(session: AgentSession, shop: Shop) -> None:
    async for event in session.stream("wait"):
        if isinstance(event, events.ToolStarted):
            await shop.entered.wait()
            raise OwnError


async def read(session: AgentSession) -> None:
    async for _ in session.stream("wait"):
        pass


async def leave_by_cancellation(session: AgentSession, shop: Shop) -> None:
    reading = asyncio.create_task(read(session))
    await shop.entered.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def leave_by_time(session: AgentSession, shop: Shop) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(None) as limit:
            async for event in session.stream("wait"):
                if isinstance(event, events.ToolStarted):
                    await shop.entered.wait()
                    limit.reschedule(asyncio.get_running_loop().time())


async def leave_by_scope(session: AgentSession, shop: Shop) -> None:
    """A scope of anyio cancels again and again, until its task leaves."""
    with anyio.CancelScope() as scope:
        async for event in session.stream("wait"):
            if isinstance(event, events.ToolStarted):
                await shop.entered.wait()
                asyncio.get_running_loop().call_soon(scope.cancel)


async def leave_by_nested_task(session: AgentSession, shop: Shop) -> None:
    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(3600))
            group.create_task(read_and_raise(session, shop))


async def leave_by_context(session: AgentSession, shop: Shop) -> None:
    async with session.stream("wait") as stream:
        async for event in stream:
            if isinstance(event, events.ToolStarted):
                await shop.entered.wait()
                break


async def leave_kept(session: AgentSession, shop: Shop) -> None:
    stream = session.stream("wait")
    async for event in stream:
        if isinstance(event, events.ToolStarted):
            await shop.entered.wait()
            break
    KEPT.append(stream)


KEPT: list[EventStream] = []


WAYS = (
    leave_by_break, leave_by_return, leave_by_exception, leave_by_cancellation, leave_by_time, leave_by_scope,
    leave_by_nested_task, leave_by_context, leave_kept,
)  # fmt: skip
Leave = Callable[[AgentSession, Shop], Awaitable[None]]


@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
async def test_a_session_closes_with_a_stream_that_was_left(shop: Shop, leave: Leave) -> None:
    async with shop.agent().session("s") as session:
        await leave(session, shop)
    assert shop.cut == ["wait"]
    assert session.result is not None
    assert session.result.status == "interrupted"
    assert await shop.taken_over("s") == "done From elsewhere."


@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
async def test_the_next_run_waits_for_the_end_of_a_stream_that_was_left(shop: Shop, leave: Leave) -> None:
    async with shop.agent().session("s") as session:
        await leave(session, shop)
        result = await session.run("and now?")
        assert (result.status, result.output) == ("done", "Done.")
        assert shop.cut == ["wait"]


@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
async def test_the_lease_of_a_left_stream_is_free_while_the_session_is_open(shop: Shop, leave: Leave) -> None:
    async with shop.agent().session("s") as session:
        await leave(session, shop)
        if leave is leave_kept:
            await KEPT.pop().aclose()
        await until(lambda: session.result is not None)
        assert await shop.taken_over("s") == "done From elsewhere."


async def read_until_the_tool_runs(shop: Shop, agent: Agent, session_id: str) -> None:
    shop.entered.clear()
    async for event in agent.stream("wait", session_id=session_id):
        if isinstance(event, events.ToolStarted):
            await shop.entered.wait()
            break


async def test_a_left_stream_of_an_agent_frees_its_session(shop: Shop) -> None:
    agent = shop.agent()
    await read_until_the_tool_runs(shop, agent, "s")
    assert (await agent.run("and now?", session_id="s")).output == "Done."
    assert shop.cut == ["wait"]
    async with agent:
        await read_until_the_tool_runs(shop, agent, "t")
    assert shop.cut == ["wait", "wait"]
    assert await shop.taken_over("t") == "done From elsewhere."


async def test_an_own_exception_leaves_the_stream_of_an_agent(shop: Shop) -> None:
    agent = shop.agent()
    with suppress(OwnError):
        async for event in agent.stream("wait", session_id="s"):
            if isinstance(event, events.ToolStarted):
                raise OwnError
    assert (await agent.run("and now?", session_id="s")).output == "Done."


async def test_a_stream_is_closed_once_and_yields_nothing_more(shop: Shop) -> None:
    async with shop.agent().session("s") as session:
        stream = session.stream("wait")
        await anext(stream)
        await asyncio.gather(stream.aclose(), stream.aclose())
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        unread = session.stream("never read")
        await unread.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(unread)
        assert "never read" not in [message.text for message in session.history]


async def test_a_stream_that_another_task_reads_is_not_cut_by_a_second_run(shop: Shop) -> None:
    async with shop.agent().session("s") as session:
        finished: list[events.Event] = []

        async def follow() -> None:
            finished.extend([event async for event in session.stream("wait")])

        reading = asyncio.create_task(follow())
        await shop.entered.wait()
        with pytest.raises(SandburError, match="is running"):
            await session.run("and now?")
        assert shop.cut == []
        await session.interrupt()
        await reading
        assert isinstance(finished[-1], events.RunFinished)
        assert finished[-1].status == "interrupted"


async def test_closing_a_session_ends_a_stream_that_another_task_waits_for(shop: Shop) -> None:
    async with shop.agent().session("s") as session:
        reading = asyncio.create_task(read(session))
        await shop.entered.wait()
    await reading
    assert await shop.taken_over("s") == "done From elsewhere."


async def test_an_error_of_the_run_reaches_the_reader_once(shop: Shop) -> None:
    async with shop.agent().session("s") as session:
        stream = session.stream()
        with pytest.raises(SandburError, match="nothing to go on with"):
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert (await session.run("Hi")).output == "Done."


@pytest.mark.parametrize("closing", [True, False])
async def test_a_web_server_frees_the_session_of_who_hangs_up(shop: Shop, closing: bool) -> None:
    agent = shop.agent()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with agent:
            yield

    app = FastAPI(lifespan=lifespan)

    async def of_session() -> AsyncGenerator[str]:
        async with agent.session("s") as session:
            async for event in session.stream("wait"):
                yield f"{type(event).__name__}\n"

    async def of_agent() -> AsyncGenerator[str]:
        async for event in agent.stream("wait", session_id="s"):
            yield f"{type(event).__name__}\n"

    @app.get("/")
    async def answer() -> StreamingResponse:
        return StreamingResponse(of_session() if closing else of_agent())

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="on"))
    serving = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx2.AsyncClient() as client, client.stream("GET", f"http://127.0.0.1:{port}/") as reply:
            async for line in reply.aiter_lines():
                if line == "ToolStarted":
                    break
        await until(lambda: bool(shop.cut))
        assert (await agent.run("and now?", session_id="s")).output == "Done."
    finally:
        server.should_exit = True
        await serving


LEFT_AT_THE_END = """
import asyncio
from sandbur import Agent, events, tool
from sandbur.testing import ScriptedModel, ToolCall

@tool(effect="read")
async def wait() -> str:
    "Wait."
    await asyncio.sleep(3600)
    return ""

async def main():
    agent = Agent(ScriptedModel([ToolCall("wait")]), tools=[wait])
    async for event in agent.stream("wait", session_id="s"):
        if isinstance(event, events.ToolStarted):
            HOW

try:
    asyncio.run(main())
except ZeroDivisionError:
    pass
print("still here", flush=True)
input()
"""


@pytest.mark.parametrize("how", ["break", "return", "1 / 0"])
def test_a_program_whose_loop_ends_holds_no_session(shop: Shop, how: str) -> None:
    code = LEFT_AT_THE_END.replace("HOW", how)
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], env=shop.env, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stdout is not None
        assert program.stdin is not None
        assert program.stderr is not None
        assert program.stdout.readline() == "still here\n"
        assert asyncio.run(shop.taken_over("s")) == "done From elsewhere."
        program.stdin.write("\n")
        program.stdin.close()
        assert program.stderr.read() == ""
        assert program.wait() == 0
