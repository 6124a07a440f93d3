"""A worker or a client whose deeds are a history: program.py work|use URL HISTORY NAME SEED

The agent answers each message with a call that needs no approval, one that does, one that reads, and a text;
a message with the word `deadly` with a call that kills the process.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from support.history.log import HistoryLog, Kind

from sandbur import Agent, ModelRequest, RunContext, tool
from sandbur.agent.fleet.messages import create_session, send_message
from sandbur.agent.fleet.worker import Worker
from sandbur.agent.fleet.worker_sessions import open_runtime
from sandbur.agent.session.session import Session
from sandbur.state.calls import CallDecision, PendingCall, Settlement
from sandbur.state.errors import SandburError, StoreError
from sandbur.state.store.sessions.claims import NOT_BY_MESSAGE
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

NAME = "history:agent"
SESSIONS = 6
DEADLY = "deadly"
"""The name of the session whose call kills its process, and the word for it."""
CALLS = ("act", "ask_first", "look")
_EFFECT_S, _PAUSE_S, _APPROVED, _MOST_WAITING = 0.02, 0.05, 0.8, 2
_SETTLEMENTS: tuple[Settlement, ...] = ("done", "failed", "check", "rerun")


def make_agent(log: HistoryLog, home: Path) -> Agent[Any]:
    async def take_effect(context: RunContext) -> str:
        log.add("effect", context.session_id, context.call_id)
        await asyncio.sleep(_EFFECT_S)
        return "It took effect."

    @tool(effect="effect")
    async def act(context: RunContext) -> str:
        """Take effect without a question."""
        return await take_effect(context)

    @tool(effect="effect")
    async def ask_first(context: RunContext) -> str:
        """Take effect after a question."""
        return await take_effect(context)

    @tool(effect="read")
    async def look(context: RunContext) -> str:
        """Read only, which may be repeated."""
        return await take_effect(context)

    @tool(effect="read")
    async def die(context: RunContext) -> str:
        """Kill the process."""
        log.add("effect", context.session_id, context.call_id)
        os.kill(os.getpid(), signal.SIGKILL)
        return "This is never returned."

    def reply(request: ModelRequest) -> Any:
        messages = list(request.messages)
        newest = max(at for at, message in enumerate(messages) if message.role == "user" and message.text)
        if DEADLY in messages[newest].text:
            return ToolCall("die")
        done = sum(message.role == "assistant" for message in messages[newest:])
        return ToolCall(CALLS[done]) if done < len(CALLS) else f"{messages[newest].text} is done"

    env = {**os.environ, "SANDBUR_HOME": str(home)}
    tools = [act, ask_first, look, die]
    return Agent(ScriptedModel(reply), tools=tools, allow=["act"], planning="off", cwd=home.parent, env=env)


async def work(store: Store, agent: Agent[Any]) -> None:
    await Worker(store, {NAME: agent}, concurrency=3, on_notice=print).run()


class Client:
    """Sends, steers, decides and stops at random, and records what it asked for and what it learned."""

    def __init__(self, store: Store, agent: Agent[Any], log: HistoryLog, name: str, seed: int) -> None:
        self.store, self._agent, self._log, self._name = store, agent, log, name
        self._chance = random.Random(seed)
        self._sent = 0

    async def use(self) -> None:
        """Do one thing after the other until the process is ended."""
        while True:
            session = f"s{self._chance.randrange(SESSIONS)}"
            if not await self.decide(session) and self._is_free(session):
                deed = self._chance.choices((self.send, self.steer, self.stop), weights=(6, 2, 1))[0]
                await deed(session)
            await asyncio.sleep(self._chance.uniform(0, _PAUSE_S))

    def _is_free(self, session: str) -> bool:
        """Return whether few messages wait for the session, so that a run ends soon after the last fault."""
        inbox = self.store.inbox(session)
        with suppress(StoreError):
            return len(inbox.load(inbox.load_taken())) < _MOST_WAITING
        return False

    async def send(self, session: str) -> None:
        text = self._make_text()
        await self._ask("send", session, text, lambda: send_message(self.store, session, text))

    async def send_deadly(self) -> None:
        """Send the message whose call kills every worker that makes it."""
        text = self._make_text()
        await self._ask("send", DEADLY, text, lambda: send_message(self.store, DEADLY, f"{text} {DEADLY}"))

    async def steer(self, session: str) -> None:
        text = self._make_text()
        runtime = open_runtime(self._agent, NAME, self._share(), os.environ)
        await self._ask("steer", session, text, lambda: runtime.leave_messages(session, "steer", text))
        await runtime.aclose(closes_store=False)

    async def stop(self, session: str) -> None:
        await self._ask("stop", session, "", self.store.inbox(session).ask_to_stop)

    async def decide(self, session: str) -> bool:
        """Decide about the calls of a session that wait for a person; return whether there were any."""
        runtime = open_runtime(self._agent, NAME, self._share(), os.environ)
        waiting: tuple[PendingCall, ...] = ()
        try:
            if self.store.index.head(session).status not in NOT_BY_MESSAGE:
                return False
            opened = await runtime.resume(session, needs_model=False)
            waiting = opened.state.calls_to_decide
            for call in waiting:
                decision, kind = self._choose(call)
                await self._ask(
                    kind,
                    session,
                    call.call_id,
                    partial(_record, opened, decision),
                    outcome=decision.settle or "",
                )
        except SandburError:
            return bool(waiting)
        finally:
            await runtime.aclose(closes_store=False)
        with suppress(SandburError):
            await self.store.index.make_due(session)
        return bool(waiting)

    def _choose(self, call: PendingCall) -> tuple[CallDecision, Kind]:
        if call.kind == "outcome_unknown":
            return CallDecision(call_id=call.call_id, settle=self._chance.choice(_SETTLEMENTS)), "settle"
        approved = self._chance.random() < _APPROVED
        return CallDecision(call_id=call.call_id, approved=approved), "approve" if approved else "deny"

    async def _ask(
        self, kind: Kind, session: str, text: str, ask: Callable[[], Awaitable[Any]], **more: Any
    ) -> None:
        self._log.add(kind, session, text, "asked", **more)
        try:
            await ask()
        except StoreError:
            # The database may have committed before the connection broke.
            self._log.add(kind, session, text, "unknown", **more)
        except SandburError:
            self._log.add(kind, session, text, "refused", **more)
        else:
            self._log.add(kind, session, text, "ok", **more)

    def _make_text(self) -> str:
        self._sent += 1
        return f"m-{self._name}-{os.getpid()}-{self._sent}"

    def _share(self) -> Store:
        return Store(self.store.database, self.store.url, self.store.tenant)


async def _record(session: Session, decision: CallDecision) -> None:
    async for event in session.decide([decision], record_only=True, way="in a test"):
        if (error := getattr(event, "error", None)) is not None:
            raise SandburError(error.message)


async def create_sessions(store: Store, agent: Agent[Any]) -> None:
    for name in (*(f"s{number}" for number in range(SESSIONS)), DEADLY):
        await create_session(store, NAME, agent, name)


def open_store(url: str) -> Store:
    """Open the store, also while its server starts."""
    while True:
        try:
            return Store.open(url)
        except StoreError:
            time.sleep(_PAUSE_S)


def main(how: str, url: str, history: str, name: str, seed: str) -> None:
    log = HistoryLog(Path(history), name)
    agent = make_agent(log, Path(history).parent / "home")
    store = open_store(url)
    asyncio.run(work(store, agent) if how == "work" else Client(store, agent, log, name, int(seed)).use())


if __name__ == "__main__":
    main(*sys.argv[1:])
