"""Kill an agent right after the effect of a tool, resume it as its documentation says, and count effects.

Usage: python tests/bench/peer_kills.py. Nothing is required; what is missing is named in a line.

* Sandbur runs in this Python; the other frameworks run where `SANDBUR_BENCH_PEERS` names a Python that has
  them, installed by `pip install langgraph langgraph-checkpoint-sqlite openai-agents deepagents
  pydantic-ai-slim apache-burr`.
* Terminal agents are killed in the middle of a shell command (`terminal_kills.py`): those on PATH or in the
  folder that `SANDBUR_BENCH_TOOLS` names, installed by
  `npm install @openai/codex @anthropic-ai/claude-code opencode-ai @qwen-code/qwen-code`.

Prints for each how often the effect happened, and what the resume printed or the model read.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

GOAL = "Pay the invoice."
"""The message of the person."""


def pay(folder: Path) -> str:
    """Add a line to a file: the effect. The first time, the process is killed right after it."""
    payments = folder / "payments"
    with payments.open("a") as file:
        file.write("paid\n")
    if len(payments.read_text().splitlines()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"


def run_sandbur(folder: Path) -> str:
    sandbur, testing = import_module("sandbur"), import_module("sandbur.testing")

    @sandbur.tool
    def pay_invoice() -> str:
        """Pay the invoice."""
        return pay(folder)

    def ask(request: Any) -> Any:
        has_result = any(message.tool_results for message in request.messages)
        return "It is paid." if has_result else testing.ToolCall("pay_invoice")

    store = f"sqlite:///{folder}/sandbur.db"
    agent = sandbur.Agent(testing.ScriptedModel(ask), tools=[pay_invoice], mode="yolo", store=store)

    async def go_on() -> str:
        async with agent, agent.session("pay") as session:
            result = await session.run(None if session.history else GOAL)
            results = [one for message in session.history for one in message.tool_results]
            return f"{result.status}; the model read: {results[-1].content.splitlines()[0][:90]}"

    return asyncio.run(go_on())


def run_langgraph(folder: Path) -> str:
    messages, graphs = import_module("langchain_core.messages"), import_module("langgraph.graph")
    tools, prebuilt = import_module("langchain_core.tools"), import_module("langgraph.prebuilt")
    savers = import_module("langgraph.checkpoint.sqlite")

    @tools.tool
    def pay_invoice() -> str:
        """Pay the invoice."""
        return pay(folder)

    def ask(state: Any) -> Any:
        if isinstance(state["messages"][-1], messages.ToolMessage):
            return {"messages": [messages.AIMessage("It is paid.")]}
        call = {"name": "pay_invoice", "args": {}, "id": "call_1"}
        return {"messages": [messages.AIMessage("", tool_calls=[call])]}

    graph = graphs.StateGraph(graphs.MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", prebuilt.ToolNode([pay_invoice]))
    graph.add_edge(graphs.START, "model")
    graph.add_conditional_edges("model", prebuilt.tools_condition)
    graph.add_edge("tools", "model")
    with savers.SqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        app = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "pay"}}
        begun = bool(app.get_state(config).values)
        ended = app.invoke(None if begun else {"messages": [("user", GOAL)]}, config, durability="sync")
    return str(ended["messages"][-1].content)


def run_openai_agents(folder: Path) -> str:
    agents, models = import_module("agents"), import_module("agents.models.interface")
    responses, usages = import_module("openai.types.responses"), import_module("agents.usage")
    agents.set_tracing_disabled(True)

    @agents.function_tool
    def pay_invoice() -> str:
        """Pay the invoice."""
        return pay(folder)

    class Scripted(models.Model):
        async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **options: Any) -> Any:
            paid = any(item.get("type") == "function_call_output" for item in input if isinstance(item, dict))
            if paid:
                text = responses.ResponseOutputText(type="output_text", text="It is paid.", annotations=[])
                item = responses.ResponseOutputMessage(
                    id="m", type="message", role="assistant", status="completed", content=[text]
                )
            else:
                item = responses.ResponseFunctionToolCall(
                    id="f", type="function_call", call_id="call_1", name="pay_invoice", arguments="{}"
                )
            return agents.ModelResponse(output=[item], usage=usages.Usage(), response_id=None)

        def stream_response(self, *rest: Any, **options: Any) -> Any:
            raise NotImplementedError

    agent = agents.Agent(name="payer", model=Scripted(), tools=[pay_invoice])
    session = agents.SQLiteSession("pay", str(folder / "agents.db"))
    return str(asyncio.run(agents.Runner.run(agent, GOAL, session=session)).final_output)


def run_deepagents(folder: Path) -> str:
    messages, tools = import_module("langchain_core.messages"), import_module("langchain_core.tools")
    chat, outputs = import_module("langchain_core.language_models"), import_module("langchain_core.outputs")
    savers, deepagents = import_module("langgraph.checkpoint.sqlite"), import_module("deepagents")

    @tools.tool
    def pay_invoice() -> str:
        """Pay the invoice."""
        return pay(folder)

    class Scripted(chat.BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **more: Any) -> Any:
            return self

        def _generate(self, history: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> Any:
            call = {"name": "pay_invoice", "args": {}, "id": "call_1"}
            message = messages.AIMessage("", tool_calls=[call])
            if isinstance(history[-1], messages.ToolMessage):
                message = messages.AIMessage("It is paid.")
            return outputs.ChatResult(generations=[outputs.ChatGeneration(message=message)])

    with savers.SqliteSaver.from_conn_string(str(folder / "deepagents.db")) as saver:
        app = deepagents.create_deep_agent(model=Scripted(), tools=[pay_invoice], checkpointer=saver)
        config = {"configurable": {"thread_id": "pay"}}
        begun = bool(app.get_state(config).values)
        ended = app.invoke(None if begun else {"messages": [("user", GOAL)]}, config, durability="sync")
    return str(ended["messages"][-1].content)


def run_pydantic_ai(folder: Path) -> str:
    """It has no store of its own: the program keeps the messages after each node."""
    ai, messages = import_module("pydantic_ai"), import_module("pydantic_ai.messages")
    functions, kept = import_module("pydantic_ai.models.function"), folder / "messages.json"

    def ask(history: list[Any], info: Any) -> Any:
        has_result = any(part.part_kind == "tool-return" for part in history[-1].parts)
        part = messages.TextPart("It is paid.") if has_result else messages.ToolCallPart("pay_invoice", {})
        return messages.ModelResponse(parts=[part])

    agent = ai.Agent(functions.FunctionModel(ask))

    @agent.tool_plain
    def pay_invoice() -> str:
        """Pay the invoice."""
        return pay(folder)

    async def go_on() -> str:
        adapter = messages.ModelMessagesTypeAdapter
        history = adapter.validate_json(kept.read_bytes()) if kept.exists() else None
        async with agent.iter(None if history else GOAL, message_history=history) as run:
            async for _ in run:
                kept.write_bytes(adapter.dump_json(run.all_messages()))
        return str(run.result.output)

    return asyncio.run(go_on())


def run_burr(folder: Path) -> str:
    core, persisters = import_module("burr.core"), import_module("burr.core.persistence")

    @core.action(reads=["results"], writes=["reply"])
    def ask(state: Any) -> Any:
        return state.update(reply="It is paid." if state["results"] else "")

    @core.action(reads=["results"], writes=["results"])
    def pay_invoice(state: Any) -> Any:
        return state.append(results=pay(folder))

    @core.action(reads=["reply"], writes=[])
    def end(state: Any) -> Any:
        return state

    persister = persisters.SQLLitePersister(str(folder / "burr.db"), table_name="steps")
    persister.initialize()
    app = (
        core.ApplicationBuilder()
        .with_actions(ask, pay_invoice, end)
        .with_transitions(
            ("ask", "end", core.expr("reply != ''")), ("ask", "pay_invoice"), ("pay_invoice", "ask")
        )
        .initialize_from(persister, True, {"results": [], "reply": ""}, "ask")
        .with_state_persister(persister)
        .with_identifiers(app_id="pay")
        .build()
    )
    _, _, state = app.run(halt_after=["end"])
    return str(state["reply"])


FRAMEWORKS: dict[str, Callable[[Path], str]] = {
    "sandbur": run_sandbur,
    "langgraph": run_langgraph,
    "openai-agents": run_openai_agents,
    "deepagents": run_deepagents,
    "pydantic-ai-slim": run_pydantic_ai,
    "apache-burr": run_burr,
}
"""Package -> the function that runs it; it goes on if the folder has a run already."""


TERMINAL_AGENTS = ("sandbur", "codex", "claude", "opencode", "qwen")
"""The programs that `terminal_kills.py` knows."""
ALONE = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
"""Starts a process that can reach no other machine, and whose children end with it."""


def kill_framework(name: str, python: str) -> str:
    """Return the line about one framework."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [python, "-P", "-W", "ignore", str(Path(__file__).resolve()), name, folder]
        first = subprocess.run(command, capture_output=True, text=True, check=False)
        if "PackageNotFoundError" in first.stderr or "ModuleNotFoundError" in first.stderr:
            return f"{name}: not installed in {python}"
        assert first.returncode == -signal.SIGKILL, first.stderr
        resumed = subprocess.run(command, capture_output=True, text=True, check=False)
        effects = len((Path(folder) / "payments").read_text().splitlines())
        printed = (resumed.stdout or resumed.stderr).strip().splitlines()[-1]
        found, _, text = printed.partition(": ")
        return f"{name} {found}: the effect happened {effects} times; {text}"


