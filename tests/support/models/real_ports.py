"""A scripted model on the ports of a real session: built-in tools, policy, journal, prompts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbur.actions.ports import EventPort, Masker, Model, Ports, Toolbox
from sandbur.actions.ports.message_router import MessageRouter
from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.config.load import load_settings
from sandbur.agent.extensions.hooks.hook_process import HookPlace
from sandbur.agent.extensions.hooks.hooks import Hooks, HookSession
from sandbur.agent.extensions.hooks.hooks_runtime import HooksReader
from sandbur.agent.extensions.middleware.middleware import Middleware, MiddlewareSession
from sandbur.agent.extensions.middleware.middleware_stack import MiddlewareStack
from sandbur.agent.graph import CALLS_START_NEXT, build_application, build_graph
from sandbur.agent.runtime.wiring import (
    DiskWitness,
    SessionGate,
    call_places,
    call_settings,
    output_of,
    places_of,
    policy_of,
    request_settings,
    turn_rules,
)
from sandbur.agent.session.inbox import SessionInbox
from sandbur.agent.session.observers import Observers
from sandbur.agent.session.position import Position
from sandbur.agent.session.run_limits import Limits
from sandbur.agent.session.secrets import masker_for
from sandbur.agent.session.session import Session
from sandbur.agent.session.waiting_calls import SessionRules
from sandbur.state.application import ApplicationState, ExecutionMode
from sandbur.state.errors import ConfigError
from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store


async def open_real(
    store: Store,
    model: Model,
    folder: Path,
    session_id: str = "s1",
    mode: ExecutionMode = "yolo",
    key: bytes = b"",
    env: Mapping[str, str] | None = None,
    toolbox: Toolbox | None = None,
    middleware: Sequence[Middleware] = (),
    hooks: Mapping[str, Any] | None = None,
    router: MessageRouter | None = None,
    **rules: Any,
) -> Session:
    """Open a session that works in `folder`; `rules` are the lists `allow` and `deny`.

    With a `key`, tools can replace placeholders by the values of secrets.
    """
    settings = SessionSettings(
        model=model.name, cwd=str(folder), mode=mode, system_prompt="You are a test.", **rules
    )
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home"), **(env or {})}
    config = load_settings({}, env)
    gate = SessionGate(policy_of, settings)
    stack = MiddlewareStack(middleware, MiddlewareSession(session_id, model.name, folder))
    await stack.start()
    toolbox, events = builtin_tools() if toolbox is None else toolbox, EventPort()
    masker, places = masker_for(env, folder, key), places_of(config.home, session_id)
    hook = hooks_of(session_id, HookPlace(folder, places.scratch), masker, toolbox, hooks or {})
    observers = Observers(events.notify)
    observers.add(stack if middleware else None, hook)
    application = await build_application(
        build_graph(), session_id, store.persister(CALLS_START_NEXT), ApplicationState(execution_mode=mode)
    )
    position = Position(session_id, application, store)
    inbox = SessionInbox(store.inbox(session_id), position, masker, hook, events.notify)
    output = output_of(settings)
    ports = Ports(
        session_id,
        stack.around_model(model),
        request_settings(settings, toolbox, config.compress_at, output),
        toolbox,
        gate,
        DiskWitness(),
        await store.open_journal(session_id),
        await store.open_trace(session_id),
        masker,
        call_places(settings, places),
        call_settings(settings, wrap=stack.around_tools()),
        events=events,
        turn=turn_rules(settings, output),
        hooks=hook,
        inbox=inbox,
        router=router,
    )
    session = Session(
        position, ports, inbox, SessionRules(settings, policy_of, gate.change), Limits(), observers,
    )  # fmt: skip
    if hook is not None:
        hook.begin_session(session)
    return session


def hooks_of(
    session_id: str, place: HookPlace, masker: Masker, toolbox: Toolbox, table: Mapping[str, Any]
) -> Hooks | None:
    """Return the hooks of a configuration table, or None if it is empty."""
    if not table:
        return None
    commands = HooksReader().check(table, "the test", ConfigError)
    return Hooks(commands, HookSession(session_id, place, masker.text, toolbox))
