"""Binds the ports of a session to their implementations."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..actions.ports import (
    Gate,
    Journal,
    Masker,
    Model,
    Ports,
    Tool,
    Toolbox,
    ToolSpec,
    Trace,
    Verdict,
    Witness,
)
from ..actions.tools.registry import FindsService, builtin_tools, declared, usual_network_tools
from ..actions.turn.binding import DiskWitness
from ..actions.turn.decision_tools import DECISION_TOOLS
from ..state.application import ExecutionMode, Usage
from ..state.errors import UsageError
from ..state.messages import encodable
from ..state.session import SandboxWish, SessionSettings
from .config.load import store_files
from .config.settings import Settings
from .policy.gate import Policy
from .policy.rules import parse_rules
from .pricing import PriceOf, price_of

if TYPE_CHECKING:
    from ..actions.tools.network.search_services import SearchService
    from ..actions.tools.shell.sandbox.sandbox import Sandbox


class SessionGate:
    """The policy of a session; replaced when the person adds a rule while it runs."""

    def __init__(self, policy: Gate) -> None:
        self._policy = policy

    def change(self, policy: Gate) -> None:
        self._policy = policy

    def judge(
        self, tool: Tool, arguments: Any, mode: ExecutionMode, paths: Sequence[str] | None = None
    ) -> Verdict:
        return self._policy.judge(tool, arguments, mode, paths)


def settings_of_session(settings: Settings, model: str, system_prompt: str = "") -> SessionSettings:
    """Return what a new session keeps of the settings; raises `UsageError`."""
    return SessionSettings(
        model=model,
        cwd=readable(settings.cwd),
        add_dirs=tuple(map(readable, settings.add_dirs)),
        fallback_models=settings.fallback_models,
        allow=settings.allow,
        deny=settings.deny,
        ask=settings.ask,
        catastrophic=settings.catastrophic,
        network_tools=usual_network_tools(settings.search_provider is not None) if settings.web_tools else (),
        mode=settings.mode,
        sandbox=settings.sandbox,
        allow_net=settings.allow_net,
        system_prompt=system_prompt,
    )


def readable(folder: Path) -> str:
    """Return the folder's name as text that can be stored; raises `UsageError`."""
    name = str(folder)
    if encodable(name) != name:
        raise UsageError(f"The name of the folder {encodable(name)} is not UTF-8.", "Rename it.")
    return name


def own_folders(settings: Settings, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of Sandbur's own, which no call writes to unasked."""
    from .config.paths import config_home

    return (settings.home, config_home(env))


def policy_of(session: SessionSettings, own: Sequence[Path] = (), is_confined: bool = False) -> Policy:
    """Return the policy of a session; raises `UsageError` for a rule that cannot be read.

    `own`: see `own_folders`. `is_confined`: its commands run in a sandbox without a network.
    """
    known = declared() if session.allow or session.deny or session.ask else ()
    return Policy(
        parse_rules(session.allow, known),
        parse_rules(session.deny, known),
        Path(session.cwd),
        [Path(folder) for folder in session.add_dirs],
        parse_rules(session.ask, known),
        own,
        runs_catastrophes=session.catastrophic == "run",
        is_confined=is_confined,
    )


class Places(NamedTuple):
    """Where the calls of a session keep what outlives a crash."""

    scratch: Path
    cache: Path
    home: Path


def places_of(home: Path, session_id: str) -> Places:
    name = hashlib.sha256(session_id.encode()).hexdigest()[:24]
    return Places(home / "scratch" / name, home / "snapshots", home)


def sandbox_of(
    session: SessionSettings, settings: Settings, env: Mapping[str, str]
) -> "tuple[Sandbox | None, str]":
    """Return what confines the commands of a session, if anything does, and what to say about it.

    Raises `SandboxMissing` if one is required and none works here.
    """
    if session.sandbox == "off":
        said = "--allow-net means nothing without a sandbox." if session.allow_net else ""
        return None, said
    from ..actions.tools.shell.sandbox.sandbox import Workplace, open_sandbox
    from .config.paths import config_home, user_home

    place = Workplace(
        roots=(Path(session.cwd), *map(Path, session.add_dirs)),
        home=user_home(env),
        private=(settings.home, *store_files(settings.store)),
        own_settings=(config_home(env),),
    )
    sandbox, problem = open_sandbox(session.sandbox, place, session.allow_net)
    return sandbox, problem if sandbox is None else f"Commands run in a sandbox: {sandbox.status}."


def stricter(one: SandboxWish, other: SandboxWish) -> SandboxWish:
    both: tuple[SandboxWish, SandboxWish] = (one, other)
    return max(both, key=("off", "auto", "required").index)


def specs_of(toolbox: Toolbox) -> tuple[ToolSpec, ...]:
    """Return what a model is told of the working and the decision tools."""
    return (*(tool.spec for tool in toolbox.values()), *DECISION_TOOLS)


def search_of(settings: Settings, env: Mapping[str, str]) -> FindsService | None:
    """Return what finds the search service of the settings, when it is asked for the first time."""
    provider = settings.search_provider
    if provider is None:
        return None

    def found() -> "SearchService":
        from ..actions.tools.network.search_services import SearchSetup, search_service

        return search_service(SearchSetup(provider, settings.search_url, settings.search_key_env), env)

    return found


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
    withheld: frozenset[str] = frozenset(),
    witness: Witness | None = None,
    sandbox: "Sandbox | None" = None,
) -> Ports:
    """Assemble what the actions of a session work with; `places` is None where calls leave nothing behind."""
    toolbox = builtin_tools(sandbox) if toolbox is None else toolbox
    specs = specs_of(toolbox)
    described = json.dumps([[spec.name, spec.description, dict(spec.parameters)] for spec in specs])
    fixed = session.system_prompt.encode() + described.encode()
    return Ports(
        model=model,
        system=session.system_prompt,
        toolbox=toolbox,
        tool_specs=specs,
        gate=gate,
        witness=DiskWitness() if witness is None else witness,
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
        roots=(Path(session.cwd), *map(Path, session.add_dirs)),
        withheld=withheld,
        sandbox="off" if sandbox is None else sandbox.status,
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
