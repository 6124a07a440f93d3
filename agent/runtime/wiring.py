"""Binds the ports of a session to their implementations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...actions.ports import (
    CallPlaces,
    CallSettings,
    CallsTools,
    Gate,
    KnowsAllowRules,
    Model,
    Ports,
    RequestSettings,
    SubAgents,
    TokenCounter,
    Tool,
    Toolbox,
    ToolListing,
    ToolListings,
    ToolSpec,
    TurnRules,
    UserInput,
    Verdict,
    WrapToolCall,
    implements,
)
from ...actions.tools.registry import FindsService, usual_network_tools
from ...actions.turn.calls.approval_fingerprint import take_fingerprint
from ...actions.turn.calls.tool_results import session_temp
from ...actions.turn.output.format import OutputFormat, output_format
from ...actions.turn.plan.decision_tools import final_answer, list_decision_tools
from ...actions.turn.plan.hints import find_notebook_tool
from ...state.application import ExecutionMode, PlanTerms
from ...state.calls import ApprovalFingerprint, PendingCall
from ...state.conversation.messages import NO_EQUIPMENT, encodable
from ...state.errors import UsageError
from ...state.session import (
    USUAL_COMPACTION,
    CompactionRules,
    Effort,
    SandboxWish,
    SessionSettings,
    ToolChoice,
)
from ...state.trace import Conditions
from ..config.load import store_files
from ..config.machine_policy import MACHINE_FOLDER, NO_POLICY, MachinePolicy
from ..config.paths import config_home, user_home
from ..config.settings import CONFINING, Counting, Overrides, Settings
from ..extensions.active_tools.tool_listing import Offers
from ..extensions.extension import load
from ..extensions.registry import list_shipped_models
from ..models.fallback import FallbackModel, find_counter
from .agent_definition import Definition

if TYPE_CHECKING:
    from ...actions.tools.shell.sandbox.sandbox import Sandbox
    from ...actions.tools.web.search_services import SearchService
    from ..models.transport.clients import Clients
    from ..policy.gate import Policy

_DIGEST_CHARS = 12
"""The length of a tool digest in records."""

_REPLACED = ("fallback_models", "effort", "cwd", "add_dirs", "allow_net")
"""Settings of a session that a flag of a later run replaces."""
_ADDED = ("allow", "deny", "ask")
"""Settings of a session that a flag of a later run extends."""
_AT_FIRST = ("catastrophic", "mode", "max_result_tokens", "sandbox", "strict_tools")
"""Settings that are fixed when a session begins, or that only commands of the session change."""
_CHOICES = {
    "only": "tools",
    "never": "disallowed_tools",
    "groups": "groups",
    "available_groups": "available_groups",
    "group_descriptions": "group_descriptions",
    "most_listed": "max_listed_tools",
}
"""The field of a session's tool choice -> the key of the setting."""


class SessionGate:
    """The gate of a session. It is replaced when the person adds a rule during the session."""

    def __init__(self, gate_of: Callable[[SessionSettings], Gate], settings: SessionSettings) -> None:
        """Create the policy now if it has rules, so that an invalid rule is reported; otherwise at the first
        call."""
        self._first = partial(gate_of, settings)
        self._policy = self._first() if settings.allow or settings.deny or settings.ask else None

    def change(self, policy: Gate) -> None:
        self._policy = policy

    def judge(
        self,
        tool: Tool,
        arguments: Any,
        mode: ExecutionMode,
        paths: Sequence[str] | None = None,
        plan: PlanTerms | None = None,
    ) -> Verdict:
        if self._policy is None:
            self._policy = self._first()
        return self._policy.judge(tool, arguments, mode, paths, plan)

    def is_allowed_by_rule(self, tool: Tool, arguments: Any) -> bool:
        return implements(self._policy, KnowsAllowRules) and self._policy.is_allowed_by_rule(tool, arguments)


