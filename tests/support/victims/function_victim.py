"""A program with an agent whose tools die in the middle: function_victim.py TOOL MOMENT FOLDER

The first run dies by SIGKILL in the tool, before or after the effect, or at a named crash point; another run
resumes the session, and prints the results. Effects are lines in a file, so that they can be counted.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from sandbur import Agent, Depends, ModelRequest, RunContext, tool
from sandbur.testing import ScriptedModel, ToolCall

NAME, MOMENT = sys.argv[1:3]
FOLDER = Path(sys.argv[3])
IS_FIRST = not (FOLDER / "died").exists()


def note(file: str, text: str) -> None:
    with (FOLDER / file).open("a") as lines:
        lines.write(f"{text}\n")


def die(moment: str) -> None:
    if IS_FIRST and moment == MOMENT:
        (FOLDER / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def paid(order: str) -> bool:
    file = FOLDER / "effects"
    return file.exists() and order in file.read_text()


async def ledger() -> AsyncIterator[str]:
    note("ledger", "open")
    die("provider")
    yield "ledger"
    note("ledger", "close")


def pay(order: str, run: RunContext) -> str:
    note("calls", run.idempotency_key)
    die("before")
    note("effects", order)
    die("after")
    return f"paid {order}"


def is_paid(order: str, of: Annotated[str, Depends(ledger)]) -> str:
    note("checks", f"{order} {of}")
    return "done" if paid(order) else "not_done"


def unsure(order: str) -> None:
    return None


@tool
def pay_unchecked(order: str, run: RunContext) -> str:
    return pay(order, run)


@tool(effect="verifiable", check=is_paid)
async def pay_checked(order: str, run: RunContext, of: Annotated[str, Depends(ledger)]) -> str:
    return pay(order, run)


@tool(effect="verifiable", check=unsure)
def pay_unsure(order: str, run: RunContext) -> str:
    return pay(order, run)


@tool(effect="idempotent")
def pay_again(order: str, run: RunContext) -> str:
    if paid(order):
        note("calls", run.idempotency_key)
        return f"{order} had been paid"
    return pay(order, run)


TOOLS: tuple[Any, ...] = (pay_unchecked, pay_checked, pay_unsure, pay_again)


def answer(request: ModelRequest) -> Any:
    has_result = any(message.tool_results for message in request.messages)
    return "all is paid" if has_result else ToolCall(NAME, order="A1")


async def main() -> None:
    agent = Agent(
        ScriptedModel(answer),
        tools=TOOLS,
        mode="yolo",
        store=f"sqlite:///{FOLDER}/runs.db",
        cwd=FOLDER,
        env={"HOME": str(FOLDER), "SANDBUR_HOME": str(FOLDER / "home"), "SANDBUR_LEASE_S": "1"},
    )
    async with agent.session("s1") as session:
        result = await session.run(None if session.history else "pay A1")
        results = [one for message in session.history for one in message.tool_results]
        outcomes = [[one.outcome, one.content] for one in results]
        print(json.dumps({"status": result.status, "results": outcomes}))


asyncio.run(main())
