"""Streamed tool turns of other frameworks, and of a loop on the openai SDK; `turns.py` runs it.

Usage: turn_peers.py CONTENDER URL, in a Python that has the contender; `openai` is the loop. Prints the
milliseconds of CPU time for one of 50 turns and the answer, after a first run that does not count. LangGraph
and deepagents store in SQLite, pydantic-ai stores nothing.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

TURNS = 50
RESULT = "r" * 200
Run = Callable[[str], Awaitable[str]]


def act(text: str) -> str:
    """Act."""
    return RESULT


async def run_openai(url: str) -> str:
    client = import_module("openai").AsyncOpenAI(base_url=url, api_key="x", max_retries=0)
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    function = {"name": "act", "description": "Act.", "parameters": parameters}
    tools = [{"type": "function", "function": function}]
    messages: list[Any] = [{"role": "user", "content": "go"}]
    while True:
        stream = await client.chat.completions.create(
            model="m", messages=messages, tools=tools, stream=True, stream_options={"include_usage": True}
        )
        text, call_id, arguments = "", "", ""
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    call_id = part.id or call_id
                    arguments += part.function.arguments or ""
        if not call_id:
            await client.close()
            return text
        call = {"id": call_id, "type": "function", "function": {"name": "act", "arguments": arguments}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call_id, "content": act(arguments)})


async def run_pydantic_ai(url: str) -> str:
    ai = import_module("pydantic_ai")
    chat = import_module("pydantic_ai.models.openai").OpenAIChatModel
    provider = import_module("pydantic_ai.providers.openai").OpenAIProvider(base_url=url, api_key="x")
    agent = ai.Agent(chat("m", provider=provider), tools=[act])
    limits = import_module("pydantic_ai.usage").UsageLimits(request_limit=None)
    async with agent.iter("go", usage_limits=limits) as run:
        async for node in run:
            if agent.is_model_request_node(node):
                async with node.stream(run.ctx) as stream:
                    async for _ in stream:
                        pass
        return str(run.result.output)


async def run_langchain(url: str, make_agent: Callable[[Any, Any], Any]) -> str:
    """Run an agent of LangGraph or deepagents with its SQLite checkpointer."""
    model = import_module("langchain_openai").ChatOpenAI(
        model="m", base_url=url, api_key="x", max_retries=0, streaming=True, stream_usage=True
    )
    saver = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver
    config = {"configurable": {"thread_id": "t"}, "recursion_limit": 10 * TURNS}
    answer = ""
    with tempfile.TemporaryDirectory() as folder:
        async with saver.from_conn_string(str(Path(folder) / "store.db")) as store:
            agent = make_agent(model, store)
            start = {"messages": [("user", "go")]}
            async for part, _ in agent.astream(start, config, stream_mode="messages", durability="sync"):
                answer = answer + part.text if part.type == "AIMessageChunk" else ""
    return answer


async def run_langgraph(url: str) -> str:
    graph, prebuilt = import_module("langgraph.graph"), import_module("langgraph.prebuilt")

    def make_agent(model: Any, store: Any) -> Any:
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

    return await run_langchain(url, make_agent)


async def run_deepagents(url: str) -> str:
    create = import_module("deepagents").create_deep_agent
    return await run_langchain(url, lambda model, store: create(model=model, tools=[act], checkpointer=store))


CONTENDERS: dict[str, tuple[str, Run]] = {
    "openai": ("openai", run_openai),
    "pydantic-ai": ("pydantic-ai-slim", run_pydantic_ai),
    "langgraph": ("langgraph", run_langgraph),
    "deepagents": ("deepagents", run_deepagents),
}
"""Name -> its package, and the function that runs it."""


async def measure_turns(name: str, url: str) -> None:
    package, run = CONTENDERS[name]
    assert await run(f"{url}/{name}-warm-{time.monotonic_ns()}/3/20/v1") == "done"
    began = time.process_time()
    answer = await run(f"{url}/{name}-{time.monotonic_ns()}/{TURNS}/20/v1")
    cost_ms = (time.process_time() - began) / (TURNS + 1) * 1000
    assert answer == "done", answer
    print(f"{cost_ms:.2f} {version(package)}")


if __name__ == "__main__":
    asyncio.run(measure_turns(sys.argv[1], sys.argv[2]))
