"""The flags and the actions of `sandbur mcp`."""

from collections.abc import Mapping
from typing import ClassVar

from ....state.errors import UsageError
from ...cli.argument_types import one_of
from ...cli.grammar import Action, ActionCommand, flag, switch, word

KINDS = ("stdio", "http", "sse")


class McpCommand(ActionCommand):
    GROUPS = ("add", "run", "limits", "place")
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "list": Action("", "the tool servers configured here", ("--json",),
                       home="configured_servers.list_servers"),
        "add": Action("NAME -- PROGRAM ... | NAME --url URL", "add a tool server to the configuration",
                      ("--url", "--type", "--env", "--header", "--project"), (
            ("sandbur mcp add time -- uvx mcp-server-time", ""),
            ("sandbur mcp add docs --url https://example.com/mcp", ""),
            ("sandbur mcp add git --project -- uvx mcp-server-git", "in the project's .mcp.json"),
        ), home="configured_servers.add"),
        "remove": Action("NAME", "remove a tool server", ("--project",), home="configured_servers.remove"),
        "test": Action("[NAME]", "start tool servers and list their tools", ("--json",),
                       home="trial.try_servers"),
        "login": Action("NAME", "sign in at a server with OAuth", home="trial.sign_in"),
        "serve": Action("", "be a tool server that starts, watches and resumes runs", ("--allow-decisions",),
                        home="serving.serve"),
    }  # fmt: skip
    TAKES_PROGRAM = True
    action: str = word(
        "|".join(ACTIONS), "list, add, remove or test servers, or be a server", "list", nargs="?",
        type=one_of(tuple(ACTIONS)),
    )  # fmt: skip
    server: str = word("NAME", "add, remove, test: the name of the server", nargs="?")
    url: str = flag("--url", "the address of the server, instead of a program", "", "add", metavar="URL")
    type: str | None = flag("--type", " | ".join(KINDS), None, "add", type=one_of(KINDS), metavar="TYPE")
    env: tuple[str, ...] = flag(
        "--env", "a variable for the server; ${VAR} is replaced at its start; repeatable", (), "add",
        action="append", metavar="NAME=VALUE",
    )  # fmt: skip
    header: tuple[str, ...] = flag(
        "--header", "a header of every request; repeatable", (), "add", action="append",
        metavar="NAME=VALUE",
    )  # fmt: skip
    project: bool = switch("--project", "add, remove: in the .mcp.json of this folder", "add")
    rest: tuple[str, ...] = ()
    """The program and its arguments after `--`."""
    allow_decisions: bool = switch(
        "--allow-decisions", "serve: the other agent may approve, deny and settle calls"
    )
    json: bool = switch("--json", "JSON on stdout, one object per line")

    def check(self) -> None:
        """Check that the action has the name that it needs, and only flags that belong to it."""
        action, command = self.action, f"sandbur mcp {self.action}"
        if action in ("add", "remove", "login") and not self.server:
            raise UsageError(f"`{command}` needs the NAME of a server.", "`sandbur mcp list` lists them.")
        if action in ("list", "serve") and self.server:
            raise UsageError(f"`{self.server}` is one word too many.", "See `sandbur mcp --help`.")
        if action != "add" and (self.url or self.type or self.env or self.header or self.rest):
            raise UsageError("--url, --type, --env, --header and a program belong to `sandbur mcp add NAME`.")
        if action == "add" and bool(self.url) == bool(self.rest):
            raise UsageError(
                f"`{command} {self.server}` needs a program or an address.",
                f"Write: {command} {self.server} -- PROGRAM ARGUMENTS, or --url URL.",
            )
        if self.project and action not in ("add", "remove"):
            raise UsageError("--project belongs to `sandbur mcp add` and `sandbur mcp remove`.")
        if self.allow_decisions and action != "serve":
            raise UsageError("--allow-decisions belongs to `sandbur mcp serve`.")
