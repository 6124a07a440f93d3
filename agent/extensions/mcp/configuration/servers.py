"""Tool servers in configuration files: in a `.mcp.json`, and in `[mcp_servers.NAME]` of a `config.toml`."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from .....actions.tools.similar_names import suggest_keys
from .....state.errors import ConfigError, SandburError
from .....state.lazy_dataclass import dataclass
from ....config.paths import decode_text

MOST_SERVERS = 50
SERVER_NAME = r"^[A-Za-z0-9](?:_?[A-Za-z0-9-]){0,31}$"
"""The pattern of server names. Two underscores in a row are not allowed, because they separate server and
tool in `mcp__server__tool`."""
_Text = Annotated[str, StringConstraints(max_length=8192, pattern=r"^[^\x00]*$")]
_Line = Annotated[str, StringConstraints(min_length=1, max_length=8192, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
ServerName = Annotated[str, StringConstraints(pattern=SERVER_NAME)]


class McpServerTable(BaseModel):
    """One server: a program to start, or an address to connect to."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    type: Literal["stdio", "http", "sse"] | None = None
    """The transport. None means `stdio` if there is a command, otherwise `http`."""
    command: _Line | None = None
    args: list[_Text] = Field(default_factory=list, max_length=200)
    env: dict[_Line, _Text] = Field(default_factory=dict, max_length=200)
    """Environment variables for the server, in addition to the few that every server gets."""
    cwd: _Line | None = None
    url: Annotated[_Line, StringConstraints(pattern=r"^(https?://|\$\{)[^\s]+$")] | None = None
    headers: dict[Annotated[_Line, StringConstraints(pattern=r"^[A-Za-z0-9-]+$")], _Line] = Field(
        default_factory=dict, max_length=50
    )
    auth: Literal["oauth"] | None = None
    """`oauth`: a person signs in once, with `sandbur mcp login`. None: the server needs only `headers`."""
    tools: list[_Line] | None = None
    """The names of the tools to offer. None: all tools of the server."""
    startup_timeout_s: _Seconds = 15.0
    timeout_s: _Seconds = 60.0
    """The time limit of one call, in seconds. Each progress message of the server restarts it, up to ten
    times this limit in all."""
    protocol: Literal["auto", "legacy"] = "auto"
    """`legacy` skips a request of the newer protocol that an old server does not answer."""
    fallback: ServerName | None = None
    """The name of the server to use while this one cannot be reached."""
    disabled: bool = False
    required: bool = False
    """If true, no session opens without this server. If false, a server that fails is left out with a
    notice."""
    trust_hints: bool = False
    """Whether to trust the server when it says which tools only read, and which can run
    twice without harm. Only the person's
    own file can set this field."""
    sampling: bool = False
    """Whether the server may call the session's model. Only the person's own file can set this field."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("it needs either `command` or `url`")
        if (self.command is None) != (self.kind != "stdio"):
            raise ValueError(f'a server of `type = "{self.type}"` needs `{_NEEDS[self.kind]}`')
        foreign = [key for key in _OF_OTHERS[self.kind] if key in self.model_fields_set]
        if foreign:
            raise ValueError(f"`{foreign[0]}` cannot be set for a server of type {self.kind}")
        return self

    @property
    def kind(self) -> Literal["stdio", "http", "sse"]:
        return self.type or ("http" if self.command is None else "stdio")


_NEEDS = {"stdio": "command", "http": "url", "sse": "url"}
_OF_OTHERS = {"stdio": ("headers", "auth"), "http": ("args", "env", "cwd"), "sse": ("args", "env", "cwd")}
OWN_ALONE = ("trust_hints", "sampling")
"""The fields that a project cannot set for its servers."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """The configuration of a server, and its origin."""

    name: str
    table: McpServerTable
    source: str
    """The configuration file that declares it."""
    folder: Path
    """The folder where the server runs. A relative `cwd` starts from it."""
    """A relative `cwd` starts here; without one the server runs here."""


def check_tables(
    given: Mapping[str, Any], source: str, error: type[SandburError]
) -> dict[str, McpServerTable]:
    """Return the servers of a `config.toml` or of a program's dict; raises `error` if one does not fit."""
    found: dict[str, McpServerTable] = {}
    for name, entry in given.items():
        where = f"{source}: `mcp_servers.{name[:40]}`"
        if not re.fullmatch(SERVER_NAME, name):
            raise error(f"{where} is not a valid server name.", f"{_NAME_RULE}.")
        unknown = [str(key) for key in entry if key not in _KEYS]
        if unknown:
            hint = suggest_keys(unknown[0], _KEYS)
            raise error(f"{where}: there is no key `{unknown[0][:40]}`.", hint)
        try:
            found[name] = McpServerTable.model_validate(entry)
        except ValidationError as invalid:
            raise error(f"{where} does not fit: {problem_of(invalid)}.", "Correct it.") from None
    return found


_NAME_RULE = "A name has letters, digits, - and single _, 32 at most"
_KEYS = tuple(McpServerTable.model_fields)


def parse_mcp_json(content: bytes, path: Path) -> tuple[dict[str, McpServerTable], list[str]]:
    """Return the usable servers, and a sentence for each part that cannot be used.

    Raises `ConfigError` if the file is not a list of servers.
    """
    servers = _parse_servers(content, path)
    found: dict[str, McpServerTable] = {}
    notices: list[str] = []
    for name, given in servers.items():
        table, problem = _read_entry(name, given, path)
        notices += problem
        if table is not None:
            found[name] = table
    return found, notices


