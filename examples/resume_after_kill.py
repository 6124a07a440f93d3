"""A run is killed twice in the middle of a tool, and continues: nothing is lost, nothing happens twice.

The model is scripted, so no key is needed; SANDBUR_MODEL=PROVIDER/MODEL uses a real model.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from sandbur import Agent, ModelRequest, RunContext, RunResult, tool
from sandbur.testing import ScriptedModel, ToolCall

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="sandbur-example-"))
KEYS = FOLDER / "payments"
"""The records of the payment service: a file for each idempotency key."""


def die_once(name: str) -> None:
    """Kill this process at the first call with this name, as a power cut would."""
    mark = FOLDER / f"died-in-{name}"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@tool(effect="idempotent")
def pay(cents: int, run: RunContext) -> str:
    """Pay for the order."""
    KEYS.mkdir(exist_ok=True)
    (KEYS / run.idempotency_key.replace("/", "_")).write_text(str(cents))
    die_once("pay")
    return f"paid {cents / 100:.2f}"


@tool(effect="effect")
def send_mail(text: str) -> str:
    """Mail the customer. Nobody can ask a mail server whether a mail was sent."""
    with (FOLDER / "mails").open("a") as mails:
        mails.write(text + "\n")
    die_once("send_mail")
    return "sent"


def next_words(request: ModelRequest) -> ToolCall | str:
    done = [given.tool for message in request.messages for given in message.tool_results]
    later = {"pay": ToolCall("send_mail", text="Your order is paid."), "send_mail": "Paid, and told so."}
    return later[done[-1]] if done else ToolCall("pay", cents=500)


agent = Agent(
    os.environ.get("SANDBUR_MODEL") or ScriptedModel(next_words),
    tools=[pay, send_mail],
    allow=["pay", "send_mail"],
    store=f"sqlite:///{FOLDER}/runs.db",
)


async def go_on() -> RunResult:
    async with agent, agent.session("order-17") as session:
        # Without a message, an interrupted run continues at the exact action.
        result = await session.run(None if session.history else "Pay order 17, and mail the customer.")
        for call in result.pending:
            print(f"{call.tool}: {call.kind}, so it is not run again by itself.")
            mails = (FOLDER / "mails").read_text()
            result = await session.settle(call.call_id, "done" if mails else "rerun", result="sent")
        return result


def main() -> None:
    for _ in range(3):
        ended = subprocess.run([sys.executable, __file__, str(FOLDER), "child"], check=False)
        print("killed" if ended.returncode == -signal.SIGKILL else "ended by itself", flush=True)
    print(f"{len(list(KEYS.iterdir()))} payment, {len((FOLDER / 'mails').read_text().splitlines())} mail")


if __name__ == "__main__":
    if sys.argv[2:] == ["child"]:
        import asyncio

        print(asyncio.run(go_on()).raise_for_status().output)
    else:
        main()
