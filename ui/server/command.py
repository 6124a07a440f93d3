"""The flags and the actions of `sandbur serve`."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from ...agent.config.settings import MODES, Overrides
from ...state.errors import ConfigError, UsageError
from ...state.process.installation import make_install_command
from ...state.store.access_tokens import SCOPES, Scope
from ..cli.argument_types import amount, count, one_of, path, port, position
from ..cli.grammar import Action, ActionCommand, flag, word

_TOKEN_FLAGS = ("--scopes", "--tenant", "--expires")
_PORT = 7252
_REQUESTS = 3000
_REQUEST_S, _STRANGERS = 20, 100
_RUNS = 8
CLIENT_LANGUAGES = ("python", "typescript")
_WORDS = {"add-token": "NAME", "revoke-token": "ID", "client": "LANGUAGE"}
"""Action -> what it needs."""
_HOST = re.compile(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
"""A name or an address, without a scheme, a port and a path."""
_NEEDED = ("starlette", "uvicorn")


def _worker_count(text: str) -> int | None:
    return None if text == "none" else position(text)


class ServeCommand(ActionCommand):
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "start": Action("", "serve sessions until a signal comes",
                        ("--agent", "--host", "--port", "--allow-host", "--model", "--mode", "--runs",
                         "--workers", "--rate-limit", "--request-timeout",
                         "--connections-per-address", "--public-url", "--oidc", "--oidc-audience",
                         "--oidc-tenant-claim", "--oidc-scopes-claim"), (
            ("sandbur serve", "on this machine only; the address with a token is printed"),
            ("sandbur serve --agent support.bot:agent --port 8000", "an agent of yours"),
            ("sandbur serve --agent support.bot:agent --workers 2", "its sessions run in two processes more"),
        ), home="run_server.serve"),
        "add-token": Action("NAME", "make a token, and print it once", _TOKEN_FLAGS, (
            ("sandbur serve add-token ci --scopes read,run --tenant acme", ""),
        ), home="access.token_commands.add_token"),
        "list-tokens": Action("", "list the tokens, without their texts", ("--tenant",),
                              home="access.token_commands.list_tokens"),
        "revoke-token": Action("ID", "revoke a token", (), home="access.token_commands.revoke_token"),
        "client": Action("LANGUAGE", "print a client of this version: python or typescript", ("--output",), (
            ("sandbur serve client python -o sandbur_client.py", "one file, without packages"),
        ), home="clients.write_client.write_client"),
        "list-audit": Action("", "list the newest requests that changed something or were refused",
                             ("--tenant",), home="access.token_commands.list_audit"),
    }  # fmt: skip
    action: str = word(
        "|".join(ACTIONS), "start the server (default), manage its tokens, or print a client", "start",
        nargs="?", type=one_of(tuple(ACTIONS)),
    )  # fmt: skip
    what: str = word(
        "NAME|ID|LANGUAGE",
        f"add-token: the name of the token; revoke-token: its id; client: {' or '.join(CLIENT_LANGUAGES)}",
        nargs="?",
    )
    agents: list[str] = flag(
        "--agent", "start: an agent of yours; may be repeated, the first one is the default",
        [], action="append", metavar="MODULE:NAME",
    )  # fmt: skip
    model: str = flag("-m --model", "start: the model, if no agent is named", "", metavar="PROVIDER/MODEL")
    mode: str | None = flag(
        "--mode", "start: interactive (default) | plan | auto-edit | yolo, if no agent is named", None,
        type=one_of(MODES), metavar="MODE",
    )  # fmt: skip
    host: str = flag("--host", "start: the address to listen on (default 127.0.0.1)", "127.0.0.1",
                     metavar="ADDRESS")  # fmt: skip
    port: int = flag("--port", f"start: the port; 0: any free port (default {_PORT})", _PORT, type=port,
                     metavar="N")  # fmt: skip
    allow_hosts: list[str] = flag(
        "--allow-host", "start: a name by which others reach the server; may be repeated", [],
        action="append", metavar="NAME",
    )  # fmt: skip
    public_url: str = flag(
        "--public-url", "start: the address of the proxy before the server; its host name is allowed", "",
        metavar="URL",
    )  # fmt: skip
    runs: int = flag("--runs", f"start: runs of a process at once (default {_RUNS})", _RUNS, type=count,
                     metavar="N")  # fmt: skip
    workers: int | None = flag(
        "--workers", "start: processes that run the sessions; 0: the server (default); none: others",
        0, type=_worker_count, metavar="N|none",
    )  # fmt: skip
    rate_limit: int = flag(
        "--rate-limit", f"start: requests of a token in a minute (default {_REQUESTS})", _REQUESTS,
        type=count, metavar="N",
    )  # fmt: skip
    request_timeout: float = flag(
        "--request-timeout", f"start: time for the header or the body of a request (default {_REQUEST_S})",
        _REQUEST_S, type=amount, metavar="SECONDS",
    )  # fmt: skip
    connections_per_address: int = flag(
        "--connections-per-address",
        f"start: connections of an address that sent no valid token (default {_STRANGERS})",
        _STRANGERS, type=count, metavar="N",
    )  # fmt: skip
    oidc: str = flag("--oidc", "start: accept tokens of this OpenID Connect issuer", "", metavar="URL")
    oidc_audience: str = flag("--oidc-audience", "start: the audience that its tokens name", "",
                              metavar="NAME")  # fmt: skip
    oidc_tenant_claim: str = flag(
        "--oidc-tenant-claim", "start: the claim with the tenant (default: all are of one tenant)", "",
        metavar="CLAIM",
    )  # fmt: skip
    oidc_scopes_claim: str = flag(
        "--oidc-scopes-claim", "start: the claim with the scopes (default scope)", "scope", metavar="CLAIM"
    )
    scopes: str = flag("--scopes", f"add-token: some of {','.join(SCOPES)} (default read)", "read",
                       metavar="A,B")  # fmt: skip
    tenant: str = flag("--tenant", "add-token, list-tokens, list-audit: the tenant", "",
                       metavar="NAME")  # fmt: skip
    expires: int = flag("--expires", "add-token: valid for so many days (default: until it is revoked)", 0,
                        type=count, metavar="DAYS")  # fmt: skip

    output: Path | None = flag(
        "-o --output", "client: the file to write (default: print it)", None, type=path, metavar="FILE"
    )

    @property
    def settings(self) -> Overrides:
        given = {name: value for name, value in (("model", self.model), ("mode", self.mode)) if value}
        return {**self.overrides, **given}

    @property
    def chosen_scopes(self) -> tuple[Scope, ...]:
        """The scopes of a new token; raises `UsageError` for an unknown one."""
        given = [one.strip() for one in self.scopes.split(",") if one.strip()]
        if unknown := [one for one in given if one not in SCOPES]:
            raise UsageError(f"{unknown[0][:40]!r} is not a scope.", f"Choose from {', '.join(SCOPES)}.")
        return tuple(scope for scope in SCOPES if scope in given)

    @property
    def expires_at(self) -> datetime | None:
        return datetime.now(UTC) + timedelta(days=self.expires) if self.expires else None

    @property
    def reached_hosts(self) -> list[str]:
        """The names by which others reach the server."""
        return [*self.allow_hosts, *filter(None, [urlsplit(self.public_url).hostname])]

    def check(self) -> None:
        """Raise `UsageError` for a wrong or missing name, `ConfigError` if packages are missing."""
        is_packaged = self.action in ("start", "client")
        missing = [name for name in _NEEDED if find_spec(name) is None] if is_packaged else []
        if missing:
            raise ConfigError(
                f"The server needs packages that are not installed: {', '.join(missing)}.",
                f"Install them: {make_install_command('serve')}",
            )
        if self.action == "start":
            self._check_start()
        needed, help = _WORDS.get(self.action), "See `sandbur serve --help`."
        if needed and not self.what.strip():
            raise UsageError(f"`sandbur serve {self.action}` needs a {needed}.", help)
        if not needed and self.what:
            raise UsageError(f"`{self.what[:40]}` is one word too many.", help)
        if self.action == "client" and self.what not in CLIENT_LANGUAGES:
            raise UsageError(
                f"There is no client for {self.what[:40]!r}.", f"Choose from {', '.join(CLIENT_LANGUAGES)}."
            )

    def _check_start(self) -> None:
        if self.workers != 0 and not self.agents:
            raise UsageError("--workers needs --agent.", "Name one: --agent support.bot:agent")
        if wrong := [name for name in self.allow_hosts if not _HOST.fullmatch(name)]:
            raise UsageError(
                f"--allow-host {wrong[0][:80]!r} is not a host name.",
                "Write only the name, such as agents.example.com.",
            )
        self._check_oidc()
        self._check_public_url()

    def _check_oidc(self) -> None:
        if bool(self.oidc) != bool(self.oidc_audience):
            raise UsageError(
                "--oidc and --oidc-audience belong together.",
                "Tokens that the issuer made for other programs must not count here.",
            )
        if self.oidc and find_spec("jwt") is None:
            raise ConfigError(
                "--oidc needs a package that is not installed: pyjwt.",
                f"Install it: {make_install_command('oidc')}",
            )

    def _check_public_url(self) -> None:
        if not self.public_url:
            return
        try:
            parts = urlsplit(self.public_url)
        except ValueError:
            parts = urlsplit("")
        is_address = parts.scheme in ("http", "https") and parts.hostname and not parts.username
        if not is_address or parts.query or parts.fragment:
            raise UsageError(
                f"--public-url: {self.public_url[:100]!r} is not an address.",
                "Write it like https://agents.example.com",
            )
