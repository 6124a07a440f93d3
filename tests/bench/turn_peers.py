"""Sessions of streamed tool turns: Sandbur, other frameworks, and a loop on the openai SDK.

Usage, by `framework_peers.py`: turn_peers.py CONTENDER URL SESSIONS, in a Python that has the contender. One
session is measured turn by turn; many run at once, after one that does not count. Prints a JSON object.
"""

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

FIRST, TURNS = 3, 200
"""The turns of a session that warm up, and those that count."""
COUNTED = {"first ten": 10, "50 turns": 50, "200 turns": TURNS}
RESULT = "r" * 200
TICK_S = 0.005
Ask = Callable[[str], Awaitable[str]]
"""Run a session with this id; return its last answer."""
Open = Callable[[str, Path], AbstractAsyncContextManager[Ask]]
"""Open an agent on the model server at a URL, which may store in a folder."""

marks: list[float] = []
"""The CPU seconds of the process at each call of the tool."""


def act(text: str) -> str:
    """Act."""
    marks.append(time.process_time())
    return RESULT


@asynccontextmanager
async def open_sandbur(url: str, folder: Path) -> AsyncGenerator[Ask]:
    sandbur = import_module("sandbur")
    env = {
        "HOME": str(folder),
        "SANDBUR_HOME": f"{folder}/data",
        "OPENAI_API_KEY": "x",
        "OPENAI_BASE_URL": url,
    }
    tool = sandbur.tool(effect="read")(act)
    async with sandbur.Agent("openai-chat/m", tools=[tool], mode="yolo", env=env, cwd=folder) as agent:

        async def ask(session_id: str) -> str:
            async with agent.session(session_id) as session:
                return (await session.run("go")).text

        yield ask


