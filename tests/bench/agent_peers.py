"""One agent of another framework starts sub-agents that answer at once; `sub_agents.py` runs it.

Usage: agent_peers.py FRAMEWORK COUNT. Prints one JSON object: `cpu_s` and `memory_mb` of a run with COUNT
sub-agents, after a first run with one. The frameworks store what they store by default, which is nothing,
except for deepagents: its SQLite checkpointer is the nearest to what Sandbur writes.
"""

import asyncio
import json
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

Run = Callable[[int], Awaitable[None]]
REPLY = "The part is read."


def run_pydantic_ai() -> Run:
    ai = import_module("pydantic_ai")
    messages = import_module("pydantic_ai.messages")
    functions = import_module("pydantic_ai.models.function")

    def reply(history: list[Any], info: Any) -> Any:
        return messages.ModelResponse(parts=[messages.TextPart(REPLY)])

    child = ai.Agent(functions.FunctionModel(reply))

    async def run(count: int) -> None:
        def ask(history: list[Any], info: Any) -> Any:
            if len(history) > 1:
                return messages.ModelResponse(parts=[messages.TextPart("All parts are read.")])
            calls = [messages.ToolCallPart("read_part", {"number": n}) for n in range(count)]
            return messages.ModelResponse(parts=calls)

        parent = ai.Agent(functions.FunctionModel(ask))

        async def read_part(number: int) -> str:
            return str((await child.run(f"Read part {number}.")).output)

        parent.tool_plain(read_part)
        assert (await parent.run("Read all parts.")).output == "All parts are read."

    return run


def run_openai_agents() -> Run:
    agents = import_module("agents")
    responses = import_module("openai.types.responses")
    agents.set_tracing_disabled(True)

    def text(words: str) -> Any:
        content = responses.ResponseOutputText(text=words, type="output_text", annotations=[])
        return responses.ResponseOutputMessage(
            id="m", content=[content], role="assistant", status="completed", type="message"
        )

    class Scripted(agents.Model):
        def __init__(self, *turns: list[Any]) -> None:
            self.turns = turns

        async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> Any:
            has_results = isinstance(input, list) and len(input) > 1
            output = self.turns[-1] if has_results else self.turns[0]
            return agents.ModelResponse(output=output, usage=agents.Usage(), response_id=None)

        def stream_response(self, *rest: Any, **more: Any) -> Any:
            raise NotImplementedError

    child = agents.Agent(name="reader", model=Scripted([text(REPLY)]))

    async def run(count: int) -> None:
        calls = [
            responses.ResponseFunctionToolCall(
                arguments=json.dumps({"input": f"Read part {n}."}), call_id=f"c{n}", name="read_part",
                type="function_call",
            )
            for n in range(count)
        ]  # fmt: skip
        model = Scripted(calls, [text("All parts are read.")])
        tool = child.as_tool("read_part", "Reads a part.")
        parent = agents.Agent(name="lead", model=model, tools=[tool])
        assert (await agents.Runner.run(parent, "Read all parts.")).final_output == "All parts are read."

    return run


def run_deepagents() -> Run:
    create = import_module("deepagents").create_deep_agent
    chat = import_module("langchain_core.language_models.chat_models")
    messages = import_module("langchain_core.messages")
    outputs = import_module("langchain_core.outputs")
    saver = import_module("langgraph.checkpoint.sqlite.aio").AsyncSqliteSaver

    class Scripted(chat.BaseChatModel):
        count: int = 0

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **more: Any) -> Any:
            return self

        def _generate(self, history: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> Any:
            message = messages.AIMessage(REPLY)
            if any("all parts" in str(one.content) for one in history if one.type == "human"):
                message = messages.AIMessage("All parts are read.")
                if history[-1].type == "human":
                    arguments = {"description": "Read a part.", "subagent_type": "general-purpose"}
                    calls = [{"name": "task", "args": arguments, "id": f"c{n}"} for n in range(self.count)]
                    message = messages.AIMessage("", tool_calls=calls)
            return outputs.ChatResult(generations=[outputs.ChatGeneration(message=message)])

    async def run(count: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with saver.from_conn_string(str(Path(folder) / "store.db")) as store:
                agent = create(model=Scripted(count=count), checkpointer=store)
                start = {"messages": [("user", "Read all parts.")]}
                end = await agent.ainvoke(start, {"configurable": {"thread_id": "t"}})
        assert end["messages"][-1].content == "All parts are read."

    return run


def run_google_adk() -> Run:
    adk = import_module("google.adk.agents")
    llm = import_module("google.adk.models.base_llm").BaseLlm
    response = import_module("google.adk.models.llm_response").LlmResponse
    runners = import_module("google.adk.runners")
    types = import_module("google.genai.types")

    class Scripted(llm):
        async def generate_content_async(self, request: Any, stream: bool = False) -> Any:
            yield response(content=types.Content(role="model", parts=[types.Part(text=REPLY)]))

    async def run(count: int) -> None:
        children = [adk.LlmAgent(name=f"reader{n}", model=Scripted(model="scripted")) for n in range(count)]
        lead = adk.ParallelAgent(name="lead", sub_agents=children)
        runner = runners.InMemoryRunner(agent=lead, app_name="bench")
        session = await runner.session_service.create_session(app_name="bench", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text="Read all parts.")])
        answers = 0
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            answers += 1
        assert answers == count

    return run


FRAMEWORKS: dict[str, tuple[str, Callable[[], Run]]] = {
    "pydantic-ai": ("pydantic-ai-slim", run_pydantic_ai),
    "openai-agents": ("openai-agents", run_openai_agents),
    "deepagents": ("deepagents", run_deepagents),
    "google-adk": ("google-adk", run_google_adk),
}
"""Name -> the package whose version is shown, and the function that runs it."""


async def measure_run(run: Run, count: int, **facts: str) -> None:
    await run(1)
    cpu, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await run(count)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    print(json.dumps({"cpu_s": time.process_time() - cpu, "memory_mb": used / 1024, **facts}))


if __name__ == "__main__":
    PACKAGE, MAKE = FRAMEWORKS[sys.argv[1]]
    asyncio.run(measure_run(MAKE(), int(sys.argv[2]), version=version(PACKAGE)))
