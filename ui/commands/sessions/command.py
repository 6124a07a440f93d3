"""The flags and the actions of `sandbur sessions`."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar

from ....state.errors import UsageError
from ...cli.argument_types import count, one_of, position, size
from ...cli.grammar import ID, Action, ActionCommand, flag, switch, word
from ...cli.time_types import duration, end_moment, moment

MOST_LISTED = 50
_FLAGS_OF_ACTIONS = (
    (("limit", "all", "children", "here"), "list", "--limit, --all, --children and --here belong"),
    (("text", "since", "until", "app", "user", "status", "tag"), "list",
     "--text, --since, --until, --app, --user, --status and --tag belong"),
    (("older_than", "keep", "max_size", "dry_run"), "prune",
     "--older-than, --keep, --max-size and --dry-run belong"),
    (("steps",), "show ID", "--steps belongs"),
    (("yes",), "import FILE", "--yes belongs"),
    (("export_format", "as_recorded"), "export ID", "--format and --as-recorded belong"),
)  # fmt: skip
"""Fields of the command, the action that accepts their flags, and the flags as named in an error."""


class SessionsCommand(ActionCommand):
    GROUPS = ("list", "prune", "place")
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "list": Action("", "the sessions of the store, those of this folder first", (
            "--here", "--text", "--since", "--until", "--status", "--app", "--user", "--tag", "--limit",
            "--all", "--children", "--json",
        ), (
            ("sandbur sessions", "a table; in a pipe lines, the newest first"),
            ("sandbur sessions --here", "only those of this folder and its repository"),
            ('sandbur sessions --text "invoice rope" --since 7d', "by their words, of the last seven days"),
            ("sandbur sessions --status needs_approval", "those that wait for a decision"),
            ("sandbur sessions --limit 5", "the last five"),
            ("sandbur sessions --all | grep shop", "every session, those of sub-agents too"),
            ("sandbur sessions --children 3f2a", "the sub-agents of a session"),
            ("sandbur sessions --json | head -1 | jq -r .id", "the newest id"),
        ), home="session_table.list_sessions"),
        "show": Action("ID", "a session: plan, messages, waiting calls", ("--json", "--steps"), (
            ("sandbur sessions show 3f2a", "the start of an id is enough"),
            ("sandbur sessions show 3f2a --steps", "its steps, with the numbers for `fork --at`"),
        ), home="show.show_session"),
        "rename": Action("ID TITLE", "give a session another title", (), (
            ('sandbur sessions rename 3f2a "the slow build"', "commands accept the title instead of the id"),
        ), home="show.rename_session"),
        "verify": Action("ID", "check that the record is complete and unchanged",
                         ("--verbose", "--json"), (("sandbur sessions verify 3f2a -v", "list every call"),),
                         home="verify.verify_session"),
        "delete": Action("ID", "delete a session and its sub-agents permanently", home="show.delete_session"),
        "prune": Action("", "delete sessions that have not been used for long",
                        ("--older-than", "--keep", "--max-size", "--dry-run", "--json"), (
            ("sandbur sessions prune --dry-run", "only list them"),
            ("sandbur sessions prune --older-than 8w --keep 50", ""),
            ("sandbur sessions prune --max-size 500MB", "also the oldest ones until the rest fits"),
        ), home="prune.prune_sessions"),
        "export": Action("ID [FILE]", "write a session to a file", ("--format", "--as-recorded"), (
            ("sandbur sessions export 3f2a run.jsonl", "to import it elsewhere"),
            ("sandbur sessions export 3f2a run.html --format html", "to read it"),
        ), home="transfer.export_session"),
        "import": Action("FILE", "read a session from an exported file", ("--yes",), (
            ("sandbur sessions import run.jsonl", "asks about the settings in the file"),
        ), home="transfer.import_session"),
    }  # fmt: skip
    action: str = word("|".join(ACTIONS), None, "list", nargs="?", type=one_of(tuple(ACTIONS)))
    session: str = word("ID", f"{ID}; for import: FILE, or - for stdin", nargs="?")
    file: str = word("FILE", "export: the file to write, - is stdout; for rename: TITLE", nargs="?")
    json: bool = switch("--json", "JSON on stdout; a list: one object per line")
    limit: int = flag(
        "--limit", f"list: the newest N (default {MOST_LISTED})", MOST_LISTED, type=count, metavar="N"
    )
    all: bool = switch("--all", "list: every session, those of sub-agents too")
    children: str | None = flag("--children", "list: the sub-agents of this session", None, metavar="ID")
    here: bool = switch("--here", "list: only the sessions of this folder and its repository")
    text: str = flag(
        "--text", "with all these words in their messages, or this text in the title", "", "list",
        metavar="WORDS",
    )  # fmt: skip
    since: datetime | None = flag(
        "--since", "last used at or after this time: 2026-11-05, 2026-11-05T09:30, or 7d, 12h ago", None,
        "list", type=moment, metavar="WHEN",
    )  # fmt: skip
    until: datetime | None = flag(
        "--until", "last used before this time; a date includes that day", None, "list", type=end_moment,
        metavar="WHEN",
    )  # fmt: skip
    status: str | None = flag(
        "--status", "with this status, such as done, needs_approval or interrupted", None, "list",
        metavar="STATUS",
    )  # fmt: skip
    app: str | None = flag("--app", "that a program began for this application", None, "list", metavar="APP")
    user: str | None = flag("--user", "that a program began for this user", None, "list", metavar="USER")
    tag: tuple[str, ...] = flag(
        "--tag", "with this tag; repeatable: with all of them", (), "list", action="append", metavar="TAG"
    )
    steps: bool = switch("--steps", "show: every step in one line")
    verbose: bool = switch("-v --verbose", "verify: every move of every call")
    export_format: str = flag(
        "--format", "export: jsonl (to import again) | html | md (to read)", "jsonl",
        type=one_of(("jsonl", "html", "md")), metavar="FORMAT",
    )  # fmt: skip
    as_recorded: bool = switch("--as-recorded", "export: even if there are secrets that are not masked")
    older_than: timedelta = flag(
        "--older-than", "not used for this time, such as 12h, 30d (the default), 8w", timedelta(days=30),
        "prune", type=duration, metavar="AGE",
    )  # fmt: skip
    keep: int = flag(
        "--keep", "always keep the newest N (default 20)", 20, "prune", type=position, metavar="N"
    )
    max_size: int | None = flag(
        "--max-size", "also delete the oldest until the rest is this small, such as 500MB", None, "prune",
        type=size, metavar="SIZE",
    )  # fmt: skip
    """In bytes."""
    dry_run: bool = switch("--dry-run", "only list the sessions", "prune")
    yes: bool = switch("--yes", "import: accept the settings in the file without a question")

    @property
    def tells_more(self) -> bool:
        return self.verbose

    def check(self) -> None:
        """Check that the action has the arguments that it needs, and only flags that belong to it."""
        action, command = self.action, f"sandbur sessions {self.action}"
        if action in ("show", "rename", "verify", "delete", "export") and not self.session:
            raise UsageError(f"`{command}` needs the ID of a session.", "`sandbur sessions` lists them.")
        if action == "import" and not self.session:
            raise UsageError(f"`{command}` needs a FILE, or - for stdin.")
        if action == "rename" and not self.file.strip():
            raise UsageError(f"`{command}` needs a TITLE.", 'sandbur sessions rename ID "a new title"')
        extra = self.session if action in ("list", "prune") else self.file
        if extra and action not in ("export", "rename"):
            helps = "show ID` shows one session" if action == "list" else "--help` lists the arguments"
            raise UsageError(f"`{extra}` is one word too many.", f"`sandbur sessions {helps}.")
        self._check_flags()

    def _check_flags(self) -> None:
        usual = SessionsCommand()
        for fields, action, flags in _FLAGS_OF_ACTIONS:
            if action.split()[0] != self.action and any(
                getattr(self, name) != getattr(usual, name) for name in fields
            ):
                raise UsageError(f"{flags} to `sandbur sessions {action}`.")
        for flag_name, is_given in (("limit", self.limit != usual.limit), ("children", self.children)):
            if is_given and self.all:
                raise UsageError(f"--{flag_name} and --all contradict each other.", "Leave one of them out.")

    def run_at_once(self) -> int | None:
        if self.action != "list" or self.children or self.text:
            return None
        return self._load("session_table.list_at_rest")(self)
