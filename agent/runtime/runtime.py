"""Settings, store and model in one place; opens new and stored sessions."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

from ...actions.ports import UserInput
from ...state.application import ApplicationState
from ...state.conversation.messages import UserContent, encodable
from ...state.errors import ConfigError, DamagedRecords, UnknownTool, UsageError, to_exhausted
from ...state.process.temporaries import NOTES
from ...state.session import InboxKind, OutputSchema, SessionSettings, WaitingMessage, check_session_id
from ...state.store.store import Store
from ..config.data_folder import make_private
from ..config.load import load_settings
from ..config.settings import Overrides, Settings, load_extensions, merge_overrides
from ..extensions.extension import FindCitedFiles
from ..session.inbox import leave_messages
from ..session.secrets import SecretMasker, masker_for, require_plain_labels, require_readable
from ..session.session import Session
from .agent_definition import PLAIN, Definition, SessionPlace, find_descendant
from .assembly import Assembly
from .cleanup import clear_up
from .extension_runtime import ExtensionRuntime
from .prompts import session_prompt
from .tool_servers import ToolServers
from .wiring import settings_of_resumed, settings_of_session

_LEFT_IN = ("scratch", "snapshots", "temporary")
"""The folders of the data folder in which killed processes leave something."""
_OTHER_FORM = "The output type of the agent has changed; this session keeps the one that it began with."


class Runtime:
    """The settings, the store and the extensions of one process, with which it opens sessions."""

    def __init__(
        self,
        overrides: Overrides,
        settings: Settings,
        store: Store,
        env: Mapping[str, str],
        on_notice: Callable[[str], None] | None = None,
        definition: Definition | None = None,
        is_embedded: bool = False,
        flags: Overrides | None = None,
    ) -> None:
        self.overrides = overrides
        """What the flags and the agent set."""
        self.flags = overrides if flags is None else flags
        """What the flags of a command set; in a program with its own agent, the same as `overrides`."""
        self.settings = settings
        self.store = store
        self.env = env
        self.accepts_changed = False
        """Whether a person at a terminal decides about the calls of sessions whose settings were changed from
        outside, so that they are opened without permissions."""
        self._on_notice = on_notice
        self._definition = definition
        """The definition for new sessions. In a program with its own agent it is used for all sessions."""
        self._loads = not is_embedded
        self.user_input: UserInput | None = None
        """Asks the person at a front end, for sessions that are opened from then on; None: the agent's own
        `user_input` asks."""
        self._assembly = Assembly(overrides, settings, store, env, of_command=not is_embedded)
        self._turnstiles: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @classmethod
    def open(
        cls,
        overrides: Overrides,
        env: Mapping[str, str] | None = None,
        on_notice: Callable[[str], None] | None = None,
        definition: Definition | None = None,
    ) -> Self:
        """Load the settings and open the store; raises `SandburError`.

        `on_notice` is called with a sentence if the store takes long to open, or if telemetry was lost. If an
        agent's `definition` is given, the folder's configuration is not used, and neither is the agent that
        it names.
        """
        env = os.environ if env is None else env
        if definition is None:
            load_extensions()
        settings = load_settings(overrides, env, of_project=definition is None)
        is_embedded = definition is not None
        flags = None
        if definition is None and settings.agent is not None:
            from ..sdk.loading import load_named_agent

            definition = load_named_agent(settings, overrides, env)
            if overrides.get("agent"):
                overrides = {**overrides, "agent": definition.source}
            flags = overrides
        if definition is not None:
            overrides = merge_overrides(definition.overrides, overrides)
            settings = load_settings(overrides, env, of_project=not is_embedded)
        make_private(settings.home)
        NOTES.keep_in(settings.home)
        store = Store.open(settings.store, settings.tenant, on_notice, settings.durability, settings.home)
        return cls(overrides, settings, store, env, on_notice, definition, is_embedded, flags)

    async def aclose(self, closes_store: bool = True) -> None:
        await self._assembly.aclose()
        if closes_store:
            self.store.close()
        problem = await self._assembly.extensions.finish()
        if problem and self._on_notice is not None:
            self._on_notice(problem)

    async def let_go(self, session: Session) -> None:
        """Release a session that this process will not continue, so that many of them cost no memory."""
        await self._assembly.let_go(session)

    async def refresh_tools(self, session: Session) -> Session:
        """Return the session for its next run. It is opened again if the tools of a source have changed."""
        for runtime in self._assembly.extensions.list_running():
            if await runtime.has_changed_tools(session.settings):
                return await self.reopen(session)
        return session

    def tool_servers(self, session: Session) -> ToolServers:
        """Return the tool servers of a session; raises `UsageError` if it has none."""
        for runtime in self._assembly.extensions.list_running():
            if (servers := runtime.tool_servers(session.settings)) is not None:
                return servers
        raise UsageError("This session has no tool servers.", "Configure some: Agent(mcp_servers={...}).")

    def extension(self, name: str) -> ExtensionRuntime | None:
        """Return the runtime of an extension, or None if it is not installed or not needed so far."""
        return self._assembly.extensions.get(name)

    def link_finder(self, session: SessionSettings) -> FindCitedFiles | None:
        """Return what finds the files that answers of a session cite; None if nothing does."""
        return self._assembly.extensions.link_finder(session)

    def start_extension(self, name: str) -> ExtensionRuntime | None:
        """Return the runtime of a built-in extension, even if it is off; None if it is missing."""
        return self._assembly.extensions.start(name)

    def keep_connections(self) -> None:
        """Keep connections open between sessions, until `drop_connections` has been called as often as
        this."""
        self._assembly.keep_connections()

    async def drop_connections(self) -> None:
        await self._assembly.drop_connections()

    async def create(
        self,
        session_id: str | None = None,
        or_demo: bool = False,
        output_schema: OutputSchema | None = None,
        variables: Mapping[str, str] | None = None,
        deps: Any = None,
        labels: Mapping[str, Any] | None = None,
        instructions: str = "",
        stores: bool = False,
    ) -> Session:
        """Start a session. It is stored with its first message, or with `stores` at once.

        If no model is available, raise `CredentialsError`, or use the demo model if `or_demo` is true. Of a
        program are `deps` and `labels`. `output_schema` and `variables` replace those of the agent and the
        settings; `instructions` follow its prompt.
        """
        await self._take_turns()
        definition = self._with_person(self._definition or PLAIN)
        session_id = str(uuid.uuid4()) if session_id is None else check_session_id(session_id)
        model, notices = self._choose_model(or_demo)
        place = SessionPlace(session_id, self.settings.cwd)
        system, more = await session_prompt(place, self.settings.add_dirs, self.env, definition)
        system, stored, prompt_notices = await self._extend_prompt(system, definition)
        system = "\n\n".join(filter(None, (system, encodable(instructions))))
        masker = masker_for(self.env, self.settings.cwd)
        session = settings_of_session(self.settings, model, masker.text(system))
        own = {
            **stored,
            **require_plain_labels(masker, labels or {}),
            **_keep_definition(definition, masker, of_command=self._loads),
            "variables": {**definition.variables, **session.variables, **(variables or {})},
        }
        if output_schema is not None:
            own["output_schema"] = output_schema
        if session.is_workflow:
            own["agents_model"] = self.settings.model or ""
        session = session.model_copy(update=own)
        if self.store.index.exists(session_id):
            raise UsageError(
                f"A session {session_id} exists already.", f"Continue it with: sandbur -r {session_id}"
            )
        opened = await self._open_new(session_id, session, definition, deps, stores)
        opened.notices = (*self.settings.notices, *opened.notices, *notices, *more, *prompt_notices)
        await self._clear_up()
        return opened

    async def _open_new(
        self, session_id: str, session: SessionSettings, definition: Definition, deps: Any, stores: bool
    ) -> Session:
        """Open a new session; raises `ConfigError` if the model of the configuration does not fit."""
        state = ApplicationState(execution_mode=self.settings.mode)
        try:
            return await self._assembly.session(session_id, session, state, definition, True, deps, stores)
        except UsageError as error:
            is_named = self.overrides.get("model") is not None or self.settings.model is None
            if is_named or isinstance(error, UnknownTool):
                raise
            raise ConfigError(f"The configured model: {error.message}", error.hint) from None

    async def resume(
        self,
        session_id: str,
        needs_model: bool = True,
        variables: Mapping[str, str] | None = None,
        deps: Any = None,
    ) -> Session:
        """Open a stored session after its last step. Flags of this run and `variables` change its settings.

        If `needs_model` is false, the session has no model and can only record decisions. `deps` are the
        dependencies of a program.
        """
        await self._take_turns()
        self.store.index.settings(session_id)
        is_held = self.store.index.is_held(session_id)
        given = session_id, needs_model, variables, deps
        damages: list[str] = []
        if not is_held:
            damages = await self._quarantine(session_id)
        try:
            opened = await self._open_stored(*given)
        except DamagedRecords:
            damages = await self._quarantine(session_id, trusting=False)
            opened = await self._open_stored(*given)
        if not is_held:
            await opened.examine()
        lost = await self.store.database.offload(partial(_name_lost_files, opened.state))
        opened.notices = (*self.settings.notices, *opened.notices, *damages, *lost)
        await self._clear_up()
        return opened

    async def _quarantine(self, session_id: str, trusting: bool = True) -> list[str]:
        return await self.store.database.offload(lambda: self.store.quarantine_damage(session_id, trusting))

    async def _open_stored(
        self, session_id: str, needs_model: bool, variables: Mapping[str, str] | None, deps: Any
    ) -> Session:
        """Open a session whose records were checked; raises `SettingsChanged` and `DamagedRecords`."""
        stored, doubt = await self.store.database.offload(
            lambda: self.store.open_settings(session_id, self.accepts_changed)
        )
        flags = self._find_changes(stored)
        session = settings_of_resumed(stored, self.settings, flags)
        session = session.model_copy(update={"variables": {**session.variables, **(variables or {})}})
        _require_folder(session)
        new_state = ApplicationState(execution_mode=session.mode)
        definition, notices = self._definition_of(session)
        if definition.output is not None and definition.output.output_schema != session.output_schema:
            notices = [*notices, _OTHER_FORM]
        opened = await self._assembly.session(session_id, session, new_state, definition, needs_model, deps)
        if self.store.writer(session_id).is_foreign:
            opened.revoke_permissions()
        if doubt:
            opened.revoke_permissions(are_loaded=True)
        if flags.get("mode") is not None:
            opened.change_mode(self.settings.mode)
        own = (*notices, *_describe_parent(session), *filter(None, (doubt,)))
        opened.notices = (*own, *opened.notices)
        return opened

    async def require_free(self, session_id: str) -> None:
        """Raise `SessionHeld` if another process runs a stored session."""
        await self.store.database.offload(lambda: self.store.index.require_free(session_id))

    async def _take_turns(self) -> None:
        """Let sessions that start concurrently begin one after the other, so that other tasks run in
        between."""
        async with self._turnstiles.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            await asyncio.sleep(0)

    async def _extend_prompt(
        self, system: str, definition: Definition
    ) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        """Return the prompt with the additions of extensions, the fields for the session to store, and
        notices."""
        stored: dict[str, Any] = {}
        notices: list[str] = []
        for runtime in self._assembly.extensions.for_session(None):
            section = await runtime.extend_prompt(self.settings.cwd, definition)
            system = "\n\n".join(filter(None, (system, section.text)))
            stored |= section.stored
            notices += section.notices
        return system, stored, (*definition.notices, *notices)

    def _choose_model(self, or_demo: bool) -> tuple[str, list[str]]:
        """Return the model of a new session, and notices about the choice."""
        if self._definition is not None and self._definition.model is not None:
            return self._definition.model.name, []
        if self.settings.model is not None:
            return self.settings.model, []
        from ..models.connect import choose_model

        return choose_model(None, self.env, or_demo)

    async def _clear_up(self) -> None:
        """Remove the leftovers of killed processes. This runs after the recovery, which reports them."""
        if not any((self.settings.home / name).is_dir() for name in _LEFT_IN):
            return

        try:
            await asyncio.to_thread(clear_up, self.settings.home)
        except RuntimeError as refused:
            # No session waits for this. If the system cannot start a thread, the next run cleans up.
            if to_exhausted(refused) is None:
                raise

    async def reload(self, session: Session) -> Session:
        """Open a session again after another process continued it. Its mode and rules in this process
        stay."""
        self.store.forget(session.id)
        await self._assembly.close_observers(session)
        opened = await self.resume(session.id)
        if opened.state.execution_mode != session.state.execution_mode:
            opened.change_mode(session.state.execution_mode)
        for rule in session.settings.allow:
            if rule not in opened.settings.allow:
                opened.rules.allow_always(rule)
        opened.notices = tuple(notice for notice in opened.notices if notice not in self.settings.notices)
        return opened

    async def reopen(self, session: Session, **changes: Any) -> Session:
        """Open a session again with changed settings. `Session.note` has to record the change in its history.

        If it raises `SandburError`, the session continues unchanged.
        """
        if session.settings.is_workflow and "model" in changes:
            raise UsageError("A workflow has no model of its own.", "Change the model of one of its agents.")
        settings = session.settings.model_copy(update=changes)
        definition, notices = self._definition_of(settings)
        new_state = ApplicationState(execution_mode=session.state.execution_mode)
        with self.store.reload(session.id):
            opened = await self._assembly.session(session.id, settings, new_state, definition)
        await self._assembly.close_observers(session)
        opened.take_unrecorded_changes(session)
        opened.notices = tuple(notices)
        return opened

    async def fork(
        self, session_id: str, at: int | None = None, changes: Mapping[str, Any] | None = None
    ) -> str:
        """Create a session that continues another one after step `at`; return its id.

        `changes` are valid fields of the state that the new session starts with.
        """
        from ..history.time_travel.branches import branch

        return await branch(self.store, session_id, at, changes)

    async def leave_messages(
        self, session_id: str, kind: InboxKind, *texts: str
    ) -> tuple[WaitingMessage, ...]:
        """Store messages, in one transaction, for a session that is not open in this process. The process
        that runs it reads them.

        Raises `UsageError` for an empty message and for a command.
        """
        masker = self._assembly.masker_of(self.store.open_settings(session_id).settings)
        return await leave_messages(self.store.inbox(session_id), masker, kind, *texts)

    def require_readable(self, session_id: str, content: UserContent) -> None:
        """Raise `UsageError` if the model of a stored session cannot take a file of a message."""
        stored = self.store.open_settings(session_id).settings
        session = settings_of_resumed(stored, self.settings, self._find_changes(stored))
        definition, _ = self._definition_of(session)
        require_readable(self._assembly.model_of(session, definition, needs_model=True), content)

    def _find_changes(self, stored: SessionSettings) -> Overrides:
        """Return what changes a stored session: the flags, and what an agent sets that a flag gives to a
        session of another one. A session of the same agent, or of a sub-agent, keeps its mode, model and
        rules.
        """
        if stored.keeps_settings:
            return {}
        given, is_root = self._definition, stored.spawned_by is None
        is_other = given is not None and given.source != stored.agent
        is_new = is_root and is_other and bool(self.flags.get("agent"))
        return self.overrides if is_new else self.flags

    def _definition_of(self, session: SessionSettings) -> tuple[Definition, list[str]]:
        """Return the agent definition of a stored session, and a notice if it cannot be loaded."""
        given, notices = self.find_definition(session)
        return self._with_person(given), notices

    def find_definition(self, session: SessionSettings) -> tuple[Definition, list[str]]:
        """Return the definition of a stored session's agent, and notices.

        A sub-agent has its own definition, which is found from that of the agent that started it. Raises
        `UsageError` if the agent of this process starts no such sub-agent.
        """
        given = self._definition
        if given is not None and (
            given.source == session.agent or self.overrides.get("agent") or not self._loads
        ):
            return _find_own(given, session).of_session(session)
        named = session if session.agent else self._find_root(session)
        if not named.agent:
            return PLAIN, []
        from ..sdk.loading import load_known_agent

        found, notices = load_known_agent(named, self.env)
        return _find_own(found, session), notices

    def _find_root(self, session: SessionSettings) -> SessionSettings:
        """Return the settings of the session that a person began, from those of its sub-agent."""
        seen: set[str] = set()
        while (by := session.spawned_by) is not None and by.session_id not in seen:
            seen.add(by.session_id)
            if not self.store.index.exists(by.session_id):
                break
            session = self.store.open_settings(by.session_id).settings
        return session

    def _with_person(self, definition: Definition) -> Definition:
        return definition if self.user_input is None else replace(definition, user_input=self.user_input)


def _find_own(definition: Definition, session: SessionSettings) -> Definition:
    """Return the definition of a session from that of its agent, or of an agent above it."""
    if session.spawned_by is None:
        return definition
    found = find_descendant(definition, session.spawned_by.agents)
    if found is None and definition.source and definition.source == session.agent:
        found = definition
    if found is None:
        name = session.spawned_by.agents[-1]
        raise UsageError(
            f"The session belongs to the sub-agent {name}, which this agent does not start.",
            f"Open it with the agent that started it, or with the agent {name} itself.",
        )
    return found


def _describe_parent(session: SessionSettings) -> list[str]:
    """Return a sentence about whose sub-agent a session is, or no sentence."""
    if (by := session.spawned_by) is None:
        return []
    name, what = "/".join(by.agents), " ".join(by.description.split())[:80]
    whose = f"This is the sub-agent {name} of session {by.session_id}{what and f': {what}'}."
    return [f"{whose} /back in a chat, or sandbur -r {by.session_id}, goes to that session."]


def _keep_definition(definition: Definition, masker: SecretMasker, of_command: bool) -> dict[str, Any]:
    """Return the data about its agent that a new session stores.

    Raises `ConfigError` if a variable of an agent file holds a secret, because a session stores its
    variables.
    """
    kept: dict[str, Any] = {
        "agent": definition.source,
        "has_shipped_tools": definition.has_builtin_tools,
        "has_planning": definition.has_planning,
        # Only these sessions may start agents like themselves, which work on steps side by side.
        "orders_steps": of_command and definition.has_builtin_tools and definition.has_planning,
        "output_schema": definition.output and definition.output.output_schema,
        "done_tool": definition.done_tool,
    }
    if definition.file is None:
        return kept
    for name, value in definition.variables.items():
        if masker.text(value) != value:
            raise ConfigError(
                f"{definition.source}: the variable {name} holds a secret, which a session would store.",
                "Write ${NAME} in the request that needs it, and set the environment variable NAME.",
            )
    text = masker.text(definition.file.text)
    return kept | {"agent_file": definition.file.model_copy(update={"text": text})}


def _name_lost_files(state: ApplicationState) -> list[str]:
    """Return a sentence for each picture or document whose bytes the store has lost."""
    files = (file for message in state.active_history for file in message.files)
    labels = dict.fromkeys(file.label for file in files if file.read() is None)
    return [
        f"The store has lost the bytes of {label}: the model gets this line in its place. Attach it again if"
        " it is still needed."
        for label in labels
    ]


def _require_folder(session: SessionSettings) -> None:
    if not Path(session.cwd).is_dir():
        raise UsageError(
            f"The folder of this session, {session.cwd}, is gone.", "Name another one with -C DIR."
        )
