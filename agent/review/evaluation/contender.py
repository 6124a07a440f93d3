"""The contenders of an evaluation: the agents that solve each task, and how their sessions are opened."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from ....actions.ports import Model
from ....actions.tools.functions.decorator import index_tools
from ....state.lazy_dataclass import dataclass
from ....state.session import SandboxWish, SpawnedBy
from ....state.store.store import Store
from ...config.data_folder import make_private
from ...config.load import load_settings
from ...config.settings import Overrides, Settings, merge_overrides
from ...runtime.agent_definition import Definition
from ...runtime.runtime import Runtime
from ...sdk.runs.rules import RunRules
from ...sdk.runs.stream import StreamedRun
from ...sdk.session import AgentSession
from ...sdk.stored_sessions import Opening
from ...session.session import Session
from .digests import digest_definition
from .suites.task import Task

_USER = "evaluation:"
"""The start of the name of the user whose sessions a run has."""
_TOOL_SETTINGS = (
    *("tools", "disallowed_tools", "groups", "available_groups", "mcp_servers", "memory"),
    *("plan_proposals", "plan_notebook", "knowledge"),
)
"""The settings of an agent that give it tools."""


@dataclass(frozen=True, slots=True)
class Contender:
    """An agent with a model. Without a definition it is the agent of the command."""

    name: str
    """Unique in the evaluation."""
    model: str = ""
    """`provider/model`; empty: that of the agent or of the settings."""
    definition: Definition | None = None
    is_of_program: bool = False
    """Whether a program brings the agent, so that the settings of the command do not apply."""
    overrides: Overrides = field(default_factory=dict[str, Any])
    """The settings of its sessions, such as rules of the command line."""

    @property
    def key(self) -> str:
        """What the ids of its runs depend on: an agent that changes begins other runs."""
        digest = "" if self.definition is None else digest_definition(self.definition)
        return "\0".join((self.name, self.model, digest))

    @property
    def is_scripted(self) -> bool:
        """Whether the tasks bring the replies of the model."""
        return self.model == "scripted" and not self.is_of_program


@dataclass(frozen=True, slots=True)
class SessionOpener:
    """Opens the sessions of an evaluation in one store."""

    store: Store
    env: Mapping[str, str]
    sandbox: SandboxWish

    def open_session(
        self,
        contender: Contender,
        session_id: str,
        workspace: Path,
        timeout_s: float | None,
        model: Model | None,
        tags: tuple[str, ...],
        parent: str | None = None,
        task: Task | None = None,
    ) -> AbstractAsyncContextManager[AgentSession[Any]]:
        """Return the session of a run as a context. `model` replaces the model of the contender, and the
        tools of `task` replace those of its agent. A session of `parent` is listed and deleted with it.
        """
        if task is not None and task.tools:
            definition = _replace_tools(contender.definition or Definition(), task)
            contender = replace(contender, definition=definition)
        runtime = self.make_runtime(contender, workspace, timeout_s, model)
        definition = contender.definition
        rules = definition.run_rules if definition is not None else None
        # What a model remembers about its user belongs to the run, and not to the person.
        is_new = not self.store.index.exists(session_id)
        labels: dict[str, Any] = {
            "app": "",
            "user": _USER + (parent or session_id) if is_new else "",
            "tags": tags,
        }
        if parent is not None:
            name = "" if definition is None else definition.name
            labels["spawned_by"] = SpawnedBy(session_id=parent, sequence=0, call_id="", agents=(name,))
        return _enter(runtime, rules or RunRules[str](), Opening(session_id, None, None, labels))

    def make_runtime(
        self, contender: Contender, workspace: Path, timeout_s: float | None, model: Model | None = None
    ) -> Runtime:
        """Return what opens the session of a run in its workspace."""
        settings: dict[str, Any] = {
            **contender.overrides,
            "cwd": workspace,
            "mode": "yolo",
            "sandbox": self.sandbox,
            "timeout_s": contender.overrides.get("timeout_s") or timeout_s,
        }
        definition = contender.definition
        if contender.model and model is None:
            settings["model"] = contender.model
            # The model that is evaluated replaces a model object of the agent, which would have precedence.
            definition = None if definition is None else replace(definition, model=None)
        if model is not None:
            definition = replace(definition or Definition(), model=model)
        is_embedded = contender.is_of_program
        overrides = settings if definition is None else merge_overrides(definition.overrides, settings)
        loaded = load_settings(overrides, self.env, of_project=not is_embedded)
        return Runtime(overrides, loaded, self.store, self.env, None, definition, is_embedded, overrides)


def _replace_tools(definition: Definition, task: Task) -> Definition:
    """Return a definition that has the tools of a task and no others."""
    kept = {key: one for key, one in definition.overrides.items() if key not in _TOOL_SETTINGS}
    tools = tuple(index_tools(task.tools).values())
    kept["tools"] = tuple(tool.spec.name for tool in tools)
    return replace(
        definition,
        overrides=kept,
        tools=tools,
        sources=(),
        has_builtin_tools=False,
        has_planning=False,
        done_tool="",
        flows=(),
        skills=(),
        knowledge=(),
        memory_store=None,
        agents=(),
        handoffs=(),
    )


@contextmanager
def open_store(overrides: Overrides, env: Mapping[str, str]) -> Generator[tuple[Settings, Store]]:
    """Open the store of a program for an evaluation, with the settings that it has besides."""
    settings = load_settings(overrides, env, of_project=False)
    make_private(settings.home)
    store = Store.open(settings.store, settings.tenant, None, settings.durability, settings.home)
    try:
        yield settings, store
    finally:
        store.close()


@asynccontextmanager
async def _enter(
    runtime: Runtime, rules: RunRules[Any], opening: Opening
) -> AsyncGenerator[AgentSession[Any]]:
    session_id = opening.session_id or ""

    async def close(session: Session, run: StreamedRun | None) -> None:
        if run is not None:
            await run.close()
        await session.interrupt()
        await runtime.let_go(session)

    async def open_one() -> Session:
        return await opening.open(runtime, session_id)

    try:
        async with AgentSession(open_one, close, rules, None, lambda: runtime) as session:
            yield session
    finally:
        runtime.store.forget(session_id)
        await runtime.aclose(closes_store=False)
