"""Binds the ports of a session to their implementations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...actions.ports import (
    CallPlaces,
    CallSettings,
    Gate,
    KnowsAllowRules,
    Model,
    Ports,
    RequestSettings,
    TokenCounter,
    Tool,
    Toolbox,
    ToolListing,
    ToolListings,
    ToolSpec,
    TurnRules,
    Verdict,
    WrapToolCall,
)
from ...actions.tools.registry import FindsService, usual_network_tools
from ...actions.turn.calls.approval_fingerprint import take_fingerprint
from ...actions.turn.calls.tool_results import session_temp
from ...actions.turn.decision_tools import DECISION_TOOLS, final_answer
from ...actions.turn.output.format import OutputFormat, output_format
from ...state.application import ExecutionMode, Usage
from ...state.calls import ApprovalFingerprint, PendingCall
from ...state.conversation.messages import NO_EQUIPMENT, encodable
from ...state.errors import UsageError
from ...state.session import Effort, SessionSettings, ToolChoice
from ...state.trace import Conditions
from ..config.load import store_files
from ..config.paths import config_home, user_home
from ..config.settings import CONFINING, Overrides, Settings
from ..extensions.active_tools.tool_listing import Offers
from ..extensions.extension import load
from ..extensions.registry import list_shipped_models
from .agent_definition import Definition

if TYPE_CHECKING:
    from ...actions.tools.shell.sandbox.sandbox import Sandbox
    from ...actions.tools.web.search_services import SearchService
    from ..models.prices.pricing import PriceOf
    from ..models.transport.clients import Clients
    from ..policy.gate import Policy

_DIGEST_CHARS = 12
"""Of what is recorded of a tool."""

_REPLACED = ("fallback_models", "effort", "cwd", "add_dirs", "allow_net")
"""A flag of a later run goes before what a session keeps."""
_ADDED = ("allow", "deny", "ask")
"""What flags of a later run say is added."""
_AT_FIRST = ("catastrophic", "mode", "max_result_tokens", "sandbox")
"""Kept as they are when a session begins, or changed in a way of their own."""
_CHOICES = {
    "only": "tools",
    "never": "disallowed_tools",
    "groups": "groups",
    "available_groups": "available_groups",
    "most_listed": "max_listed_tools",
}
"""What a session keeps of the choice of its tools -> the setting."""


class SessionGate:
    """The policy of a session; replaced when the person adds a rule while it runs."""

    def __init__(self, gate_of: Callable[[SessionSettings], Gate], settings: SessionSettings) -> None:
        """Make the policy of rules now, so that one that cannot be read is told; else with the first call."""
        self._first = partial(gate_of, settings)
        self._policy = self._first() if settings.allow or settings.deny or settings.ask else None

    def change(self, policy: Gate) -> None:
        self._policy = policy

    def judge(
        self, tool: Tool, arguments: Any, mode: ExecutionMode, paths: Sequence[str] | None = None
    ) -> Verdict:
        if self._policy is None:
            self._policy = self._first()
        return self._policy.judge(tool, arguments, mode, paths)

    def is_allowed_by_rule(self, tool: Tool, arguments: Any) -> bool:
        return isinstance(self._policy, KnowsAllowRules) and self._policy.is_allowed_by_rule(tool, arguments)


class DiskWitness:
    """Looks at the disk when a call is asked about, and again when it starts."""

    def fingerprint(self, call: PendingCall, tool: Tool, arguments: Any, cwd: Path) -> ApprovalFingerprint:
        return take_fingerprint(call, tool, arguments, cwd)


def settings_of_session(settings: Settings, model: str, system_prompt: str = "") -> SessionSettings:
    """Return what a new session keeps of the settings; raises `UsageError`."""
    return SessionSettings(
        model=model,
        network_tools=usual_network_tools(settings.search_provider is not None) if settings.web_tools else (),
        tool_choice=ToolChoice.model_validate(_choices(settings, _CHOICES)),
        system_prompt=system_prompt,
        variables=_parse_variables(settings.of("variables") or ()),
        **_values(settings, (*_REPLACED, *_ADDED, *_AT_FIRST)),
    )


def settings_of_resumed(stored: SessionSettings, settings: Settings, overrides: Overrides) -> SessionSettings:
    """Return what a session keeps, with what the flags of this run change; raises `UsageError`."""
    chosen = _choices(settings, (name for name, key in _CHOICES.items() if overrides.get(key)))
    changes: dict[str, Any] = {
        **_values(settings, (key for key in ("model", *_REPLACED) if overrides.get(key))),
        **{key: (*getattr(stored, key), *overrides.get(key, ())) for key in _ADDED},
        "agent": overrides.get("agent"),
        # Without a flag the stricter one counts.
        "sandbox": overrides.get("sandbox") or max(stored.sandbox, settings.sandbox, key=CONFINING.index),
        "variables": {**stored.variables, **_parse_variables(overrides.get("variables", ()))},
        "tool_choice": stored.tool_choice.model_copy(update=chosen),
        "max_budget_usd": overrides.get("max_budget_usd") if stored.max_budget_usd is not None else None,
    }
    return stored.model_copy(update={name: value for name, value in changes.items() if value})


def _values(settings: Settings, keys: Iterable[str]) -> dict[str, Any]:
    return {key: _storable(getattr(settings, key)) for key in keys}


def _storable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_storable, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return _readable(value) if isinstance(value, Path) else value


def _readable(folder: Path) -> str:
    name = str(folder)
    if encodable(name) != name:
        raise UsageError(f"The name of the folder {encodable(name)} is not UTF-8.", "Rename it.")
    return name


def _choices(settings: Settings, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(settings, _CHOICES[name]) for name in names}


def _parse_variables(variables: Sequence[str]) -> dict[str, str]:
    """Return the values of `NAME=VALUE` by name."""
    return {name: value for name, _, value in (one.partition("=") for one in variables)}


def own_folders(settings: Settings, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of Sandbur's own, which no call writes to unasked."""
    return (settings.home, config_home(env))