class DiskWitness:
    """Takes the fingerprint of a call from the files on the disk: when the call asks for approval, and again
    when it starts. Implements `Fingerprinter`."""

    def fingerprint(self, call: PendingCall, tool: Tool, arguments: Any, cwd: Path) -> ApprovalFingerprint:
        return take_fingerprint(call, tool, arguments, cwd)


def settings_of_session(settings: Settings, model: str, system_prompt: str = "") -> SessionSettings:
    """Return the settings that a new session stores; raises `UsageError`."""
    return SessionSettings(
        model=model,
        network_tools=usual_network_tools(settings.search_provider is not None) if settings.web_tools else (),
        tool_choice=_first_choice(settings),
        system_prompt=system_prompt,
        variables=_parse_variables(settings.of("variables") or ()),
        **_values(settings, (*_REPLACED, *_ADDED, *_AT_FIRST)),
    )


def settings_of_resumed(stored: SessionSettings, settings: Settings, overrides: Overrides) -> SessionSettings:
    """Return the stored settings, changed by the flags of this run; raises `UsageError`."""
    chosen = _choices(settings, (name for name, key in _CHOICES.items() if overrides.get(key)))
    changes: dict[str, Any] = {
        **_values(settings, (key for key in ("model", *_REPLACED) if overrides.get(key))),
        **{key: (*getattr(stored, key), *overrides.get(key, ())) for key in _ADDED},
        "agent": overrides.get("agent"),
        # Without a flag the stricter of the two values counts.
        "sandbox": ("required" if settings.machine.sandbox_file else overrides.get("sandbox"))
        or max(stored.sandbox, settings.sandbox, key=CONFINING.index),
        "variables": {**stored.variables, **_parse_variables(overrides.get("variables", ()))},
        "tool_choice": stored.tool_choice.model_copy(update=chosen),
        "max_budget_usd": overrides.get("max_budget_usd") if stored.max_budget_usd is not None else None,
    }
    if stored.is_workflow:
        # The model of a flag is for agents of the workflow that name none.
        changes |= {"model": "", "agents_model": overrides.get("model")}
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


def _first_choice(settings: Settings) -> ToolChoice:
    """Return the tools that a new session offers."""
    found = _choices(settings, _CHOICES)
    known = {*found["groups"], *found["available_groups"]}
    texts = {name: text for name, text in found["group_descriptions"].items() if name in known}
    can_reset = bool(found["available_groups"])
    return ToolChoice.model_validate({**found, "group_descriptions": texts, "can_reset": can_reset})


def _choices(settings: Settings, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(settings, _CHOICES[name]) for name in names}


def _parse_variables(variables: Sequence[str]) -> dict[str, str]:
    """Return the values of `NAME=VALUE` by name."""
    return {name: value for name, _, value in (one.partition("=") for one in variables)}


