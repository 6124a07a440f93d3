"""The flags of the commands that check and configure this installation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ....state.errors import UsageError
from ...cli.argument_types import amount, one_of
from ...cli.grammar import Action, Command, flag, switch, word

_ONLINE_S = 15.0


class ConfigCommand(Command):
    HOME = "config.configure"
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "list": Action("", "every setting with its value here and its source", ("--json",)),
        "get": Action("KEY", "one setting", ("--json",), (("sandbur config get model", ""),)),
        "set": Action("KEY VALUE", "set a value, written as in its SANDBUR_* variable", ("--project",),
                      (
            ("sandbur config set model anthropic/claude-sonnet-5-5", ""),
            ("sandbur config set aliases.fast ollama/qwen3:8b", "one entry of a table"),
            ("sandbur config set --project max_budget_usd 2", "for this project"),
        )),
        "unset": Action("KEY", "remove a setting", ("--project",)),
        "path": Action("", "the configuration files, and which of them are ignored"),
        "schema": Action("", "the JSON schema of agent files, for an editor"),
    }  # fmt: skip
    action: str = word(
        "|".join(ACTIONS), "list or get settings, set or unset a key, or list the files",
        "list", nargs="?", type=one_of(tuple(ACTIONS)),
    )  # fmt: skip
    key: str = word("KEY", "get, set, unset: such as model, or aliases.NAME", nargs="?")
    value: str | None = word("VALUE", "set: as in its SANDBUR_* variable", None, nargs="?")
    project: bool = switch("--project", "set, unset: in the configuration of this folder's project")
    json: bool = switch("--json", "list, get: JSON on stdout, one object per line")

    def check(self) -> None:
        needs_key = self.action in ("get", "set", "unset")
        if needs_key and not self.key:
            raise UsageError(
                f"`sandbur config {self.action}` needs a KEY.", "`sandbur config list` lists them."
            )
        if not needs_key and self.key:
            raise UsageError(
                f"`{self.key}` is one word too many.", f"Did you mean: sandbur config get {self.key}"
            )
        if self.action == "set" and self.value is None:
            raise UsageError(f"`sandbur config set {self.key}` needs a VALUE.")
        if self.action != "set" and self.value is not None:
            raise UsageError(f"`{self.value}` is one word too many.", "See `sandbur config --help`.")
        if self.project and self.action not in ("set", "unset"):
            raise UsageError("--project belongs to `sandbur config set` and `sandbur config unset`.")
        if self.json and self.action not in ("list", "get"):
            raise UsageError("--json belongs to `sandbur config list` and `sandbur config get`.")


class DoctorCommand(Command):
    HOME = "doctor.check_installation"
    EXAMPLES = (
        ("sandbur doctor --online", "sends each model a small request, and prints its cost"),
        ("sandbur doctor --full", "checks every session, however many there are"),
        ("sandbur doctor --reindex", "rebuilds damaged indexes of the store"),
        ("sandbur doctor --json", "for a program"),
    )
    online: bool = switch("--online", "send a small request to each configured model")
    timeout_s: float = flag(
        "--timeout",
        "how long to wait for each answer (default 15)",
        _ONLINE_S,
        type=amount,
        metavar="SECONDS",
    )
    full: bool = switch("--full", "check every session, not only those that changed last")
    reindex: bool = switch(
        "--reindex", "rebuild and complete the indexes of the store first; no record is changed"
    )
    json: bool = switch("--json", "JSON on stdout")


class TrustCommand(Command):
    HOME = "trust.change_trust"
    GROUPS = ()
    path: str = word("PATH", "with --remove: a folder or link from the list", nargs="?")
    remove: bool = switch("--remove", "stop trusting PATH; the chat asks again there")

    def check(self) -> None:
        if self.remove and not self.path:
            raise UsageError("`sandbur trust --remove` needs a PATH.", "`sandbur trust` lists them.")
        if self.path and not self.remove:
            raise UsageError(
                "Only the chat can trust a folder, because it shows what the configuration would change.",
                f"To stop trusting it: sandbur trust --remove {self.path}",
            )


class GraphCommand(Command):
    GROUPS = ()
    HOME = "graph.print_graph"
    format: str = flag(
        "--format", "mermaid | dot", "mermaid", type=one_of(("mermaid", "dot")), metavar="FORMAT"
    )
    prove: bool = switch("--prove", "prove that nothing runs without an approval or a rule")

    def check(self) -> None:
        if self.prove and self.format != GraphCommand().format:
            raise UsageError("--format and --prove contradict each other.", "Keep one of them.")
