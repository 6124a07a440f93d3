"""The flags and the actions of `sandbur serve`."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import ClassVar

from ...agent.config.settings import MODES, Overrides
from ...state.errors import ConfigError, UsageError
from ...state.process.installation import make_install_command
from ...state.store.access_tokens import SCOPES, Scope
from ..cli.argument_types import count, one_of, port
from ..cli.grammar import Action, ActionCommand, flag, word

_TOKEN_FLAGS = ("--scopes", "--tenant", "--expires")
_PORT = 7252
_REQUESTS = 3000
_RUNS = 8
_HOST = re.compile(r"[A-Za-z0-9_.-]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
"""A name or an address, without a scheme, a port and a path."""
_NEEDED = ("starlette", "uvicorn")


class ServeCommand(ActionCommand):
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "start": Action("", "serve sessions until a signal comes",
                        ("--agent", "--host", "--port", "--allow-host", "--model", "--mode", "--runs",
                         "--rate-limit"), (
            ("sandbur serve", "on this machine only; the address with a token is printed"),
            ("sandbur serve --agent support.bot:agent --port 8000", "an agent of yours"),
        ), home="run_server.serve"),
        "add-token": Action("NAME", "make a token, and print it once", _TOKEN_FLAGS, (
            ("sandbur serve add-token ci --scopes read,run --tenant acme", ""),
        ), home="access.token_commands.add_token"),
        "list-tokens": Action("", "list the tokens, without their texts", ("--tenant",),
                              home="access.token_commands.list_tokens"),
        "revoke-token": Action("ID", "revoke a token", (), home="access.token_commands.revoke_token"),
        "list-audit": Action("", "list the newest requests that changed something or were refused",
                             ("--tenant",), home="access.token_commands.list_audit"),
    }  # fmt: skip
    action: str = word(
        "|".join(ACTIONS), "start the server (default), or manage its tokens", "start", nargs="?",
        type=one_of(tuple(ACTIONS)),
    )  # fmt: skip
    what: str = word("NAME|ID", "add-token: the name of the token; revoke-token: its id", nargs="?")
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
    runs: int = flag("--runs", f"start: the most runs at once (default {_RUNS})", _RUNS, type=count,
                     metavar="N")  # fmt: skip
    rate_limit: int = flag(
        "--rate-limit", f"start: requests of a token in a minute (default {_REQUESTS})", _REQUESTS,
        type=count, metavar="N",
    )  # fmt: skip
    scopes: str = flag("--scopes", f"add-token: some of {','.join(SCOPES)} (default read)", "read",
                       metavar="A,B")  # fmt: skip
    tenant: str = flag("--tenant", "add-token, list-tokens, list-audit: the tenant", "",
                       metavar="NAME")  # fmt: skip
    expires: int = flag("--expires", "add-token: valid for so many days (default: until it is revoked)", 0,
                        type=count, metavar="DAYS")  # fmt: skip

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

    def check(self) -> None:
        """Raise `UsageError` for a wrong or missing name, `ConfigError` if packages are missing."""
        missing = [name for name in _NEEDED if find_spec(name) is None] if self.action == "start" else []
        if missing:
            raise ConfigError(
                f"The server needs packages that are not installed: {', '.join(missing)}.",
                f"Install them: {make_install_command('serve')}",
            )
        if wrong := [name for name in self.allow_hosts if not _HOST.fullmatch(name)]:
            raise UsageError(
                f"--allow-host {wrong[0][:80]!r} is not a host name.",
                "Write only the name, such as agents.example.com.",
            )
        needs = self.action in ("add-token", "revoke-token")
        if needs and not self.what.strip():
            raise UsageError(
                f"`sandbur serve {self.action}` needs a {'NAME' if 'add' in self.action else 'ID'}."
            )
        if not needs and self.what:
            raise UsageError(f"`{self.what[:40]}` is one word too many.", "`sandbur serve --help` helps.")
