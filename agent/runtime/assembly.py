"""Creates sessions from their parts: gate, tools, model, ports and graph. Shared parts live as long as the
process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burr.core import Application

from ...actions.ports import (
    EventPort,
    Model,
    Ports,
    RequestSettings,
    RunInputs,
    Toolbox,
    ToolSource,
    WorksOnFiles,
    implements,
)
from ...actions.turn.output.format import OutputFormat
from ...actions.workspace.backends.backend import KeptFiles
from ...state.application import GRAPH_VERSION, ApplicationState
from ...state.errors import SessionMismatch, UsageError
from ...state.session import WORKFLOW_MODELS, SessionSettings
from ...state.store.seals import load_or_make_key
from ...state.store.store import Store
from ..config.load import load_settings, may_find_tools
from ..config.settings import Overrides, Settings
from ..extensions.active_tools.open_sources import OpenSources
from ..extensions.active_tools.session_tools import Equipped, bind_callers, equip, learn_secrets
from ..graph import ACTIONS, CALLS_START_NEXT, build_application, build_graph
from ..models.fallback import NoModel, apply_formatter
from ..models.prices.pricing import require_price
from ..models.providers import key_names
from ..models.transport.clients import Clients
from ..session.decisions import whoami
from ..session.inbox import SessionInbox
from ..session.observers import Observers
from ..session.position import Position
from ..session.run_limits import Limits
from ..session.secrets import SecretMasker, masker_for
from ..session.session import Session
from ..session.waiting_calls import SessionRules
from .active_extensions import ActiveExtensions, SessionParts
from .agent_definition import Definition
from .extension_runtime import ProcessContext, SessionContext
from .wiring import (
    DiskWitness,
    SessionGate,
    call_places,
    call_settings,
    choose_sandbox,
    compaction_of,
    connect_models,
    counter_of,
    gates_of,
    output_of,
    places_of,
    request_settings,
    sandbox_of,
    search_of,
    turn_rules,
)

if TYPE_CHECKING:
    from ...actions.tools.shell.sandbox.sandbox import Sandbox
    from ..extensions.middleware.middleware_stack import MiddlewareStack


class Assembly:
    """Opens the sessions of a process, and closes the parts that they used."""

    def __init__(
        self, overrides: Overrides, settings: Settings, store: Store, env: Mapping[str, str], of_command: bool
    ) -> None:
        """If `of_command` is true, the tools and settings of the person and the folder are used."""
        self._overrides = overrides
        self._settings = settings
        self._store = store
        self._env = env
        self._loads = of_command
        self._models: list[Model] = []
        self._summarizer: Model | None = None
        """The model of the setting `compaction_model`. All sessions share it."""
        self._run_models: dict[str, dict[str, Model]] = {}
        """Session id -> name -> the model that a single run of the session named."""
        self._clients: Clients | None = None
        self._sandboxes: dict[str, Sandbox] = {}
        """Session id -> the sandbox of its commands."""
        self._found: dict[Path, ToolSource | None] = {}
        """Working folder -> the source of tools from packages and the project, for the sessions in it."""
        self._folders: dict[Path, Settings] = {settings.cwd: settings}
        """Working folder -> the settings for the sessions in it."""
        process = ProcessContext(
            settings, overrides, env, of_command, self._settings_of_folder, self._connect_for_extension,
            self.session, self.let_go, store,
        )  # fmt: skip
        self.extensions = ActiveExtensions(process)
        self._sources = OpenSources()
        self._opened: dict[Session, Model] = {}
        """Each session with observers -> its model without the middleware."""

    async def session(
        self,
        session_id: str,
        settings: SessionSettings,
        new_state: ApplicationState,
        definition: Definition,
        needs_model: bool = True,
        deps: Any = None,
        stores: bool = False,
    ) -> Session:
        """Open a session after its last step, or a new one with `new_state`. Without a model it cannot run.

        `stores`: a new one is stored now, and not with its first message.
        """
        settings = settings.model_copy(update={"catastrophic": self._settings.catastrophic})
        async with AsyncExitStack() as undo:
            # Until the session exists, this object stands for what uses its tool sources.
            opening = object()
            undo.push_async_callback(self._sources.close, opening)
            session = await self._open(
                opening, session_id, settings, new_state, definition, needs_model, deps, stores
            )
            self._sources.hand_over(opening, session)
            return session

    async def _open(
        self,
        opening: object,
        session_id: str,
        settings: SessionSettings,
        new_state: ApplicationState,
        definition: Definition,
        needs_model: bool,
        deps: Any,
        stores: bool,
    ) -> Session:
        sandbox, notice = await self._confine(settings, session_id) if needs_model else (None, "")
        masker = self.masker_of(settings, keys := key_names(self._settings.providers))
        events, inputs = EventPort(), RunInputs(deps, definition.dependency_overrides)
        observers, places = Observers(events.notify), places_of(self._settings.home, session_id)
        context = SessionContext(session_id, settings, masker, places.scratch, keys, needs_model, definition)
        parts = self.extensions.open_session(context, definition)
        stack = self._middleware_of(settings, definition, parts, session_id, inputs) if needs_model else None
        sources = (*definition.sources, *self._discover_tools(settings, definition), *parts.sources)
        self._sources.use(opening, sources)
        equipped = await self._equip(session_id, settings, definition, stack, sandbox, sources)
        learn_secrets(equipped.toolbox.values(), masker)
        model = self.model_of(settings, definition, needs_model)
        settings = await self._complete(session_id, settings, equipped, stores)
        gate = SessionGate(gate_of := gates_of(self._settings, self._env, sandbox), settings)
        toolbox = bind_callers(await self._with_files(session_id, equipped.toolbox))
        context.tools.update(toolbox)
        observers.add(stack, *parts.observers)
        trace = observers.around_trace(await self._store.open_trace(session_id))
        hooks = parts.hooks if stack is None else stack.around_hooks(parts.hooks)
        position = Position(session_id, await self._application(session_id, new_state), self._store)
        inbox = SessionInbox(self._store.inbox(session_id), position, masker, hooks, events.notify, model)
        output, wrap = output_of(settings, definition.output), stack and stack.around_tools()
        ports = Ports(
            session_id, model if stack is None else stack.around_model(model),
            self._requests_of(settings, toolbox, definition, model, stack, output),
            toolbox, gate, DiskWitness(), await self._store.open_journal(session_id), trace, masker,
            call_places(settings, places),
            call_settings(settings, sandbox, keys, wrap, definition.user_input, parts.sub_agents),
            turn_rules(settings, output), events, hooks, inbox, inputs, parts.router,
        )  # fmt: skip
        session = Session(
            position, ports, inbox, SessionRules(settings, gate_of, gate.change),
            self._limits(settings, definition), observers, whoami(self._env),
            partial(self._connect_for_run, session_id, settings, stack),
        )  # fmt: skip
        await self._begin(session, parts, stack, model)
        session.notices = (*filter(None, [notice]), *equipped.notices, *_idle(settings, equipped.toolbox))
        return session

    async def _complete(
        self, session_id: str, settings: SessionSettings, equipped: Equipped, stores: bool
    ) -> SessionSettings:
        """Return the settings with the session's own tools, and store a new session if `stores` is true."""
        settings = settings.model_copy(update={"own_tools": dict(equipped.own) or settings.own_tools})
        if stores:
            await self._store.database.offload(partial(self._store.index.create, session_id, settings))
        return settings

    async def _begin(
        self, session: Session, parts: SessionParts, stack: MiddlewareStack | None, model: Model
    ) -> None:
        """Read the inbox, and notify extensions and middleware that a session is open."""
        await session.inbox.read()
        parts.begin_session(session)
        if stack is not None:
            await stack.start()
        if session.observers:
            self._opened[session] = model

    def _settings_of_folder(self, cwd: Path) -> Settings:
        """Return the settings, including those of the project that a folder belongs to."""
        if not self._loads:
            return self._settings
        if cwd not in self._folders:
            self._folders[cwd] = load_settings({**self._overrides, "cwd": cwd}, self._env)
        return self._folders[cwd]

    def _connect_for_extension(self, session: SessionSettings) -> Model:
        return connect_models(self._settings_of_folder(Path(session.cwd)), session, self._env)

    async def _equip(
        self,
        session_id: str,
        settings: SessionSettings,
        definition: Definition,
        stack: MiddlewareStack | None,
        sandbox: Sandbox | None,
        sources: Sequence[ToolSource],
    ) -> Equipped:
        brought = () if stack is None else stack.tools
        search = search_of(self._settings, self._env)
        # The tools of a sub-agent are chosen from those of its parent, and it may have fewer of them.
        is_new = settings.spawned_by is None and not self._store.index.exists(session_id)
        return await equip(settings, definition, brought, sources, search, sandbox, is_new)

    async def _application(self, session_id: str, new_state: ApplicationState) -> Application[Any]:
        persister = self._store.persister(CALLS_START_NEXT)
        application = await build_application(build_graph(), session_id, persister, new_state)
        _check_position(session_id, application.state, ACTIONS)
        return application

    async def let_go(self, session: Session) -> None:
        """Release a session that this process will not continue, so that many of them cost no memory."""
        self._store.forget(session.id)
        model = await self.close_observers(session)
        for other in self._run_models.pop(session.id, {}).values():
            await other.aclose()
        if model in self._models:
            self._models.remove(model)
            await model.aclose()
        if (sandbox := self._sandboxes.pop(session.id, None)) is not None:
            await asyncio.to_thread(sandbox.close)

    async def aclose(self) -> None:
        """Close everything except the store. Call `finish` after the store is closed."""
        for session in list(self._opened):
            await self.close_observers(session)
        await self._sources.close_all()
        await self.extensions.aclose()
        for model in (*self._models, *(each for of in self._run_models.values() for each in of.values())):
            await model.aclose()
        for sandbox in self._sandboxes.values():
            await asyncio.to_thread(sandbox.close)

    async def _with_files(self, session_id: str, toolbox: Toolbox) -> Toolbox:
        """Return the tools. Those over back ends get the files that the store keeps for the session."""
        over_back_ends = {
            name: tool
            for name, tool in toolbox.items()
            if implements(tool, WorksOnFiles) and tool.has_session_files()
        }
        if not over_back_ends:
            return toolbox

        own = await self._store.database.offload(lambda: self._store.open_session_files(session_id))
        kept = KeptFiles(own, self._store.open_shared_files())
        # The order of the tools stays the same, because every request lists them in this order.
        return {**toolbox, **{name: tool.of_session(kept) for name, tool in over_back_ends.items()}}

    def masker_of(self, session: SessionSettings, keys: frozenset[str] | None = None) -> SecretMasker:
        """Return the masker for the secrets of the environment, of the folder and of extensions."""
        keys = key_names(self._settings.providers) if keys is None else keys
        given = self.extensions.secrets(session)
        known = {**self._env, **given}
        return masker_for(known, Path(session.cwd), self._key, keys | set(given))

    @cached_property
    def _key(self) -> bytes:
        return load_or_make_key(self._settings.home)

    def _discover_tools(self, session: SessionSettings, definition: Definition) -> list[ToolSource]:
        """Return the sources of package and project tools. An agent in a program has only the tools that it
        names."""
        if not (self._loads and definition.has_builtin_tools):
            return []
        cwd = Path(session.cwd)
        if cwd not in self._found:
            self._found[cwd] = self._finder(cwd)
        found = self._found[cwd]
        return [] if found is None else [found]

    def _finder(self, cwd: Path) -> ToolSource | None:
        if not may_find_tools(cwd):
            return None
        from ..extensions.active_tools.tool_discovery import FoundTools

        return FoundTools(cwd, self._env)

    async def close_observers(self, session: Session) -> Model:
        """Close the observers and the tool sources of a session that ends; return the session's model."""
        await session.observers.close()
        await self._sources.close(session)
        return self._opened.pop(session, session.ports.model)

    def model_of(self, settings: SessionSettings, definition: Definition, needs_model: bool) -> Model:
        """Return the model of a session. One that this creates is closed with the runtime."""
        if needs_model and definition.model is not None and definition.model.name == settings.model:
            # The caller created this model, so the caller closes it.
            return definition.model
        if needs_model and settings.is_workflow:
            own = "" if definition.model is None else definition.model.name
            if own.startswith(WORKFLOW_MODELS):
                raise UsageError(
                    f"This session is a {settings.model}, and the agent here is a {own}.",
                    "Resume it with the workflow that began it.",
                )
            raise UsageError(
                "This session is a workflow, and its program is not loaded here.",
                "Resume it with --agent MODULE:NAME, or in the program.",
            )
        if needs_model:
            model = connect_models(self._settings, settings, self._env, self._share_clients)
            if definition.formatter is not None:
                apply_formatter(model, definition.formatter)
        else:
            model = NoModel(settings.model)
        self._models.append(model)
        return model

    def _requests_of(
        self,
        settings: SessionSettings,
        toolbox: Toolbox,
        definition: Definition,
        model: Model,
        stack: MiddlewareStack | None,
        output: OutputFormat | None,
    ) -> RequestSettings:
        """Return the settings of a session's requests. A session without a model has no model for summaries,
        either."""
        counter = counter_of(definition, model, self._settings.token_counting)
        summaries = (
            None if isinstance(model, NoModel) else self._summary_model_of(settings, definition, stack)
        )
        return request_settings(
            settings, toolbox, self._settings.compress_at, output, counter,
            compaction=compaction_of(self._settings), summary_model=summaries,
        )  # fmt: skip

    def _summary_model_of(
        self, settings: SessionSettings, definition: Definition, stack: MiddlewareStack | None
    ) -> Model | None:
        """Return the model that summarizes, inside of the middleware; None means the session's model."""
        model = definition.summary_model
        if model is None and self._settings.compaction_model is not None:
            if self._summarizer is None:
                only = {"model": self._settings.compaction_model, "fallback_models": (), "effort": None}
                own = settings.model_copy(update=only)
                self._summarizer = connect_models(self._settings, own, self._env, self._share_clients)
                self._models.append(self._summarizer)
            model = self._summarizer
        return model if model is None or stack is None else stack.around_model(model)

    def _share_clients(self) -> Clients:
        if self._clients is None:
            self._clients = Clients()
        return self._clients

    def keep_connections(self) -> None:
        """Keep connections open between sessions, until `drop_connections` has been called as often as
        this."""
        self._share_clients().hold()

    async def drop_connections(self) -> None:
        await self._share_clients().release()

    async def _confine(self, session: SessionSettings, session_id: str) -> tuple[Sandbox | None, str]:
        if choose_sandbox(session, self._settings) == "off":
            return sandbox_of(session, self._settings, self._env, session_id)
        sandbox, notice = await asyncio.to_thread(sandbox_of, session, self._settings, self._env, session_id)
        if sandbox is not None:
            self._sandboxes[session_id] = sandbox
        return sandbox, notice

    def _connect_for_run(
        self,
        session_id: str,
        settings: SessionSettings,
        stack: MiddlewareStack | None,
        name: str,
        given: Model | None,
    ) -> Model:
        """Return the model that a run names, inside of the session's middleware."""
        if given is not None:
            # The caller created this model, so the caller closes it.
            return given if stack is None else stack.around_model(given)
        known = self._run_models.setdefault(session_id, {})
        if name not in known:
            chosen = settings.model_copy(update={"model": name, "fallback_models": ()})
            known[name] = connect_models(self._settings, chosen, self._env, self._share_clients)
        return known[name] if stack is None else stack.around_model(known[name])

    def _middleware_of(
        self,
        settings: SessionSettings,
        definition: Definition,
        parts: SessionParts,
        session_id: str,
        inputs: RunInputs,
    ) -> MiddlewareStack | None:
        """Return the middleware of a session, or None if it has none. Raises `MiddlewareError`."""
        layers = (*definition.middleware, *parts.middleware)
        if not layers:
            return None
        from ..extensions.middleware.middleware_stack import stack_middleware

        return stack_middleware(layers, session_id, settings, self._env, inputs)

    def _limits(self, session: SessionSettings, definition: Definition) -> Limits:
        """Return the limits. Flags take precedence over the agent, and the agent over the settings."""
        limits = Limits.of(self._settings)
        given = definition.overrides
        own = {key: given[key] for key in asdict(limits) if key in given and self._overrides.get(key) is None}
        limits = replace(limits, **own)
        if session.max_budget_usd is not None:
            limits = replace(limits, max_budget_usd=session.max_budget_usd)
        if session.spawned_by is not None and session.spawned_by.max_turns is not None:
            most = (session.spawned_by.max_turns, limits.max_turns)
            limits = replace(limits, max_turns=min(count for count in most if count is not None))
        if limits.max_budget_usd is not None:
            others = filter(None, (*session.fallback_models, self._settings.compaction_model))
            own = () if session.is_workflow else (session.model,)
            for model in (*own, *others):
                require_price(model, self._settings.prices)
        return limits


def _idle(session: SessionSettings, toolbox: Toolbox) -> Iterator[str]:
    """Yield a notice for each rule that matches no tool."""
    rules = (*session.allow, *session.ask, *session.deny)
    if not rules:
        return
    from ..policy.rules.rules import idle_rules

    for rule in idle_rules(rules, toolbox):
        yield f"The rule `{rule}` names no tool of this session."


def _check_position(session_id: str, state: Any, actions: Mapping[str, Any]) -> None:
    """Raise `StoreError` if the session is at an action that this graph does not have."""
    position = state.get("__PRIOR_STEP")
    if state["graph_version"] > GRAPH_VERSION or (position is not None and position not in actions):
        raise SessionMismatch(
            f"Session {session_id} was written by a newer Sandbur: its last action is {position!r}.",
            "Update Sandbur to continue it: `sandbur update` prints how.",
        )
