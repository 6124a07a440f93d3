"""Settings, store and model in one place; opens new and stored sessions."""

import asyncio
import os
import stat
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..state.application import GRAPH_VERSION, ApplicationState
from ..state.databases.ownership import require_own
from ..state.errors import ConfigError, SessionMismatch, UsageError, exhausted
from ..state.session import SandboxWish, SessionSettings
from ..state.store.store import Store
from .config.load import load_settings
from .config.settings import Said, Settings
from .session.run import Limits

if TYPE_CHECKING:
    from ..actions.ports import Masker, Model, Trace
    from ..actions.tools.shell.sandbox.sandbox import Sandbox
    from .history.time_travel.restore import Restored, RestorePlan
    from .session.session import Session
    from .telemetry.session_telemetry import SessionTelemetry
    from .telemetry.telemetry import Telemetry


class Runtime:
    """What one process of Sandbur works with."""

    def __init__(
        self,
        said: Said,
        settings: Settings,
        store: Store,
        env: Mapping[str, str],
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        self.said = said
        self.settings = settings
        self.store = store
        self.env = env
        self._on_notice = on_notice
        self._models: list[Model] = []
        self._sandboxes: list[Sandbox] = []
        self._telemetry: Telemetry | None = None

    @classmethod
    def open(
        cls,
        said: Said,
        env: Mapping[str, str] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> Self:
        """Load the settings and open the store; raises `SandburError`.

        `on_notice` is told when the store takes long to open, and what got lost of telemetry.
        """
        env = os.environ if env is None else env
        settings = load_settings(said, env)
        _make_private(settings.home)
        store = Store.open(settings.store, settings.tenant, on_notice, settings.durability, settings.home)
        return cls(said, settings, store, env, on_notice)

    async def aclose(self) -> None:
        for model in self._models:
            await model.aclose()
        for sandbox in self._sandboxes:
            await asyncio.to_thread(sandbox.close)
        self.store.close()
        await self._end_telemetry()

    async def create(self, session_id: str | None = None, or_demo: bool = False) -> "Session":
        """Start a session; it is stored with its first message.

        Without any model it raises `CredentialsError`, or takes the demo.
        """
        from .prompts import session_prompt
        from .secrets import masker_for
        from .wiring import settings_of_session

        model, notices = self._chosen_model(or_demo)
        system, more = session_prompt(self.settings.cwd, self.settings.add_dirs, self.env)
        system = masker_for(self.env, self.settings.cwd).text(system)
        session = settings_of_session(self.settings, model, system)
        session_id = session_id or str(uuid.uuid4())
        if self.store.index.exists(session_id):
            raise UsageError(
                f"A session {session_id} exists already.", f"Go on with it: sandbur -r {session_id}"
            )
        new_state = ApplicationState(execution_mode=self.settings.mode)
        try:
            opened = await self._open(session_id, session, new_state)
        except UsageError as error:
            if self.said.get("model") is not None or self.settings.model is None:
                raise
            raise ConfigError(f"The configured model: {error.message}", error.hint) from None
        opened.notices = (*self.settings.notices, *opened.notices, *notices, *more)
        await self._clear_up()
        return opened

    async def resume(self, session_id: str, needs_model: bool = True) -> "Session":
        """Open a stored session after its last step; flags of this run change its settings.

        Without its model a session can record decisions, and nothing else.
        """
        stored = self.store.index.settings(session_id)
        session = self._with_flags(stored)
        if not Path(session.cwd).is_dir():
            raise UsageError(
                f"The folder of this session, {session.cwd}, is gone.", "Name another one with -C DIR."
            )
        is_held = self.store.index.is_held(session_id)
        damages = [] if is_held else await self.store.database.offload(lambda: self.store.heal(session_id))
        new_state = ApplicationState(execution_mode=session.mode)
        opened = await self._open(session_id, session, new_state, needs_model)
        if self.store.writer(session_id).is_foreign:
            opened.take_over()
        if self.said.get("mode") is not None:
            opened.change_mode(self.settings.mode)
        if not is_held:
            await opened.examine()
        opened.notices = (*self.settings.notices, *opened.notices, *damages)
        await self._clear_up()
        return opened

    def _chosen_model(self, or_demo: bool) -> tuple[str, list[str]]:
        """Return the model of a new session, and what to tell of the choice."""
        if self.settings.model is not None:
            return self.settings.model, []
        from .models.connect import choose_model

        return choose_model(None, self.env, or_demo)

    async def _clear_up(self) -> None:
        """Do away with what killed processes left; called after the recovery, which tells of it."""
        if not any((self.settings.home / name).is_dir() for name in ("scratch", "snapshots")):
            return
        from .leftovers import clear_up

        try:
            await asyncio.to_thread(clear_up, self.settings.home)
        except RuntimeError as refused:
            # No session waits for this: where the system starts no thread, the next run does it.
            if exhausted(refused) is None:
                raise

    async def reload(self, session: "Session") -> "Session":
        """Open a session anew that went on in another process; the mode and rules of this one stay."""
        self.store.forget(session.id)
        opened = await self.resume(session.id)
        if opened.state.execution_mode != session.state.execution_mode:
            opened.change_mode(session.state.execution_mode)
        for rule in session.settings.allow:
            if rule not in opened.settings.allow:
                opened.allow_always(rule)
        opened.notices = tuple(said for said in opened.notices if said not in self.settings.notices)
        return opened

    async def fork(
        self, session_id: str, at: int | None = None, changes: Mapping[str, Any] | None = None
    ) -> str:
        """Make a session that goes on after step `at` of another one; return its id.

        `changes` are valid fields of the state that the new one starts with.
        """
        from .history.time_travel.branches import branch

        return await branch(self.store, session_id, at, changes or {})

    async def restore_plan(self, session_id: str, seq: int, folder: Path) -> "RestorePlan":
        """Return what bringing the files in `folder` back would change."""
        from .history.time_travel.branches import restore_plan

        return await restore_plan(self.store, session_id, seq, [folder])

    async def restore_files(
        self, session_id: str, seq: int, into: str, folder: Path | None = None
    ) -> "tuple[RestorePlan, Restored]":
        """Bring the files that a session touched after step `seq` back; `into` records what is replaced.

        Only those in `folder`, or in the session's own ones.
        """
        from .history.time_travel.branches import restore_files

        settings = self.store.index.settings(into)
        own = [Path(each) for each in (settings.cwd, *settings.add_dirs)]
        return await restore_files(self.store, session_id, seq, into, own if folder is None else [folder])

    async def _open(
        self,
        session_id: str,
        settings: SessionSettings,
        new_state: ApplicationState,
        needs_model: bool = True,
    ) -> "Session":
        from ..actions.tools.registry import toolbox_of
        from ..state.store.store_key import store_key
        from .graph import ACTIONS, build_application, build_graph
        from .models.providers import key_names
        from .secrets import masker_for
        from .session.run import nobody
        from .session.session import Session
        from .wiring import SessionGate, bind_ports, own_folders, places_of, policy_of, search_of

        settings = settings.model_copy(update={"catastrophic": self.settings.catastrophic})
        # Without a model nothing is run.
        sandbox, said = await self._confine(settings) if needs_model else (None, "")
        is_confined = sandbox is not None and not sandbox.has_network
        own = own_folders(self.settings, self.env)
        gate_of = partial(policy_of, own=own, is_confined=is_confined)
        gate = SessionGate(gate_of(settings))
        keys = key_names(self.settings.providers)
        masker = masker_for(self.env, Path(settings.cwd), store_key(self.settings.home), keys)
        model = self._model_of(settings, needs_model)
        journal = await self.store.open_journal(session_id)
        trace = await self.store.open_trace(session_id)
        places = places_of(self.settings.home, session_id)
        telemetry = self._telemetry_of(session_id, trace, masker)
        if telemetry is not None:
            model, trace = telemetry.overhear(model), telemetry
        toolbox = toolbox_of(settings.network_tools, search_of(self.settings, self.env), sandbox)
        ports = bind_ports(
            settings, gate, model, journal, trace, masker, places, self.settings.compress_at, toolbox,
            withheld=keys, sandbox=sandbox,
        )  # fmt: skip
        application = await build_application(
            build_graph(ports), session_id, self.store.persister(), new_state
        )
        _check_position(session_id, application.state, ACTIONS)

        observe = telemetry.note if telemetry is not None else nobody
        limits = self._limits(settings)
        session = Session(
            session_id, application, ports, self.store, settings, limits, gate_of, gate.change, observe
        )
        session.notices = (said,) if said else ()
        return session

    def _model_of(self, settings: SessionSettings, needs_model: bool) -> "Model":
        if needs_model:
            from .wiring import connect_models

            model = connect_models(self.settings, settings, self.env)
        else:
            from .models.model import NoModel

            model = NoModel(settings.model)
        self._models.append(model)
        return model

    async def _confine(self, session: SessionSettings) -> "tuple[Sandbox | None, str]":
        from .wiring import sandbox_of

        if session.sandbox == "off":
            return sandbox_of(session, self.settings, self.env)
        sandbox, said = await asyncio.to_thread(sandbox_of, session, self.settings, self.env)
        if sandbox is not None:
            self._sandboxes.append(sandbox)
        return sandbox, said

    def _with_flags(self, stored: SessionSettings) -> SessionSettings:
        from .wiring import readable

        said, settings = self.said, self.settings
        changes: dict[str, Any] = {
            "model": said.get("model"),
            "fallback_models": said.get("fallback_models"),
            "cwd": readable(settings.cwd) if said.get("cwd") is not None else None,
            "add_dirs": tuple(map(readable, settings.add_dirs)) if said.get("add_dirs") else None,
            "allow": (*stored.allow, *said.get("allow", ())),
            "deny": (*stored.deny, *said.get("deny", ())),
            "sandbox": self._sandbox_wish(stored),
            "allow_net": said.get("allow_net"),
            "ask": (*stored.ask, *said.get("ask", ())),
        }
        return stored.model_copy(update={name: value for name, value in changes.items() if value})

    def _sandbox_wish(self, stored: SessionSettings) -> "SandboxWish":
        """Return what a flag says, else the stricter of what the session keeps and what is configured now."""
        from .wiring import stricter

        said: SandboxWish | None = self.said.get("sandbox")
        return said or stricter(stored.sandbox, self.settings.sandbox)

    def _telemetry_of(self, session_id: str, trace: "Trace", masker: "Masker") -> "SessionTelemetry | None":
        """Return what tells a collector of this session's runs, if that is switched on."""
        if not self.settings.otel:
            return None
        if self._telemetry is None:
            from .telemetry.telemetry import Telemetry

            self._telemetry = Telemetry.start(self.env)
        return self._telemetry.session(session_id, trace, masker) if self._telemetry is not None else None

    async def _end_telemetry(self) -> None:
        telemetry, self._telemetry = self._telemetry, None
        if telemetry is None:
            return
        problem = await asyncio.to_thread(telemetry.close)
        if problem and self._on_notice is not None:
            self._on_notice(problem)

    def _limits(self, session: SessionSettings) -> Limits:
        settings = self.settings
        if settings.max_budget_usd is not None:
            from .pricing import require_price

            for model in (session.model, *session.fallback_models):
                require_price(model, settings.prices)
        return Limits(settings.max_turns, settings.max_budget_usd, settings.timeout_s)


def _make_private(home: Path) -> None:
    """Take the others' rights from our data folder; a folder that is shared on purpose stays as it is.

    Raises `UntrustedFolder` for another user's, `ConfigError` for a link that leads nowhere.
    """
    if home.is_symlink() and not home.exists():
        raise ConfigError(
            f"The data folder {home} is a link to what does not exist.", "Remove it or set SANDBUR_HOME."
        )
    try:
        require_own(home)
        found = home.stat()
        is_shared = bool(found.st_mode & stat.S_ISVTX) or home == Path.home()
        if found.st_uid == os.geteuid() and found.st_mode & 0o077 and not is_shared:
            home.chmod(0o700)
    except OSError:
        return


def _check_position(session_id: str, state: Any, actions: Mapping[str, Any]) -> None:
    """Refuse a session that stands where this graph cannot go on."""
    position = state.get("__PRIOR_STEP")
    if state["graph_version"] > GRAPH_VERSION or (position is not None and position not in actions):
        raise SessionMismatch(
            f"Session {session_id} was written by a newer Sandbur: its graph stands after {position!r}.",
            "Upgrade Sandbur to go on with it.",
        )
