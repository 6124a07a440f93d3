"""Kill an agent right after the effect of a tool, resume it as its documentation says, and count effects.

Usage: python tests/bench/peer_kills.py. Sandbur runs in this Python; the other frameworks run where
`SANDBUR_BENCH_PEERS` names a Python that has them, installed by
`pip install langgraph langgraph-checkpoint-sqlite openai-agents`.
Prints for each framework how often the effect happened, and what the resume said.
"""

import asyncio
import os
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


FRAMEWORKS: dict[str, Callable[[Path], str]] = {
    "sandbur": run_sandbur,
    "langgraph": run_langgraph,
    "openai-agents": run_openai_agents,
}


def main() -> None:
    if len(sys.argv) == 3:
        print(f"{version(sys.argv[1])}: {FRAMEWORKS[sys.argv[1]](Path(sys.argv[2]))}")
        return
    peers = os.environ.get("SANDBUR_BENCH_PEERS", "")
    for name in FRAMEWORKS if peers else ("sandbur",):
        python = sys.executable if name == "sandbur" else peers
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            command = [python, "-P", "-W", "ignore", str(Path(__file__).resolve()), name, folder]
            first = subprocess.run(command, capture_output=True, text=True, check=False)
            assert first.returncode == -signal.SIGKILL, first.stderr
            resumed = subprocess.run(command, capture_output=True, text=True, check=False)
            effects = len((Path(folder) / "payments").read_text().splitlines())
            said = (resumed.stdout or resumed.stderr).strip().splitlines()[-1]
            print(f"{name} {said.partition(': ')[0]}: the effect happened {effects} times; {said}")


if __name__ == "__main__":
    main()
