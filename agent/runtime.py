"""Settings, store and model in one place; opens new and stored sessions."""

import logging
import os
import stat
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agent.config import Settings, load_settings
from agent.limits import Limits
from agent.options import RunOptions
from state.application import GRAPH_VERSION, ApplicationState
from state.errors import ConfigError, SessionMismatch, UsageError
from state.messages import encodable
from state.session import SessionSettings
from state.store.store import Store

if TYPE_CHECKING:
    from actions.ports import Model
    from agent.session import Session


class Runtime:
    """What one process of Sandbur works with."""

    def __init__(self, options: RunOptions, settings: Settings, store: Store, env: Mapping[str, str]) -> None:
        self.options = options
        self.settings = settings
        self.store = store
        self.env = env
        self._models: list[Model] = []
        # Burr logs the whole state with every failing action; the driver reports failures itself.
        logging.getLogger("burr").setLevel(logging.CRITICAL)

    @classmethod
    def open(cls, options: RunOptions, env: Mapping[str, str] | None = None) -> Self:
        """Load the settings and open the store; raises `SandburError`."""
        env = os.environ if env is None else env
        settings = load_settings(options, env)
        _make_private(settings.home)
        return cls(options, settings, Store.open(settings.store_url), env)

    async def aclose(self) -> None:
        for model in self._models:
            await model.aclose()
        self.store.close()

    async def create(self, session_id: str | None = None) -> "Session":
        """Start a session; it is stored with its first message."""
        from agent.models.catalogue import choose_model
        from agent.prompts import session_prompt

        model, notices = choose_model(self.settings.model, self.env)
        system, more = session_prompt(self.settings.cwd, self.settings.add_dirs, self.env)
        session = SessionSettings(
            model=model,
            cwd=_readable(self.settings.cwd),
            add_dirs=tuple(map(_readable, self.settings.add_dirs)),
            fallback_models=self.settings.fallback_models,
            allow=self.settings.allow,
            deny=self.settings.deny,
            system_prompt=system,
        )
        session_id = session_id or str(uuid.uuid4())
        if self.store.index.exists(session_id):
            raise UsageError(
                f"A session {session_id} exists already.", f"Go on with it: sandbur -r {session_id}"
            )
        new_state = ApplicationState(execution_mode=self.settings.mode)
        try:
            opened = await self._open(session_id, session, new_state)
        except UsageError as error:
            if self.options.model is not None or self.settings.model is None:
                raise
            raise ConfigError(f"The configured model: {error.message}", error.hint) from None
        opened.notices = (*self.settings.notices, *notices, *more)
        return opened

    async def resume(self, session_id: str) -> "Session":
        """Open a stored session behind its last step; flags of this run change its settings."""
        stored = self.store.index.settings(session_id)
        session = self._with_flags(stored)
        if not Path(session.cwd).is_dir():
            raise UsageError(
                f"The folder of this session, {session.cwd}, is gone.", "Name another one with -C DIR."
            )
        opened = await self._open(session_id, session, ApplicationState())
        if self.options.mode is not None:
            opened.change_mode(self.options.mode)
        opened.notices = self.settings.notices
        return opened

    def fork(self, session_id: str, at: int | None = None) -> str:
        """Make a session that goes on behind step `at` of another one; return its id."""
        new_id = str(uuid.uuid4())
        self.store.fork(session_id, new_id, at)
        return new_id

    async def _open(
        self, session_id: str, settings: SessionSettings, new_state: ApplicationState
    ) -> "Session":
        from agent.graph import ACTIONS, build_application, build_graph
        from agent.session import Session
        from agent.wiring import SessionGate, bind_ports, connect_models, policy_of

        gate = SessionGate(policy_of(settings))
        model = connect_models(self.settings, settings, self.env)
        self._models.append(model)
        ports = bind_ports(self.settings, settings, gate, model, self.store.journal(session_id))
        application = await build_application(
            build_graph(ports), session_id, self.store.persister(), new_state
        )
        _check_position(session_id, application.state, ACTIONS)
        limits = self._limits(settings)

        def add_rule(rule: str) -> SessionSettings:
            changed = session.settings.model_copy(update={"allow": (*session.settings.allow, rule)})
            gate.policy = policy_of(changed)
            return changed

        session = Session(session_id, application, ports, self.store, settings, limits, add_rule)
        return session

    def _with_flags(self, stored: SessionSettings) -> SessionSettings:
        options = self.options
        changes: dict[str, Any] = {
            "model": options.model,
            "fallback_models": options.fallback_models,
            "cwd": _readable(self.settings.cwd) if options.cwd is not None else None,
            "add_dirs": tuple(map(_readable, self.settings.add_dirs)) if options.add_dirs else None,
            "allow": (*stored.allow, *options.allow) if options.allow else None,
            "deny": (*stored.deny, *options.deny) if options.deny else None,
        }
        return stored.model_copy(update={name: value for name, value in changes.items() if value})

    def _limits(self, session: SessionSettings) -> Limits:
        settings = self.settings
        if settings.max_budget_usd is not None:
            from agent.pricing import require_price

            for model in (session.model, *session.fallback_models):
                require_price(model, settings.prices)
        return Limits(settings.max_turns, settings.max_budget_usd, settings.timeout_s)


def _make_private(home: Path) -> None:
    """Take the others' rights from our data folder; a folder that is shared on purpose stays as it is."""
    try:
        found = home.stat()
        is_shared = bool(found.st_mode & stat.S_ISVTX) or home == Path.home()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077 and not is_shared:
            home.chmod(0o700)
    except OSError:
        return


def _readable(folder: Path) -> str:
    """Return the folder's name as text that can be stored; raises `UsageError`."""
    name = str(folder)
    if encodable(name) != name:
        raise UsageError(f"The name of the folder {encodable(name)} is not UTF-8.", "Rename it.")
    return name


def _check_position(session_id: str, state: Any, actions: Mapping[str, Any]) -> None:
    """Refuse a session that stands where this graph cannot go on."""
    position = state.get("__PRIOR_STEP")
    if state["graph_version"] > GRAPH_VERSION or (position is not None and position not in actions):
        raise SessionMismatch(
            f"Session {session_id} was written by a newer Sandbur: its graph stands behind {position!r}.",
            "Upgrade Sandbur to go on with it.",
        )