def policy_of(session: SessionSettings, own: Sequence[Path] = (), is_confined: bool = False) -> Policy:
    """Return the policy of a session; raises `UsageError` for a rule that cannot be read.

    `own`: see `own_folders`. `is_confined`: its commands run in a sandbox without a network.
    """
    from ..policy.gate import Policy
    from ..policy.rules.rules import parse_rules

    return Policy(
        parse_rules(session.allow),
        parse_rules(session.deny),
        Path(session.cwd),
        [Path(folder) for folder in session.add_dirs],
        parse_rules(session.ask),
        own,
        runs_catastrophes=session.catastrophic == "run",
        is_confined=is_confined,
    )


def gates_of(
    settings: Settings, env: Mapping[str, str], sandbox: Sandbox | None
) -> Callable[[SessionSettings], Policy]:
    """Return what makes the gate of a session here: the same for a run, `policy check` and `policy test`.

    `sandbox`: what its commands run in.
    """
    is_confined = sandbox is not None and not sandbox.has_network
    return partial(policy_of, own=own_folders(settings, env), is_confined=is_confined)


class Places(NamedTuple):
    """Where the calls of a session keep what outlives a crash."""

    scratch: Path
    cache: Path
    home: Path


def places_of(home: Path, session_id: str) -> Places:
    name = hashlib.sha256(session_id.encode()).hexdigest()[:24]
    return Places(home / "scratch" / name, home / "snapshots", home)


def sandbox_of(
    session: SessionSettings, settings: Settings, env: Mapping[str, str], session_id: str = ""
) -> tuple[Sandbox | None, str]:
    """Return what confines the commands of a session, if anything does, and what to say about it.

    Without a `session_id` nothing of it outlives it. Raises `SandboxMissing` if one is required and none
    works here.
    """
    if session.sandbox == "off":
        notice = "--allow-net means nothing without a sandbox." if session.allow_net else ""
        return None, notice
    from ...actions.tools.shell.sandbox.sandbox import Workplace, open_sandbox

    temp = session_temp(places_of(settings.home, session_id).scratch) if session_id else None
    place = Workplace(
        roots=(Path(session.cwd), *map(Path, session.add_dirs)),
        home=user_home(env),
        private=(settings.home, *store_files(settings.store)),
        own_settings=(config_home(env),),
        temp=temp,
    )
    sandbox, problem = open_sandbox(session.sandbox, place, session.allow_net)
    return sandbox, problem if sandbox is None else f"Commands run in a sandbox: {sandbox.status}."


def gates_of_run(
    session: SessionSettings, settings: Settings, env: Mapping[str, str]
) -> tuple[Callable[[SessionSettings], Policy], str]:
    """Return what makes the gate that a run here would have, and what to say about its sandbox.

    Raises `SandboxMissing` where a run would.
    """
    sandbox, notice = sandbox_of(session, settings, env)
    if sandbox is not None:
        sandbox.close()
    return gates_of(settings, env, sandbox), notice


def offers_of(
    toolbox: Toolbox, session: SessionSettings, output: OutputFormat | None = None
) -> tuple[ToolListing, ToolListings | None]:
    """Return what a model is told at first of the working and the decision tools, and what it may be later.

    A form of answers has a tool wherever it is, so that all models of a session are told the same.
    """
    steering = DECISION_TOOLS if session.has_planning else ()
    if output is not None:
        steering = (*steering, final_answer(output.request_schema, session.has_planning))
    if not any(tool.traits.groups or tool.traits.equips for tool in toolbox.values()):
        return ToolListing.build(
            session.system_prompt, (*(tool.spec for tool in toolbox.values()), *steering)
        ), None

    offers = Offers(toolbox, session.tool_choice, session.system_prompt, steering)
    return offers.of(NO_EQUIPMENT), offers


