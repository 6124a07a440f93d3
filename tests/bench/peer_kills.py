"""Kill an agent right after the effect of a tool, resume it as its documentation says, and count effects.

Usage: python tests/bench/peer_kills.py [--frameworks]. What is missing is named in a line.

* Sandbur runs in this Python; the other frameworks run where `SANDBUR_BENCH_PEERS` names a Python that has
  them, as `peers.py install` makes it. What is durable is
  measured on PostgreSQL, too, if `SANDBUR_BENCH_POSTGRESQL` has the URL of a database. Temporal and Restate
  need servers of their own, which are named if they are missing.
* Terminal agents are killed in the middle of a shell command (`terminal_kills.py`): those in the folder that
  `SANDBUR_BENCH_TOOLS` names, and no others that happen to be installed.

Prints for each how often the effect happened, and what the resume printed or the model read.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
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


def launch_dbos(store: str) -> Any:
    dbos = import_module("dbos")
    # The version is that of the program's code; both processes have the same.
    config = {"name": "pay", "system_database_url": store, "log_level": "CRITICAL", "run_admin_server": False}
    dbos.DBOS(config=config)
    return dbos


def run_dbos(folder: Path) -> str:
    """Its launch recovers the workflows of a process that died; the same workflow id then has the result."""
    dbos = launch_dbos(f"sqlite:///{folder}/dbos.sqlite")

    @dbos.DBOS.step()
    def pay_invoice() -> str:
        return pay(folder)

    @dbos.DBOS.workflow()
    def work() -> str:
        pay_invoice()
        return "It is paid."

    dbos.DBOS.launch()
    with dbos.SetWorkflowID("pay"):
        return str(dbos.DBOS.start_workflow(work).get_result())


def make_agent_on_dbos(tool: Callable[[], Any], calls: int) -> Any:
    """Return an agent whose model calls are steps of DBOS; its model asks for the tool so many times."""
    ai, messages = import_module("pydantic_ai"), import_module("pydantic_ai.messages")
    functions, durable = (
        import_module("pydantic_ai.models.function"),
        import_module("pydantic_ai.durable_exec.dbos"),
    )

    def ask(history: list[Any], info: Any) -> Any:
        done = sum(part.part_kind == "tool-return" for message in history for part in message.parts)
        call = messages.ToolCallPart("pay_invoice", {}, f"call_{done}")
        part = call if done < calls else messages.TextPart("It is paid.")
        return messages.ModelResponse(parts=[part])

    model = functions.FunctionModel(ask)
    return ai.Agent(model, name="payer", tools=[tool], capabilities=[durable.DBOSDurability()])


def run_agent_on_dbos(folder: Path, *, tool_is_step: bool) -> str:
    dbos = launch_dbos(f"sqlite:///{folder}/dbos.sqlite")

    async def pay_invoice() -> str:
        """Pay the invoice."""
        return pay(folder)

    agent = make_agent_on_dbos(dbos.DBOS.step()(pay_invoice) if tool_is_step else pay_invoice, 1)

    @dbos.DBOS.workflow()
    async def work() -> str:
        return str((await agent.run(GOAL)).output)

    async def go_on() -> str:
        dbos.DBOS.launch()
        with dbos.SetWorkflowID("pay"):
            handle = await dbos.DBOS.start_workflow_async(work)
        return str(await handle.get_result())

    return asyncio.run(go_on())


def run_plain_tool_on_dbos(folder: Path) -> str:
    return run_agent_on_dbos(folder, tool_is_step=False)


def run_step_tool_on_dbos(folder: Path) -> str:
    return run_agent_on_dbos(folder, tool_is_step=True)


STEPS, FIRST_STEPS = 200, 50
"""The durable steps of a measurement, and those before it."""


def measure_dbos(store: str) -> float:
    """Return the CPU time of one durable step, in ms."""
    dbos = launch_dbos(store)

    @dbos.DBOS.step()
    def add(number: int) -> int:
        return number + 1

    @dbos.DBOS.workflow()
    def work(steps: int) -> None:
        for number in range(steps):
            add(number)

    dbos.DBOS.launch()
    work(FIRST_STEPS)
    began = time.process_time()
    work(STEPS)
    return (time.process_time() - began) * 1000 / STEPS


def measure_agent_on_dbos(store: str) -> float:
    """Return the CPU time of a turn with one tool, whose model call and tool are steps, in ms."""
    dbos = launch_dbos(store)

    async def pay_invoice() -> str:
        """Pay the invoice."""
        return "paid"

    agent = make_agent_on_dbos(dbos.DBOS.step()(pay_invoice), 1)

    @dbos.DBOS.workflow()
    async def work() -> str:
        return str((await agent.run(GOAL)).output)

    async def run() -> float:
        dbos.DBOS.launch()
        for _ in range(5):
            assert await work() == "It is paid."
        began = time.process_time()
        for _ in range(TURNS):
            await work()
        return (time.process_time() - began) * 1000 / TURNS

    return asyncio.run(run())


TURNS = 40


def measure_sandbur(store: str) -> float:
    """Return the CPU time of a turn with one tool: its model calls, approval, start and result, in ms."""
    sandbur, testing = import_module("sandbur"), import_module("sandbur.testing")

    @sandbur.tool
    def pay_invoice() -> str:
        """Pay the invoice."""
        return "paid"

    def ask(request: Any) -> Any:
        has_result = any(True for message in request.messages for _ in message.tool_results)
        return "It is paid." if has_result else testing.ToolCall("pay_invoice")

    agent = sandbur.Agent(testing.ScriptedModel(ask), tools=[pay_invoice], mode="yolo", store=store)

    async def run() -> float:
        async with agent:
            for _ in range(5):
                assert (await agent.run(GOAL)).output == "It is paid."
            began = time.process_time()
            for _ in range(TURNS):
                await agent.run(GOAL)
            return (time.process_time() - began) * 1000 / TURNS

    return asyncio.run(run())


MEASURED: dict[str, tuple[str, Callable[[str], float]]] = {
    "sandbur": ("a turn with one tool, in a session of its own", measure_sandbur),
    "dbos": ("a step", measure_dbos),
    "pydantic-ai-slim on dbos": ("a turn with one tool, in a workflow (3 steps)", measure_agent_on_dbos),
}
"""What is measured -> what the figure is of, and its function, which takes the URL of a store."""
SERVERS = {"temporal": "Temporal", "restate-server": "Restate"}
"""Programs without which a durable edition cannot be measured."""
FRAMEWORKS: dict[str, Callable[[Path], str]] = {
    "sandbur": run_sandbur,
    "langgraph": run_langgraph,
    "openai-agents": run_openai_agents,
    "deepagents": run_deepagents,
    "pydantic-ai-slim": run_pydantic_ai,
    "apache-burr": run_burr,
    "dbos": run_dbos,
    "pydantic-ai-slim on dbos, a plain tool": run_plain_tool_on_dbos,
    "pydantic-ai-slim on dbos, the tool as a step": run_step_tool_on_dbos,
}
"""Package, perhaps on another one -> its function, which goes on if the folder has a run already."""


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
        return f"{found}: the effect happened {effects} times; {text}"


def name_versions(name: str) -> str:
    """Return a name with the version of each package in it."""
    return re.sub(r"sandbur|langgraph|openai-agents|deepagents|pydantic-ai-slim|apache-burr|dbos",
                  lambda found: f"{found[0]} {version(found[0])}", name)  # fmt: skip


def measure(name: str, python: str, kind: str) -> str:
    """Return the line about the durable steps of one framework on a kind of store."""
    what, _ = MEASURED[name]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        store = f"sqlite:///{folder}/steps.db"
        if kind != "SQLite" and not (store := os.environ.get("SANDBUR_BENCH_POSTGRESQL", "")):
            return f"{name} on {kind}: SANDBUR_BENCH_POSTGRESQL names no database"
        command = [python, "-P", "-W", "ignore", str(Path(__file__).resolve()), name, store]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        printed = ended.stdout.strip().splitlines()
        if ended.returncode or not printed:
            return f"{name} on {kind}: failed: {ended.stderr.strip().splitlines()[-1]}"
        return f"{printed[-1]} for {what}, on {kind}"


def kill_terminal_agent(name: str, tools: str) -> str:
    """Return the line about one terminal agent."""
    program = [sys.executable, "-m", "sandbur"]
    if name != "sandbur":
        found = shutil.which(name, path=tools) if tools else None
        if found is None:
            return f"{name}: not in SANDBUR_BENCH_TOOLS"
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
        name, place = sys.argv[1:]
        if name in MEASURED and "://" in place:
            found = f"{MEASURED[name][1](place):.2f} ms of CPU time"
        else:
            found = FRAMEWORKS[name](Path(place))
        print(f"{name_versions(name)}: {found}", flush=True)
        os._exit(0)  # DBOS has threads that go on
    peers, tools = os.environ.get("SANDBUR_BENCH_PEERS", ""), os.environ.get("SANDBUR_BENCH_TOOLS", "")
    print("Killed right after the effect of a tool:")
    for name in FRAMEWORKS:
        python = sys.executable if name == "sandbur" else peers
        print(
            kill_framework(name, python) if python else f"{name}: SANDBUR_BENCH_PEERS names no Python",
            flush=True,
        )
    print("CPU time of what is durable:", flush=True)
    for name in MEASURED:
        python = sys.executable if name == "sandbur" else peers
        for kind in ("SQLite", "PostgreSQL") if python else ():
            print(measure(name, python, kind), flush=True)
    for program, server in SERVERS.items():
        print(f"{server}: {shutil.which(program) or f'{program} is not on PATH, so it is not measured'}")
    if "--frameworks" in sys.argv:
        return
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
