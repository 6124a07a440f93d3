"""Binds the ports of a session to their implementations."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from actions.decisions import DECISION_TOOLS
from actions.model_port import Model, ToolSpec
from actions.ports import Journal, Masker, Ports, Tool, Trace, Verdict
from actions.tools import TOOL_NAMES, builtin_tools
from agent.config import Settings
from agent.models.fallback import FallbackModel
from agent.policy import Policy
from agent.pricing import PriceOf, price_of
from agent.rules import parse_rules
from state.application import ExecutionMode
from state.session import SessionSettings
from state.usage import Usage


class SessionGate:
    """The policy of a session; replaced when the person adds a rule while it runs."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def judge(self, tool: Tool, arguments: Any, mode: ExecutionMode) -> Verdict:
        return self.policy.judge(tool, arguments, mode)


def policy_of(session: SessionSettings) -> Policy:
    """Return the policy of a session; raises `UsageError` for a rule that cannot be read."""
    return Policy(
        parse_rules(session.allow, TOOL_NAMES),
        parse_rules(session.deny, TOOL_NAMES),
        Path(session.cwd),
        [Path(folder) for folder in session.add_dirs],
    )


class Places(NamedTuple):
    """Where the calls of a session keep what outlives a crash."""

    scratch: Path
    cache: Path
    home: Path


def places_of(home: Path, session_id: str) -> Places:
    return Places(home / "scratch" / _file_name(session_id), home / "snapshots", home)


def _file_name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def bind_ports(
    settings: Settings,
    session: SessionSettings,
    gate: SessionGate,
    model: Model,
    journal: Journal,
    trace: Trace,
    masker: Masker,
    places: Places,
) -> Ports:
    toolbox = builtin_tools()
    specs: tuple[ToolSpec, ...] = (*(tool.spec for tool in toolbox.values()), *DECISION_TOOLS)
    fixed = fixed_part(session.system_prompt, specs)
    cwd = Path(session.cwd)
    return Ports(
        model=model,
        system=session.system_prompt,
        toolbox=toolbox,
        tool_specs=specs,
        gate=gate,
        journal=journal,
        trace=trace,
        masker=masker,
        cwd=cwd,
        roots=(cwd, *(Path(folder) for folder in session.add_dirs)),
        scratch=places.scratch,
        cache=places.cache,
        private=(places.home,),
        fixed_bytes=len(fixed),
        fixed_sha256=sha256_of(fixed),
        compress_at=settings.compress_at,
    )


def fixed_part(system_prompt: str, specs: Sequence[ToolSpec]) -> bytes:
    """Return what every request of a session begins with."""
    described = json.dumps([[spec.name, spec.description, dict(spec.parameters)] for spec in specs])
    return system_prompt.encode() + described.encode()


def sha256_of(fixed: bytes) -> str:
    return hashlib.sha256(fixed).hexdigest()


def connect_models(settings: Settings, session: SessionSettings, env: Mapping[str, str]) -> Model:
    """Return the session's model with its stand-ins; raises `UsageError` or `CredentialsError`."""
    models = [
        _connect(name, settings, env) for name in dict.fromkeys((session.model, *session.fallback_models))
    ]
    return models[0] if len(models) == 1 else FallbackModel(models)


def _connect(name: str, settings: Settings, env: Mapping[str, str]) -> Model:
    if name == "demo":
        from agent.models.demo import DemoModel

        return DemoModel()
    from agent.models.connect import connect

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
