"""The settings, one row each: key, kind, default, variable, flag, and how the values of sources merge."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from ..extensions.registry import PACKAGES, list_shipped
from .machine_policy import NO_POLICY, MachinePolicy
from .setting import Declaration, Declared, Flag, Group, Kind, Merge, Setting, declarations_of, insert_rows

if TYPE_CHECKING:
    from pathlib import Path

    from ...state.application import ExecutionMode
    from ...state.databases.database import Durability
    from ...state.session import Effort, SandboxWish
    from ..models.providers import ProviderOverride, TransportName
    from .sources import Price

DEFAULT_MODELS: tuple[tuple[str, str], ...] = (
    ("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5-5"),
    ("OPENAI_API_KEY", "openai/gpt-6.1-sol"),
    ("GEMINI_API_KEY", "gemini/gemini-4-argon"),
    ("OPENROUTER_API_KEY", "openrouter/anthropic/claude-sonnet-5.5"),
    ("DEEPSEEK_API_KEY", "deepseek/deepseek-v4-pro"),
    ("DASHSCOPE_API_KEY", "dashscope/qwen3.8-max"),
)
"""Name of a key variable -> the default model of its provider. The first variable that is set wins."""
MODES = ("interactive", "plan", "auto-edit", "yolo")
SANDBOXES = ("auto", "required", "off")
CONFINING = ("off", "auto", "required")
"""The values of `sandbox`, the strictest last."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
Catastrophic = Literal["ask", "run"]
Resuming = Literal["ask", "go"]
CompactionKind = Literal["summary", "truncate", "off"]
Theme = Literal["dark", "light", "none"]
Editing = Literal["emacs", "vi"]
Counting = Literal["estimate", "provider"]
SearchProvider = Literal["searxng", "brave", "tavily"]


def _row(
    default: Any,
    kind: Kind,
    variable: str = "",
    merge: Merge = "first",
    group: Group = "",
    flag: tuple[str, str, str] | None = None,
    harmless: bool = False,
    about: str = "",
) -> Any:
    """Declare a setting. `flag` is a tuple of the option names, the metavar and the help text."""
    made = None if flag is None else Flag(tuple(flag[0].split()), *flag[1:])
    return Declaration(default, (default, kind, merge, variable, group, made, harmless, about))


_RULE = "tool or tool(glob); repeatable"