def _parse_servers(content: bytes, path: Path) -> dict[str, Any]:
    try:
        whole = json.loads(decode_text(content.removeprefix(b"\xef\xbb\xbf"), path))
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply.", "Simplify it.") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}.", "Correct that line.") from None
    servers = cast("dict[str, Any]", whole).get("mcpServers") if isinstance(whole, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f"{path} has no object `mcpServers`.", 'Write {"mcpServers": {NAME: {...}}}.')
    listed = cast("dict[str, Any]", servers)
    if len(listed) > MOST_SERVERS:
        raise ConfigError(f"{path} lists {len(listed)} servers; {MOST_SERVERS} is the most.", "Remove some.")
    return listed


def _read_entry(name: str, given: Any, path: Path) -> tuple[McpServerTable | None, list[str]]:
    where = f"{path}: server {name[:40]!r}"
    if not re.fullmatch(SERVER_NAME, name):
        return None, [f"{where} is left out. {_NAME_RULE}."]
    if not isinstance(given, dict):
        return None, [f"{where} is left out: it is not a JSON object."]
    entry = {str(key): value for key, value in cast("dict[Any, Any]", given).items()}
    if entry.get("type") in _ALSO_HTTP:
        entry["type"] = "http"
    own = [key for key in OWN_ALONE if entry.pop(key, False)]
    notices = [f"Ignored `{key}` of {where}: only your own configuration can set it." for key in own]
    unknown = [key for key in entry if key not in McpServerTable.model_fields]
    notices += [f"Ignored `{key[:40]}` of {where}: the key is unknown." for key in unknown]
    try:
        return McpServerTable.model_validate(
            {key: entry[key] for key in entry if key not in unknown}
        ), notices
    except ValidationError as error:
        return None, [*notices, f"{where} is left out: {problem_of(error)}."]


_ALSO_HTTP = ("streamable-http", "streamableHttp", "streamable_http")
"""The names of the `http` transport in other agents."""


def problem_of(error: ValidationError) -> str:
    """Return the first problem as a clause. The clause names the key and does not repeat its value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    key = ".".join(str(part) for part in first["loc"] if part != "[key]")
    message = first["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"`{key}`: {message}" if key else message


_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class MissingVariable(Exception):
    """A `${VAR}` has no default, and the variable is not in the environment."""


def fill_variables(text: str, env: Mapping[str, str]) -> str:
    """Replace `${VAR}` and `${VAR:-default}`; raises `MissingVariable`."""

    def value(found: re.Match[str]) -> str:
        if found[1] in env:
            return env[found[1]]
        if found[2] is None:
            raise MissingVariable(found[1])
        return found[2]

    return _REFERENCE.sub(value, text)


def variables_of(table: McpServerTable) -> list[str]:
    """Return the names of the environment variables whose values the server receives, in order."""
    return list(dict.fromkeys(found[1] for text in _texts(table) for found in _REFERENCE.finditer(text)))


def _texts(table: McpServerTable) -> Iterator[str]:
    yield from (text for text in (table.command, table.url, table.cwd) if text is not None)
    yield from (*table.args, *table.env.values(), *table.headers.values())


_LEAST_SECRET_CHARS = 8
_SCHEME = re.compile(r"^(?:Bearer|Basic|Token)\s+", re.IGNORECASE)


def hidden_values(servers: Mapping[str, McpServer], env: Mapping[str, str]) -> dict[str, str]:
    """Return name -> credential of the servers. Every occurrence of a credential is masked."""
    found: dict[str, str] = {}
    for server in servers.values():
        given = {**server.table.env, **server.table.headers}
        for name, text in given.items():
            try:
                value = _SCHEME.sub("", fill_variables(text, env))
            except MissingVariable:
                continue
            if len(value) >= _LEAST_SECRET_CHARS and _names_secret(name):
                found[re.sub(r"\W", "_", f"{server.name}_{name}").upper()] = value
    return found


def token_path(folder: Path, server: str, url: str) -> Path:
    """Return the file with the tokens for a server at an address. `folder` holds the files of all servers."""
    mark = hashlib.sha256(url.encode()).hexdigest()[:16]
    return folder / "tokens" / f"{server}-{mark}.json"


def read_tokens(servers: Mapping[str, McpServer], env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return name -> token of the sign-ins. Every occurrence of a token is masked."""
    found: dict[str, str] = {}
    for server in servers.values():
        if server.table.auth is None:
            continue
        with suppress(OSError, ValueError, MissingVariable):
            url = fill_variables(server.table.url or "", env)
            stored: Any = json.loads(token_path(folder, server.name, url).read_bytes())
            tokens = cast("dict[str, Any]", stored.get("tokens", {}))
            for kind in ("access_token", "refresh_token"):
                if value := tokens.get(kind):
                    found[re.sub(r"\W", "_", f"{server.name}_{kind}").upper()] = str(value)
    return found


def _names_secret(name: str) -> bool:
    return re.search(r"(?i)key|token|secret|passw|auth|credential|cookie", name) is not None


def describe_server(name: str, table: McpServerTable) -> str:
    """Describe the server in one clause, for a person who is asked to trust it."""
    if table.command is None:
        what = f"tools of the server {name} at {table.url}"
    else:
        what = f"starts the program of the tool server {name}: {' '.join((table.command, *table.args))}"
    names = variables_of(table)
    return f"{what}, with the values of {', '.join(names)}" if names else what
