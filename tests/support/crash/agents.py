"""Agents for crash tests: `sandbur --agent tests.support.crash.agents:NAME`."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from sandbur import (
    Agent,
    Composite,
    Depends,
    Map,
    RunContext,
    SessionMemory,
    StoreFiles,
    file_tools,
    tool,
    workspace_tools,
)
from sandbur.state.store.store import Store

EFFECTS = Path("effects.txt")
LEDGER = Path("../ledger")


def write_ledger(line: str) -> None:
    with LEDGER.open("a") as lines:
        lines.write(f"{line}\n")


async def ledger() -> AsyncIterator[Path]:
    """A dependency that is opened for a run and closed at its end."""
    write_ledger("open")
    yield EFFECTS
    write_ledger("close")


def add_note(word: str, into: Path) -> str:
    with into.open("a") as lines:
        lines.write(f"{word}\n")
        lines.flush()
        order = Path(f"../kill-{word}")
        if order.exists():
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        lines.write(f"{word}-end\n")
    return f"noted {word}"


def is_noted(word: str, into: Annotated[Path, Depends(ledger)]) -> str | None:
    written = into.read_text().split() if into.exists() else []
    return "done" if f"{word}-end" in written else None if word in written else "not_done"


@tool
async def note(word: str, into: Annotated[Path, Depends(ledger)]) -> str:
    """Note a word."""
    return add_note(word, into)


@tool(effect="verifiable", check=is_noted)
def note_once(word: str, into: Annotated[Path, Depends(ledger)]) -> str:
    """Note a word; a check can find out whether the word was noted."""
    return add_note(word, into)


@tool(effect="read")
async def overhear(context: RunContext) -> str:
    """Steer the session as another process would, and withdraw a queued message."""
    home = Path(os.environ["SANDBUR_HOME"])
    store = Store.open(os.environ.get("SANDBUR_STORE") or f"sqlite:///{home}/sandbur.db")
    inbox = store.inbox(context.session_id)
    [waiting] = await inbox.add_from_outside("queue", "never mind")
    await inbox.withdraw(waiting.number)
    await inbox.add_from_outside("steer", "use tabs")
    store.close()
    return "said"


writer = Agent(name="writer", tools=workspace_tools(), mode="yolo")
writers = Map(writer, ["Write one.", "Write two.", "Write three."])
heard = Agent(tools=[overhear])
functions = Agent(tools=[note, note_once])
kept = Agent(tools=file_tools(Composite({"/memory/": SessionMemory(), "/store/": StoreFiles()})))