def own_folders(settings: Settings, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of Sandbur itself, to which no call writes without approval."""
    return (settings.home, config_home(env), Path(MACHINE_FOLDER), *settings.machine.files)


def policy_of(
    session: SessionSettings,
    own: Sequence[Path] = (),
    is_confined: bool = False,
    machine: MachinePolicy = NO_POLICY,
) -> Policy:
    """Return the policy of a session; raises `UsageError` for an invalid rule.

    `own` are the folders of `own_folders`. If `is_confined` is true, commands run in a sandbox without
    network access.
    """
    from ..policy.gate import Policy

    return Policy.of_session(session, machine, own=own, is_confined=is_confined)


def gates_of(
    settings: Settings, env: Mapping[str, str], sandbox: Sandbox | None
) -> Callable[[SessionSettings], Policy]:
    """Return the function that makes the gate of a session. Runs, `policy check` and `policy test` share it.

    `sandbox` is the sandbox for the session's commands, or None.
    """
    is_confined = sandbox is not None and not sandbox.has_network
    own = own_folders(settings, env)
    return partial(policy_of, own=own, is_confined=is_confined, machine=settings.machine)


class Places(NamedTuple):
    """The folders for data of a session's calls that has to survive a crash."""

    scratch: Path
    cache: Path
    home: Path


def places_of(home: Path, session_id: str) -> Places:
    name = hashlib.sha256(session_id.encode()).hexdigest()[:24]
    return Places(home / "scratch" / name, home / "snapshots", home)


def choose_sandbox(session: SessionSettings, settings: Settings) -> SandboxWish:
    """Return which sandbox a session needs: its own wish, unless the machine's policy requires one."""
    return "required" if settings.machine.sandbox_file else session.sandbox


def sandbox_of(
    session: SessionSettings, settings: Settings, env: Mapping[str, str], session_id: str = ""
) -> tuple[Sandbox | None, str]:
    """Return the sandbox for a session's commands, or None, and a notice about it.

    Without a `session_id` it keeps no files. Raises `SandboxMissing` if a sandbox is required, but
    none works on this machine.
    """
    wish = choose_sandbox(session, settings)
    if wish == "off":
        notice = "--allow-net has no effect without a sandbox." if session.allow_net else ""
        return None, notice
    from ...actions.tools.shell.sandbox.sandbox import Workplace, open_sandbox

    temp = session_temp(places_of(settings.home, session_id).scratch) if session_id else None
    place = Workplace(
        roots=(Path(session.cwd), *map(Path, session.add_dirs)),
        home=user_home(env),
        private=(settings.home, *store_files(settings.store)),
        own_settings=(config_home(env), *settings.machine.files),
        temp=temp,
    )
    sandbox, problem = open_sandbox(wish, place, session.allow_net)
    return sandbox, problem if sandbox is None else f"Commands run in a sandbox: {sandbox.status}."


def gates_of_run(
    session: SessionSettings, settings: Settings, env: Mapping[str, str]
) -> tuple[Callable[[SessionSettings], Policy], str]:
    """Return the function that makes the gate of a run, and a notice about its sandbox.

    Raises `SandboxMissing` if a run would.
    """
    sandbox, notice = sandbox_of(session, settings, env)
    if sandbox is not None:
        sandbox.close()
    return gates_of(settings, env, sandbox), notice


def offers_of(
    toolbox: Toolbox, session: SessionSettings, output: OutputFormat | None = None
) -> tuple[ToolListing, ToolListings | None]:
    """Return the tool declarations of the first request, and those that can be added later.

    A session with an output type always has a tool for it, so that all models get the same tools.
    """
    steering = list_decision_tools(session.orders_steps) if session.has_planning else ()
    toolbox = {name: tool for name, tool in toolbox.items() if not tool.traits.is_of_flow}
    callers = [tool for tool in toolbox.values() if implements(tool, CallsTools)]
    hidden = {name for caller in callers for name in caller.list_hidden()}
    if hidden:
        toolbox = {name: tool for name, tool in toolbox.items() if name not in hidden}
    if output is not None:
        steering = (*steering, final_answer(output.request_schema, session.has_planning))
    if not any(tool.traits.groups or tool.traits.equips for tool in toolbox.values()):
        return ToolListing.build(
            session.system_prompt, (*(tool.spec for tool in toolbox.values()), *steering)
        ), None

    offers = Offers(toolbox, session.tool_choice, session.system_prompt, steering)
    return offers.of(NO_EQUIPMENT), offers


def output_of(session: SessionSettings, own: OutputFormat | None = None) -> OutputFormat | None:
    """Return the output type of a session. It is its agent's type `own` if that has not changed since it
    began."""
    stored = session.output_schema
    if stored is None:
        return None
    if own is not None and own.output_schema == stored:
        return own

    return output_format(stored)


def search_of(settings: Settings, env: Mapping[str, str]) -> FindsService | None:
    """Return a function that connects to the search service of the settings on first use."""
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
    compaction: CompactionRules = USUAL_COMPACTION,
    summary_model: Model | None = None,
) -> RequestSettings:
    """Return the settings that all requests of a session share. `output` is the type of its answers."""
    first, offers = offers_of(toolbox, session, output)
    return RequestSettings(
        session.system_prompt, first, compress_at, offers, token_counter, masks_replies, session.strict_tools,
        compaction, summary_model,
    )  # fmt: skip