class Settings(Declared):
    """The resolved settings of a process."""

    # A row is one line, or its kind, its flag and its description below each other.
    # fmt: off
    model: str | None = _row(None, "line", "SANDBUR_MODEL", group="run",
        flag=("-m --model", "PROVIDER/MODEL", "such as anthropic/..., ollama/..., demo"),
        about="the model, as PROVIDER/MODEL or an alias; by default that of the first key set, then Ollama")
    agent: str | None = _row(None, "line", "SANDBUR_AGENT", group="run",
        flag=("--agent", "MODULE:NAME|FILE", "an agent of yours, such as support.bot:agent or support.yaml"),
        about="an agent of yours that new sessions belong to: MODULE:NAME of a program, or an agent file")
    fallback_models: tuple[str, ...] = _row((), "names", "SANDBUR_FALLBACK_MODEL", group="run",
        flag=("--fallback-model", "A,B", "used if MODEL is down"),
        about="models that are used, in this order, while the first one is down")
    effort: Effort | None = _row(None, "effort", "SANDBUR_EFFORT", group="run",
        flag=("--effort", "LEVEL", "how much the model thinks: " + " | ".join(EFFORTS)),
        about="how much the model thinks; by default as the provider sets it")
    mode: ExecutionMode = _row("interactive", "mode", "SANDBUR_MODE", group="run",
        flag=("--mode", "MODE", " | ".join(MODES)),
        about="which calls run without a question; no file can set `yolo`")
    allow: tuple[str, ...] = _row((), "rules", "SANDBUR_ALLOW", merge="all", group="run",
        flag=("--allow", "RULE", f"never ask: {_RULE}"),
        about="rules for calls that never ask; those of all sources count together")
    ask: tuple[str, ...] = _row((), "rules", "SANDBUR_ASK", merge="all", group="run",
        flag=("--ask", "RULE", f"always ask: {_RULE}"),
        about="rules for calls that always ask; beats `allow`, and is beaten by `deny`")
    deny: tuple[str, ...] = _row((), "rules", "SANDBUR_DENY", merge="all", group="run", harmless=True,
        flag=("--deny", "RULE", f"never run: {_RULE}"),
        about="rules for calls that never run; those of all sources count together")
    catastrophic: Catastrophic = _row("ask", "catastrophic",
        about="whether commands that cannot be undone ask in every mode; only your own file may set `run`")
    add_dirs: tuple[Path, ...] = _row((), "folders", "SANDBUR_ADD_DIR", merge="all", group="run",
        flag=("--add-dir", "DIR", "one more folder to work in; repeatable"),
        about="folders to work in beside the working folder")
    sandbox: SandboxWish = _row("off", "sandbox", "SANDBUR_SANDBOX", group="run",
        flag=("--sandbox", "WISH", "confine shell commands: " + " | ".join(SANDBOXES)),
        about="whether a sandbox confines shell commands; `required` refuses to run without one")
    allow_net: tuple[str, ...] = _row((), "domains", "SANDBUR_ALLOW_NET", group="run",
        flag=("--allow-net", "DOMAIN",
              "what a sandbox may reach, such as pypi.org or *.npmjs.org; no DOMAIN: everything; repeatable"),
        about="domains that a sandbox may reach; `*` is everything")
    tools: tuple[str, ...] = _row((), "names", "SANDBUR_TOOLS", group="run", harmless=True,
        flag=("--tools", "A,B", "only these tools, or groups of tools"),
        about="the only tools, or groups of tools, of a session")
    disallowed_tools: tuple[str, ...] = _row((), "names", "SANDBUR_DISALLOWED_TOOLS", merge="all",
        group="run", harmless=True,
        flag=("--disallowed-tools", "A,B", "never these tools, or groups of tools"),
        about="tools, or groups of tools, that a session does not have")
    groups: tuple[str, ...] = _row((), "names", "SANDBUR_GROUPS",
        about="groups of tools that are active from the beginning")
    available_groups: tuple[str, ...] = _row((), "names", "SANDBUR_AVAILABLE_GROUPS",
        about="groups of tools that the model may make active")
    group_descriptions: Mapping[str, str] = _row({}, "aliases", merge="entries", harmless=True,
        about="the purpose of a group of tools, by its name")
    max_listed_tools: int = _row(40, "count", "SANDBUR_MAX_LISTED_TOOLS", harmless=True,
        about="with more tools than this, not counting built-in ones, the model has to search for them")
    strict_tools: bool = _row(True, "switch", "SANDBUR_STRICT_TOOLS", harmless=True,
        about="whether providers that can do so enforce the schemas of tools in new sessions")
    max_turns: int | None = _row(None, "count", "SANDBUR_MAX_TURNS", group="limits", harmless=True,
        flag=("--max-turns", "N", "stop after N model calls"), about="the most model calls of one run")
    max_budget_usd: float | None = _row(None, "amount", "SANDBUR_MAX_BUDGET_USD", group="limits",
        harmless=True, flag=("--max-budget-usd", "X", "stop when X US dollars are spent"),
        about="the most that one run may cost, in US dollars")
    timeout_s: float | None = _row(None, "seconds", "SANDBUR_TIMEOUT", group="limits", harmless=True,
        flag=("--timeout", "SECONDS", "stop after this time"), about="the time limit of one run, in seconds")
    cwd: Path = _row(None, "folder", group="place", flag=("-C --cd", "DIR", "work in DIR"))
    store: str = _row("", "line", "SANDBUR_STORE", group="place",
        flag=("--store", "URL", "sqlite:///PATH, postgresql://..., mysql://..., memory:"),
        about="the store of the sessions; by default a file in the data folder")
    tenant: str = _row("", "tenant", "SANDBUR_TENANT",
        about="the name of the group of sessions in a shared store")
    compress_at: float = _row(0.8, "share", "SANDBUR_COMPRESS_AT", harmless=True,
        about="the share of the context window at which the history is compressed")
    compaction: CompactionKind = _row("summary", "compaction", "SANDBUR_COMPACTION", harmless=True,
        about="what replaces older messages: a `summary`, nothing (`truncate`), or the run ends (`off`)")
    compaction_model: str | None = _row(None, "line", "SANDBUR_COMPACTION_MODEL",
        about="the model that writes summaries; by default the session's")
    compaction_prompt: str | None = _row(None, "text", "SANDBUR_COMPACTION_PROMPT",
        about="the request for a summary; `{messages}` stands for the older messages")
    compaction_keep: int | None = _row(None, "count", "SANDBUR_COMPACTION_KEEP", harmless=True,
        about="how many of the newest messages stay unchanged; by default a quarter of the window")
    token_counting: Counting = _row("estimate", "counting", "SANDBUR_TOKEN_COUNTING", harmless=True,
        about="who counts the tokens of a request: an `estimate` that learns, or the `provider`")
    max_result_tokens: int = _row(20_000, "tokens", "SANDBUR_MAX_RESULT_TOKENS", harmless=True,
        about="how much of a tool's result a new session puts into its history; the rest can be read back")
    resume: Resuming = _row("ask", "resuming", "SANDBUR_RESUME",
        about="whether the chat goes on with an interrupted run at Enter (`ask`) or at once (`go`)")
    durability: Durability = _row("full", "durability", "SANDBUR_DURABILITY",
        about="`full` survives a power loss, `normal` only a crash")
    web_tools: bool = _row(True, "switch", "SANDBUR_WEB_TOOLS",
        about="whether new sessions have tools that reach out over the network; the gate judges every call")
    search_provider: SearchProvider | None = _row(None, "search", "SANDBUR_SEARCH_PROVIDER",
        about="the service for web searches; without one there is no search")
    search_url: str | None = _row(None, "address", "SANDBUR_SEARCH_URL",
        about="the address of the search service, if not the usual one")
    search_key_env: str | None = _row(None, "line", "SANDBUR_SEARCH_KEY_ENV",
        about="the variable with the key of the search service, if not the usual one")
    prices: Mapping[str, Price] = _row({}, "prices", merge="entries", harmless=True,
        about="your own prices, by PROVIDER/MODEL, in US dollars for a million tokens")
    context_windows: Mapping[str, int] = _row({}, "windows", merge="entries", harmless=True,
        about="context windows in tokens, by PROVIDER/MODEL")
    aliases: Mapping[str, str] = _row({}, "aliases", merge="entries", about="your own names for models")
    providers: Mapping[str, ProviderOverride] = _row({}, "providers", merge="entries",
        about="your own model servers, or other addresses of known providers")
    transport: TransportName = _row("http", "transport", "SANDBUR_TRANSPORT", harmless=True,
        about="how models are called: directly over `http`, or by the SDKs of OpenAI and Anthropic (`sdk`)")
    theme: Theme = _row("dark", "theme", "SANDBUR_THEME", harmless=True,
        about="colours for a `dark` or a `light` terminal; `none`: bold and dim letters alone")
    plain: bool = _row(False, "switch", "SANDBUR_PLAIN", group="run", harmless=True,
        flag=("--plain", "", "words and line ends only, for screen readers: nothing moves on the screen"),
        about="words and line ends only, for screen readers and logs: nothing moves on the screen")
    editing: Editing = _row("emacs", "editing", "SANDBUR_EDITING", harmless=True,
        about="how the input line of the chat is edited: `emacs` or `vi`")
    # fmt: on
    home: Path
    """The data folder. This and the following fields are not settings, but are resolved with them."""
    notices: tuple[str, ...] = ()
    """Sentences about values that were ignored, and why."""
    untrusted_config: Path | None = None
    """A project configuration that was ignored, because its folder is not trusted; None if there is none."""
    untrusted_files: tuple[Path, ...] = ()
    """Files of extensions, such as `.mcp.json`, that were ignored because they are not trusted."""
    of_extensions: Mapping[str, Any] = MappingProxyType({})
    """Key -> value of the settings of extensions. The method `of` reads them."""
    sources: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Key -> the names of the sources that set it, in order of precedence. A key at its default is
    missing."""
    rule_sources: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType({})
    """Pair of `allow`, `ask` or `deny` and a rule -> the names of the sources that contain the rule."""

    machine: MachinePolicy = NO_POLICY
    """The policy of this machine, which no setting lifts."""

    def of(self, key: str) -> Any:
        """Return the value of an extension's setting, or None if the extension is not installed."""
        if key in self.of_extensions:
            return self.of_extensions[key]
        return next((row.default for row in SETTINGS if row.key == key), None)

    def with_value(self, key: str, value: Any) -> Settings:
        """Return a copy with another value for an extension's setting."""
        return self.but(of_extensions={**self.of_extensions, key: value})

    def value_of(self, key: str) -> Any:
        """Return the value of any setting."""
        return vars(self)[key] if key in vars(self) else self.of(key)


SETTINGS = [Setting(name, *one.argument) for name, one in declarations_of(Settings).items() if one.argument]
"""The rows of all settings. `load_extensions` inserts those of installed packages."""
for _extension in list_shipped():
    insert_rows(SETTINGS, _extension.settings)


def load_extensions() -> bool:
    """Load the extensions of installed packages once; return whether this call may have added rows."""
    return PACKAGES.load(SETTINGS)


Overrides = Mapping[str, Any]
"""The values of flags: key -> text or number. A missing key, or the value None, means that the flag is not
set."""


def merge_overrides(own: Overrides, overrides: Overrides) -> Overrides:
    """Merge the settings of an agent with the flags. Flags take precedence; lists and tables are joined."""
    both: dict[str, Any] = {}
    for row in SETTINGS:
        mine, others = own.get(row.key), overrides.get(row.key)
        if mine and row.merge == "all":
            both[row.key] = (*mine, *(others or ()))
        elif mine and row.merge == "entries" and isinstance(mine, Mapping):
            both[row.key] = {**mine, **(others or {})}
    return {**own, **{key: value for key, value in overrides.items() if value not in (None, ())}, **both}
