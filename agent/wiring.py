"""Binds the ports of a session to their implementations."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..actions.ports import Gate, Journal, Masker, Model, Ports, Tool, Toolbox, ToolSpec, Trace, Verdict
from ..actions.tools.registry import builtin_tools, declared
from ..actions.turn.decision_tools import DECISION_TOOLS
from ..state.application import ExecutionMode, Usage
from ..state.errors import UsageError
from ..state.messages import encodable
from ..state.session import SessionSettings
from .config.settings import Settings
from .policy.gate import Policy
from .policy.rules import parse_rules
from .pricing import PriceOf, price_of


class SessionGate:
    """The policy of a session; replaced when the person adds a rule while it runs."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def judge(self, tool: Tool, arguments: Any, mode: ExecutionMode) -> Verdict:
        return self.policy.judge(tool, arguments, mode)


def settings_of_session(settings: Settings, model: str, system_prompt: str = "") -> SessionSettings:
    """Return what a new session keeps of the settings; raises `UsageError`."""
    return SessionSettings(
        model=model,
        cwd=readable(settings.cwd),
        add_dirs=tuple(map(readable, settings.add_dirs)),
        fallback_models=settings.fallback_models,
        allow=settings.allow,
        deny=settings.deny,
        mode=settings.mode,
        system_prompt=system_prompt,
    )


def readable(folder: Path) -> str:
    """Return the folder's name as text that can be stored; raises `UsageError`."""
    name = str(folder)
    if encodable(name) != name:
        raise UsageError(f"The name of the folder {encodable(name)} is not UTF-8.", "Rename it.")
    return name


def policy_of(session: SessionSettings) -> Policy:
    """Return the policy of a session; raises `UsageError` for a rule that cannot be read."""
    return Policy(
        parse_rules(session.allow, declared()),
        parse_rules(session.deny, declared()),
        Path(session.cwd),
        [Path(folder) for folder in session.add_dirs],
    )


class Places(NamedTuple):
    """Where the calls of a session keep what outlives a crash."""

    scratch: Path
    cache: Path
    home: Path


def places_of(home: Path, session_id: str) -> Places:
    name = hashlib.sha256(session_id.encode()).hexdigest()[:24]
    return Places(home / "scratch" / name, home / "snapshots", home)


def specs_of(toolbox: Toolbox) -> tuple[ToolSpec, ...]:
    """Return what a model is told of the working and the decision tools."""
    return (*(tool.spec for tool in toolbox.values()), *DECISION_TOOLS)


def bind_ports(
    session: SessionSettings,
    gate: Gate,
    model: Model,
    journal: Journal,
    trace: Trace,
    masker: Masker,
    places: Places | None,
    compress_at: float,
    toolbox: Toolbox | None = None,
) -> Ports:
    """Assemble what the actions of a session work with; `places` is None where calls leave nothing behind."""
    toolbox = builtin_tools() if toolbox is None else toolbox
    specs = specs_of(toolbox)
    described = json.dumps([[spec.name, spec.description, dict(spec.parameters)] for spec in specs])
    fixed = session.system_prompt.encode() + described.encode()
    return Ports(
        model=model,
        system=session.system_prompt,
        toolbox=toolbox,
        tool_specs=specs,
        gate=gate,
        journal=journal,
        trace=trace,
        masker=masker,
        cwd=Path(session.cwd),
        scratch=places.scratch if places is not None else None,
        cache=places.cache if places is not None else None,
        private=(places.home,) if places is not None else (),
        fixed_bytes=len(fixed),
        fixed_sha256=hashlib.sha256(fixed).hexdigest(),
        compress_at=compress_at,
    )


def connect_models(settings: Settings, session: SessionSettings, env: Mapping[str, str]) -> Model:
    """Return the session's model with its stand-ins; raises `UsageError` or `CredentialsError`."""
    models = [
        _connect(name, settings, env) for name in dict.fromkeys((session.model, *session.fallback_models))
    ]
    if len(models) == 1:
        return models[0]
    from .models.model import FallbackModel

    return FallbackModel(models)


def _connect(name: str, settings: Settings, env: Mapping[str, str]) -> Model:
    if name == "demo":
        from .models.demo.model import DemoModel

        return DemoModel()
    from .models.connect import connect

    return connect(
        name,
        env=env,
        providers=settings.providers,
        price=_priced_when_used(name, settings),
        context_window=settings.context_windows.get(name),
    )


def _priced_when_used(name: str, settings: Settings) -> PriceOf:
    """Look the price up at the first usage: reading the catalogue takes a while."""

    @cache
    def found() -> PriceOf | None:
        return price_of(name, settings.prices)

    def price(usage: Usage) -> float | None:
        price_now = found()
        return None if price_now is None else price_now(usage)

    return price
