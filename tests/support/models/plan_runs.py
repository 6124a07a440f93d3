"""Runs plans in this process: a model server submits the plan, and works on each step as a test says."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.crash.past import Past
from support.models.scripted import collect
from support.models.server import Answer, ModelServer, Request, call, say
from support.models.talk import environment

from sandbur.actions.ports.events import Event, RunFinished
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.runtime.runtime import Runtime
from sandbur.agent.session.session import Session
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store

_ENDS = ("The plan is finished", "only the user can change it")
Work = Callable[[Past], Answer]


def step(description: str, *after: int | None) -> dict[str, Any]:
    """Return a step for `submit_plan`. It comes after these steps; after all earlier ones if none is given,
    and after nothing if None is given."""
    named = {"after": [one for one in after if one is not None]} if after else {}
    return {"description": description, **named}


def end(summary: str, status: str = "completed") -> Answer:
    return call("finish_step", status=status, summary=summary)


def shell(command: str) -> Answer:
    return call("run_shell_command", command=command)


class Plans:
    """A session whose model submits the given plans in order and works on each step as `work` says."""

    def __init__(self, folder: Path, *plans: Sequence[dict[str, Any]], **work: Work) -> None:
        self.folder = folder
        self.pasts: list[Past] = []
        self._plans = list(plans)
        self._work = work
        self.env: dict[str, str] = {}
        self.rules: dict[str, Any] = {}
        """Settings beside model, mode and folder, such as `deny`."""
        self.proposal = ""
        """The Markdown of a plan that the model proposes for an approval, before it answers."""

    def respond(self, request: Request) -> Answer:
        past = Past(request)
        self.pasts.append(past)
        if past.wants_plan:
            return call("submit_plan", steps=self._plans.pop(0))
        if self.proposal and not past.step:
            plan, self.proposal = self.proposal, ""
            return call("propose_plan", plan=plan)
        if past.step:
            work = self._work.get(f"step{past.step}")
            return end(f"summary {past.step}") if work is None else work(past)
        if past.child:
            return self._work["below"](past)
        if any(end in text for text in past.users for end in _ENDS):
            return say("all done")
        return call("start_plan", goal="the goal")

    @asynccontextmanager
    async def runtime(self, mode: str = "yolo") -> AsyncGenerator[Runtime]:
        with ModelServer(self.respond) as server:
            own = {
                "SANDBUR_HOME": str(self.folder / "data"),
                "HOME": str(self.folder),
                "PATH": "/usr/bin:/bin",
            }
            (self.folder / "work").mkdir(exist_ok=True)
            settings = {"model": "openai-chat/gpt-test", "mode": mode, "cwd": self.folder / "work"}
            runtime = Runtime.open({**settings, **self.rules}, {**environment(server), **own, **self.env})
            try:
                yield runtime
            finally:
                await runtime.aclose()
        assert not server.rejections

    async def run(self, mode: str = "yolo") -> tuple[list[Event], RunFinished, Session]:
        async with self.runtime(mode) as runtime:
            session = await runtime.create()
            events, ended = await collect(session.send("do it"))
            await require_sound(runtime.store, session.id)
            return events, ended, session

    @property
    def children(self) -> list[Past]:
        """The first request of each sub-agent."""
        return [past for past in self.pasts if past.users[0].startswith("Step ") and len(past.entries) == 1]


async def require_sound(store: Store, session_id: str) -> None:
    """Check that the records fit, and that the session and its sub-agents replay."""
    for one in (session_id, *(child.id for child in store.index.children_of(session_id, limit=50))):
        assert not audit(store.database, [*store.index.ancestors(one), one]).breaches
        found = await replay(store, one)
        assert found.divergence is None, found.divergence
