"""The contenders of an evaluation: what runs at each task, and how its sessions are opened."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ....actions.ports import Model
from ....state.session import SandboxWish
from ....state.store.store import Store
from ...config.load import load_settings
from ...config.settings import Overrides, merge_overrides
from ...runtime.agent_definition import Definition
from ...runtime.runtime import Runtime
from ...sdk.runs.rules import RunRules
from ...sdk.runs.stream import StreamedRun
from ...sdk.session import AgentSession
from ...sdk.stored_sessions import Opening
from ...session.session import Session
from .digests import digest_definition


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
    ) -> AbstractAsyncContextManager[AgentSession[Any]]:
        """Return the session of a run as a context. `model` replaces the model of the contender."""
        runtime = self.make_runtime(contender, workspace, timeout_s, model)
        rules = contender.definition.run_rules if contender.definition is not None else None
        return _enter(runtime, session_id, rules or RunRules[str](), tags)

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
        if model is not None:
            definition = replace(definition or Definition(), model=model)
        is_embedded = contender.is_of_program
        overrides = settings if definition is None else merge_overrides(definition.overrides, settings)
        loaded = load_settings(overrides, self.env, of_project=not is_embedded)
        return Runtime(overrides, loaded, self.store, self.env, None, definition, is_embedded, overrides)


@asynccontextmanager
async def _enter(
    runtime: Runtime, session_id: str, rules: RunRules[Any], tags: tuple[str, ...]
) -> AsyncGenerator[AgentSession[Any]]:
    opening = Opening.of(session_id, None, None, {"tags": tags})

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