def output_of(session: SessionSettings, own: OutputFormat | None = None) -> OutputFormat | None:
    """Return the form of a session's answers: its agent's `own`, if that is still the one it began with."""
    stored = session.output_schema
    if stored is None:
        return None
    if own is not None and own.output_schema == stored:
        return own

    return output_format(stored)


def search_of(settings: Settings, env: Mapping[str, str]) -> FindsService | None:
    """Return what finds the search service of the settings, when it is asked for the first time."""
    provider = settings.search_provider
    if provider is None:
        return None

    def make_search() -> SearchService:
        from ...actions.tools.web.search_services import search_service

        return search_service(provider, settings.search_url, settings.search_key_env, env)

    return make_search


def request_settings(
    session: SessionSettings,
    toolbox: Toolbox,
    compress_at: float,
    output: OutputFormat | None = None,
    token_counter: TokenCounter | None = None,
    masks_replies: bool = True,
) -> RequestSettings:
    """Return what the requests of a session say; `output` is the form of its answers."""
    first, offers = offers_of(toolbox, session, output)
    return RequestSettings(session.system_prompt, first, compress_at, offers, token_counter, masks_replies)


def call_places(session: SessionSettings, places: Places | None) -> CallPlaces:
    """Return the folders of a session's calls; `places` is None where calls leave nothing behind."""
    cwd = Path(session.cwd)
    roots = (cwd, *map(Path, session.add_dirs))
    if places is None:
        return CallPlaces(cwd, roots)
    return CallPlaces(cwd, roots, places.scratch, places.cache, (places.home,))


def call_settings(
    session: SessionSettings,
    sandbox: Sandbox | None = None,
    withheld: frozenset[str] = frozenset(),
    wrap: WrapToolCall | None = None,
) -> CallSettings:
    """Return how the calls of a session run; `withheld` are variables that no command sees."""
    status = "off" if sandbox is None else sandbox.status
    return CallSettings(status, withheld, session.variables, session.max_result_tokens, wrap=wrap)


def turn_rules(session: SessionSettings, output: OutputFormat | None) -> TurnRules:
    return TurnRules(output, session.done_tool, session.has_planning)


def conditions_of(settings: SessionSettings, ports: Ports) -> Conditions:
    """Return what a run is judged by and limited to, for its trace: a later replay needs the very same."""
    return Conditions(
        allow=settings.allow,
        deny=settings.deny,
        ask=settings.ask,
        catastrophic=settings.catastrophic,
        cwd=settings.cwd,
        add_dirs=settings.add_dirs,
        context_window=ports.model.context_window,
        compress_at=ports.requests.compress_at,
        counts_tokens=ports.requests.token_counter is not None,
        tool_choice=settings.tool_choice,
        ephemeral={name: most for name, tool in ports.toolbox.items() if (most := tool.traits.ephemeral)},
        tools={spec.name: tool_digest(spec) for spec in ports.requests.first_offer.specs},
    )


def tool_digest(spec: ToolSpec) -> str:
    """Return a short digest of what a model is told about a tool."""
    described = json.dumps([spec.name, spec.description, dict(spec.parameters)])
    return hashlib.sha256(described.encode()).hexdigest()[:_DIGEST_CHARS]


def counter_of(definition: Definition, model: Model) -> TokenCounter | None:
    """Return what counts the tokens of requests; a model behind a stand-in is not asked."""
    return definition.token_counter or (model if isinstance(model, TokenCounter) else None)


def connect_models(
    settings: Settings,
    session: SessionSettings,
    env: Mapping[str, str],
    clients: Callable[[], Clients] | None = None,
) -> Model:
    """Return the session's model with its stand-ins; raises `UsageError` or `CredentialsError`."""
    models = [
        _connect(name, settings, env, session.effort, clients)
        for name in dict.fromkeys((session.model, *session.fallback_models))
    ]
    if len(models) == 1:
        return models[0]
    from ..models.model import FallbackModel

    return FallbackModel(models)


def _connect(
    name: str,
    settings: Settings,
    env: Mapping[str, str],
    effort: Effort | None,
    clients: Callable[[], Clients] | None,
) -> Model:
    if (home := list_shipped_models().get(name)) is not None:
        return load(home)()
    from ..models.connect import connect

    return connect(
        name,
        env=env,
        providers=settings.providers,
        transport=settings.transport,
        aliases=settings.aliases,
        price=_find_price_when_used(name, settings),
        context_window=settings.context_windows.get(name),
        effort=effort,
        clients=None if clients is None else clients(),
    )


def _find_price_when_used(name: str, settings: Settings) -> PriceOf:
    """Look the price up at the first usage: reading the catalogue takes a while."""

    @cache
    def load_price() -> PriceOf | None:
        from ..models.prices.known_prices import find_price

        return find_price(name, settings.prices, settings.home)

    def price(usage: Usage) -> float | None:
        price_now = load_price()
        return None if price_now is None else price_now(usage)

    return price
