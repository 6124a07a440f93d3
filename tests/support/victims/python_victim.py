"""A program whose agent dies while it runs code that pays twice.
Usage: python_victim.py TOOL MOMENT FOLDER [MODE]

The first run dies by SIGKILL in the second payment, before or after its effect, or at a named crash point;
another run resumes the session, and prints the results. In the mode `interactive` each run approves the
payments that wait, and lets the model find out about those of unknown outcome. Effects are lines in a file,
so that they can be counted.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from sandbur import Agent, ModelRequest, RunContext, python_tool, tool
from sandbur.testing import ScriptedModel, ToolCall

NAME, MOMENT = sys.argv[1:3]
FOLDER = Path(sys.argv[3])
MODE: Any = (*sys.argv[4:], "yolo")[0]
IS_FIRST = not (FOLDER / "died").exists()
CODE = """
balance = look("A")
paid = [pay("A1"), pay("A2")]
print(balance)
paid
"""


def note(file: str, text: str) -> None:
    with (FOLDER / file).open("a") as lines:
        lines.write(f"{text}\n")


def die(order: str, moment: str) -> None:
    if IS_FIRST and order == "A2" and moment == MOMENT:
        (FOLDER / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def make_payment(order: str, run: RunContext) -> str:
    note("calls", f"{order} {run.idempotency_key}")
    die(order, "before")
    note("effects", order)
    die(order, "after")
    return f"paid {order}"


def is_paid(order: str) -> str:
    file = FOLDER / "effects"
    return "done" if file.exists() and order in file.read_text().split() else "not_done"


@tool(effect="read")
def look(account: str) -> str:
    return f"{account} has 100"


@tool(name="pay")
def pay_unchecked(order: str, run: RunContext) -> str:
    return make_payment(order, run)


@tool(name="pay", effect="verifiable", check=is_paid)
def pay_checked(order: str, run: RunContext) -> str:
    return make_payment(order, run)


PAYMENTS: dict[str, Any] = {"pay_unchecked": pay_unchecked, "pay_checked": pay_checked}


def answer(request: ModelRequest) -> Any:
    has_result = any(message.tool_results for message in request.messages)
    return "all is paid" if has_result else ToolCall("execute_python", code=CODE)


async def main() -> None:
    agent = Agent(
        ScriptedModel(answer),
        tools=[python_tool(tools=[look, PAYMENTS[NAME]])],
        mode=MODE,
        store=f"sqlite:///{FOLDER}/runs.db",
        cwd=FOLDER,
        env={"HOME": str(FOLDER), "SANDBUR_HOME": str(FOLDER / "home"), "SANDBUR_LEASE_S": "1"},
    )
    async with agent.session("s1") as session:
        result = await session.run(None if session.history else "pay A1 and A2")
        while result.status in ("needs_approval", "needs_decision"):
            is_asked = result.status == "needs_approval"
            waiting = session.pending[0].call_id
            result = await (session.approve() if is_asked else session.settle(waiting, "check"))
        results = [one for message in session.history for one in message.tool_results]
        got = [[one.outcome, one.content] for one in results]
        print(json.dumps({"status": result.status, "results": got}))


asyncio.run(main())
