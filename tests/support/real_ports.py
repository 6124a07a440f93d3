"""A scripted model on the ports of a real session: built-in tools, policy, journal, prompts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbur.actions.ports import Model
from sandbur.agent.config.load import load_settings
from sandbur.agent.graph import build_application, build_graph
from sandbur.agent.secrets import masker_for
from sandbur.agent.session.run import Limits
from sandbur.agent.session.session import Session
from sandbur.agent.wiring import SessionGate, bind_ports, places_of, policy_of
from sandbur.state.application import ApplicationState, ExecutionMode
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
    **rules: Any,
) -> Session:
    """Open a session that works in `folder`; `rules` are `allow` and `deny`.

    With a `key` placeholders of secrets can be filled in again.
    """
    settings = SessionSettings(
        model=model.name, cwd=str(folder), mode=mode, system_prompt="You are a test.", **rules
    )
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home"), **(env or {})}
    config = load_settings({}, env)
    gate = SessionGate(policy_of(settings))
    ports = bind_ports(
        settings,
        gate,
        model,
        await store.open_journal(session_id),
        await store.open_trace(session_id),
        masker_for(env, folder, key),
        places_of(config.home, session_id),
        config.compress_at,
    )
    application = await build_application(
        build_graph(ports), session_id, store.persister(), ApplicationState(execution_mode=mode)
    )
    return Session(session_id, application, ports, store, settings, Limits(), policy_of, gate.change)