@asynccontextmanager
async def open_openai(url: str, folder: Path) -> AsyncGenerator[Ask]:
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    function = {"name": "act", "description": "Act.", "parameters": parameters}
    options: dict[str, Any] = {
        "model": "m",
        "tools": [{"type": "function", "function": function}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }

    async def ask(session_id: str) -> str:
        async with import_module("openai").AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
            messages: list[Any] = [{"role": "user", "content": "go"}]
            while True:
                text, call_id, arguments = "", "", ""
                async for chunk in await client.chat.completions.create(messages=messages, **options):
                    for choice in chunk.choices:
                        text += choice.delta.content or ""
                        for part in choice.delta.tool_calls or ():
                            call_id = part.id or call_id
                            arguments += part.function.arguments or ""
                if not call_id:
                    return text
                asked = {"name": "act", "arguments": arguments}
                call = {"id": call_id, "type": "function", "function": asked}
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
                result = act(**json.loads(arguments))
                messages.append({"role": "tool", "tool_call_id": call_id, "content": result})

    yield ask


def make_pydantic_ai(url: str, tool: Any, **options: Any) -> Any:
    ai = import_module("pydantic_ai")
    chat = import_module("pydantic_ai.models.openai").OpenAIChatModel
    provider = import_module("pydantic_ai.providers.openai").OpenAIProvider(base_url=url, api_key="x")
    return ai.Agent(chat("m", provider=provider), name="bench", tools=[tool], **options)


async def _read_events(context: Any, events: Any) -> None:
    async for _ in events:
        pass


def _allow_turns() -> Any:
    return import_module("pydantic_ai.usage").UsageLimits(request_limit=None)


@asynccontextmanager
async def open_pydantic_ai(url: str, folder: Path) -> AsyncGenerator[Ask]:
    agent = make_pydantic_ai(url, act)

    async def ask(session_id: str) -> str:
        run = await agent.run("go", usage_limits=_allow_turns(), event_stream_handler=_read_events)
        return str(run.output)

    yield ask


@asynccontextmanager
async def open_dbos(url: str, folder: Path) -> AsyncGenerator[Ask]:
    """Run pydantic-ai in workflows of DBOS: each request to the model and each call of the tool is a step."""
    dbos = import_module("dbos")
    store = f"sqlite:///{folder}/dbos.sqlite"
    config = {
        "name": "bench",
        "system_database_url": store,
        "log_level": "CRITICAL",
        "run_admin_server": False,
    }
    dbos.DBOS(config=config)

    async def step(text: str) -> str:
        """Act."""
        return act(text)

    step.__name__ = "act"
    durability = import_module("pydantic_ai.durable_exec.dbos").DBOSDurability
    agent = make_pydantic_ai(
        url,
        dbos.DBOS.step(name="act")(step),
        capabilities=[durability()],
    )

    @dbos.DBOS.workflow()
    async def work() -> str:
        run = await agent.run("go", usage_limits=_allow_turns(), event_stream_handler=_read_events)
        return str(run.output)

    async def ask(session_id: str) -> str:
        with dbos.SetWorkflowID(session_id):
            return await work()

    dbos.DBOS.launch()
    yield ask


@asynccontextmanager
async def open_openai_agents(url: str, folder: Path) -> AsyncGenerator[Ask]:
    agents = import_module("agents")
    agents.set_tracing_disabled(True)
    client = import_module("openai").AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
    agent = agents.Agent(name="bench", model=model, tools=[agents.function_tool(act)])

    async def ask(session_id: str) -> str:
        session = agents.SQLiteSession(session_id, str(folder / "agents.db"))
        run = agents.Runner.run_streamed(agent, "go", session=session, max_turns=10**6)
        async for _ in run.stream_events():
            pass
        return str(run.final_output)

    yield ask


@asynccontextmanager
async def _open_langchain(url: str, folder: Path, make: Callable[[Any, Any], Any]) -> AsyncGenerator[Ask]:
    """Open an agent of LangGraph or deepagents with its SQLite checkpointer."""
    model = import_module("langchain_openai").ChatOpenAI(
        model="m", base_url=url, api_key="x", max_retries=0, streaming=True, stream_usage=True
    )
    saver = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver
    async with saver.from_conn_string(str(folder / "store.db")) as store:
        agent = make(model, store)

        async def ask(session_id: str) -> str:
            config = {"configurable": {"thread_id": session_id}, "recursion_limit": 10**6}
            start = {"messages": [("user", "go")]}
            answer = ""
            async for part, _ in agent.astream(start, config, stream_mode="messages", durability="sync"):
                answer = answer + part.text if part.type == "AIMessageChunk" else ""
            return answer

        yield ask


def open_langgraph(url: str, folder: Path) -> AbstractAsyncContextManager[Ask]:
    graph, prebuilt = import_module("langgraph.graph"), import_module("langgraph.prebuilt")

    def make(model: Any, store: Any) -> Any:
        bound = model.bind_tools([act])

        async def ask(state: Any) -> Any:
            return {"messages": [await bound.ainvoke(state["messages"])]}

        builder = graph.StateGraph(graph.MessagesState)
        builder.add_node("ask", ask)
        builder.add_node("tools", prebuilt.ToolNode([act]))
        builder.add_edge(graph.START, "ask")
        builder.add_conditional_edges("ask", prebuilt.tools_condition)
        builder.add_edge("tools", "ask")
        return builder.compile(checkpointer=store)

    return _open_langchain(url, folder, make)


def open_deepagents(url: str, folder: Path) -> AbstractAsyncContextManager[Ask]:
    create = import_module("deepagents").create_deep_agent
    return _open_langchain(
        url, folder, lambda model, store: create(model=model, tools=[act], checkpointer=store)
    )


@asynccontextmanager
async def open_google_adk(url: str, folder: Path) -> AsyncGenerator[Ask]:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch the prices
    model = import_module("google.adk.models.lite_llm").LiteLlm("openai/m", api_base=url, api_key="x")
    agent = import_module("google.adk.agents").LlmAgent(name="bench", model=model, tools=[act])
    configs = import_module("google.adk.agents.run_config")
    config = configs.RunConfig(streaming_mode=configs.StreamingMode.SSE, max_llm_calls=0)
    runner = import_module("google.adk.runners").InMemoryRunner(agent=agent, app_name="bench")
    types = import_module("google.genai.types")

    async def ask(session_id: str) -> str:
        await runner.session_service.create_session(app_name="bench", user_id="u", session_id=session_id)
        go = types.Content(role="user", parts=[types.Part(text="go")])
        answer = ""
        async for event in runner.run_async(
            user_id="u", session_id=session_id, new_message=go, run_config=config
        ):
            if not event.partial and event.content and event.content.parts:
                answer = "".join(part.text or "" for part in event.content.parts)
        return answer

    yield ask


CONTENDERS: dict[str, tuple[str, Open]] = {
    "sandbur": ("sandbur", open_sandbur),
    "openai": ("openai", open_openai),
    "pydantic-ai": ("pydantic-ai-slim", open_pydantic_ai),
    "pydantic-ai on DBOS": ("dbos", open_dbos),
    "openai-agents": ("openai-agents", open_openai_agents),
    "langgraph": ("langgraph", open_langgraph),
    "deepagents": ("deepagents", open_deepagents),
    "google-adk": ("google-adk", open_google_adk),
}
"""Name -> the package whose version is shown, and the function that opens it."""


async def measure_session(ask: Ask) -> dict[str, float]:
    """Return the milliseconds of CPU time of a turn: the mean of each counted number of turns."""
    answer = await ask("s1")
    assert answer == "done", answer
    assert len(marks) >= FIRST + TURNS, len(marks)
    # A turn is from one call of the tool to the next; the last one ends with the answer.
    marks.append(time.process_time())
    return {what: (marks[FIRST + n] - marks[FIRST]) / n * 1000 for what, n in COUNTED.items()}


async def measure_sessions(ask: Ask, count: int) -> dict[str, float]:
    """Return what so many sessions at once take, and how many of them end."""
    assert await ask("warm") == "done"
    began, calls = time.process_time(), len(marks)
    running = asyncio.gather(*(ask(f"s{number}") for number in range(count)), return_exceptions=True)
    stall_s, descriptors, looked = 0.0, 0, time.perf_counter()
    while not running.done():
        wanted = time.perf_counter() + TICK_S
        await asyncio.sleep(TICK_S)
        stall_s = max(stall_s, time.perf_counter() - wanted)
        if wanted - looked > 0.25:
            looked, descriptors = wanted, max(descriptors, len(os.listdir("/proc/self/fd")))  # noqa: PTH208
    answers = await running
    problems = {repr(one)[:300] for one in answers if isinstance(one, BaseException)}
    print(*sorted(problems)[:3], sep="\n", file=sys.stderr)
    requests = len(marks) - calls + answers.count("done")
    return {
        "CPU of a request": (time.process_time() - began) / max(requests, 1) * 1000,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "longest stall": stall_s,
        "descriptors": descriptors,
        "ended": answers.count("done"),
    }


async def measure(name: str, url: str, sessions: int) -> None:
    package, open_agent = CONTENDERS[name]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with open_agent(url, Path(folder)) as ask:
            found = await (measure_session(ask) if sessions == 1 else measure_sessions(ask, sessions))
        release = (
            import_module("sandbur.agent.runtime.version").VERSION if name == "sandbur" else version(package)
        )
        print(json.dumps({"version": release, **found}), flush=True)
        os._exit(0)  # DBOS has threads that go on


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1], sys.argv[2], int(sys.argv[3])))