def call_places(session: SessionSettings, places: Places | None) -> CallPlaces:
    """Return the folders of a session's calls; `places` is None if calls keep no files."""
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
    user_input: UserInput | None = None,
    sub_agents: SubAgents | None = None,
) -> CallSettings:
    """Return the settings for a session's calls. `withheld` are the environment variables that no command
    sees."""
    status = "off" if sandbox is None else sandbox.status
    return CallSettings(
        status, withheld, session.variables, session.max_result_tokens, wrap=wrap, user_input=user_input,
        sub_agents=sub_agents,
    )  # fmt: skip


def turn_rules(session: SessionSettings, output: OutputFormat | None) -> TurnRules:
    return TurnRules(output, session.done_tool, session.has_planning, is_workflow=session.is_workflow)


def conditions_of(settings: SessionSettings, ports: Ports) -> Conditions:
    """Return the rules and limits of a run for its trace, because a later replay needs exactly these."""
    terms = ports.inputs.plan_terms
    return Conditions(
        allow=settings.allow,
        deny=settings.deny,
        ask=settings.ask,
        catastrophic=settings.catastrophic,
        cwd=settings.cwd,
        add_dirs=settings.add_dirs,
        context_window=ports.model.context_window,
        compress_at=ports.requests.compress_at,
        compaction=ports.requests.compaction,
        counts_tokens=ports.requests.token_counter is not None,
        tool_choice=settings.tool_choice,
        ephemeral={name: most for name, tool in ports.toolbox.items() if (most := tool.traits.ephemeral)},
        tools={spec.name: tool_digest(spec) for spec in ports.requests.first_offer.specs},
        flow_tools=tuple(name for name, tool in ports.toolbox.items() if tool.traits.is_of_flow),
        notebook=find_notebook_tool(ports.toolbox),
        plan_digest="" if terms is None else terms.digest,
        plan_rules=() if terms is None else terms.rules,
        versions={spec.name: spec.version for spec in ports.requests.first_offer.specs if spec.version},
    )


def tool_digest(spec: ToolSpec) -> str:
    """Return a short digest of a tool's declaration."""
    version = [spec.version] if spec.version else []
    described = json.dumps([spec.name, spec.description, dict(spec.parameters), *version])
    return hashlib.sha256(described.encode()).hexdigest()[:_DIGEST_CHARS]


def compaction_of(settings: Settings) -> CompactionRules:
    """Return the rules for the compression of older messages, from the settings of this process."""
    return CompactionRules(
        kind=settings.compaction,
        prompt=settings.compaction_prompt or "",
        keep_messages=settings.compaction_keep or 0,
    )


def counter_of(definition: Definition, model: Model, counting: Counting = "estimate") -> TokenCounter | None:
    """Return the token counter for requests, or None. Only the first model counts, not its fallbacks.

    `counting` is the setting: the provider is asked only if its value is `provider`.
    """
    if definition.token_counter is not None:
        return definition.token_counter
    if implements(model, TokenCounter):
        return model
    return find_counter(model) if counting == "provider" else None


def connect_models(
    settings: Settings,
    session: SessionSettings,
    env: Mapping[str, str],
    clients: Callable[[], Clients] | None = None,
) -> Model:
    """Return the session's model with its fallbacks; raises `UsageError` or `CredentialsError`."""
    models = [
        _connect(name, settings, env, session.effort, clients)
        for name in dict.fromkeys((session.model, *session.fallback_models))
    ]
    if len(models) == 1:
        return models[0]
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
    from ..models.configured_models import connect_configured

    return connect_configured(name, settings, env, effort, None if clients is None else clients())