def kill_terminal_agent(name: str, tools: str) -> str:
    """Return the line about one terminal agent."""
    program = [sys.executable, "-m", "sandbur"]
    if name != "sandbur":
        found = shutil.which(name, path=f"{tools}{os.pathsep}{os.environ.get('PATH', '')}")
        if found is None:
            return f"{name}: not on PATH and not in SANDBUR_BENCH_TOOLS"
        program = [found]
    here = Path(__file__).resolve().parent
    paths = os.pathsep.join(filter(None, (str(here.parent), os.environ.get("PYTHONPATH"))))
    command = [*ALONE, sys.executable, "-P", str(here / "terminal_kills.py"), name, *program]
    env = {**os.environ, "PYTHONPATH": paths}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if ended.returncode:
        return f"{name}: failed: {ended.stderr.strip().splitlines()[-1]}"
    return f"{name} {ended.stdout.strip()}"


def main() -> None:
    if len(sys.argv) == 3:
        print(f"{version(sys.argv[1])}: {FRAMEWORKS[sys.argv[1]](Path(sys.argv[2]))}")
        return
    peers, tools = os.environ.get("SANDBUR_BENCH_PEERS", ""), os.environ.get("SANDBUR_BENCH_TOOLS", "")
    print("Killed right after the effect of a tool:")
    for name in FRAMEWORKS:
        python = sys.executable if name == "sandbur" else peers
        print(
            kill_framework(name, python) if python else f"{name}: SANDBUR_BENCH_PEERS names no Python",
            flush=True,
        )
    print("Killed in the middle of a shell command:")
    if (
        shutil.which(ALONE[0]) is None
        or subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode
    ):
        print("unshare does not work here, so nothing would keep the programs from reaching other machines")
        return
    for name in TERMINAL_AGENTS:
        print(kill_terminal_agent(name, tools), flush=True)


if __name__ == "__main__":
    main()
