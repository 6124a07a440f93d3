"""The flags and the actions of `sandbur sessions`."""

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from ....state.errors import UsageError
from ...cli.argument_types import count, duration, one_of, position, size
from ...cli.grammar import ID, Action, ActionCommand, flag, switch, word

MOST_LISTED = 50
_FLAGS_OF_ACTIONS = (
    (("limit", "all"), "list", "--limit and --all belong"),
    (("older_than", "keep", "max_size", "dry_run"), "prune",
     "--older-than, --keep, --max-size and --dry-run belong"),
    (("steps",), "show ID", "--steps belongs"),
    (("yes",), "import FILE", "--yes belongs"),
    (("export_format", "as_recorded"), "export ID", "--format and --as-recorded belong"),
)  # fmt: skip
"""Fields, the action that accepts them, and the names of their flags in an error."""


class SessionsCommand(ActionCommand):
    GROUPS = ("prune", "place")
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "list": Action("", "the sessions of the store, the newest first", ("--limit", "--all", "--json"), (
            ("sandbur sessions", "a table"),
            ("sandbur sessions --limit 5", "the last five"),
            ("sandbur sessions --all | grep shop", "every one, a line each"),
            ("sandbur sessions --json | jq -r '.[0].id'", "the newest id"),
        ), home="listing.list_sessions"),
        "show": Action("ID", "a session: plan, messages, what waits", ("--json", "--steps"), (
            ("sandbur sessions show 3f2a", "the start of an id is enough"),
            ("sandbur sessions show 3f2a --steps", "its steps, with the numbers for `fork --at`"),
        ), home="show.show_session"),
        "rename": Action("ID TITLE", "call a session something else", (), (
            ('sandbur sessions rename 3f2a "the slow build"', "a title names it as an id does"),
        ), home="show.rename_session"),
        "verify": Action("ID", "whether its record is whole, and every move of its calls in order",
                         ("--verbose", "--json"), (("sandbur sessions verify 3f2a -v", "every move"),),
                         home="verify.verify_session"),
        "delete": Action("ID", "remove a session for good", home="show.delete_session"),
        "prune": Action("", "remove sessions that nobody uses any more",
                        ("--older-than", "--keep", "--max-size", "--dry-run", "--json"), (
            ("sandbur sessions prune --dry-run", "only say what would go"),
            ("sandbur sessions prune --older-than 8w --keep 50", ""),
            ("sandbur sessions prune --max-size 500MB", "the oldest go, too, until the rest fits"),
        ), home="prune.prune_sessions"),
        "export": Action("ID [FILE]", "write a session into a file", ("--format", "--as-recorded"), (
            ("sandbur sessions export 3f2a run.jsonl", "to import it elsewhere"),
            ("sandbur sessions export 3f2a run.html --format html", "to read it"),
        ), home="transfer.export_session"),
        "import": Action("FILE", "take a session from such a file", ("--yes",), (
            ("sandbur sessions import run.jsonl", "asks about the settings that it brings"),
        ), home="transfer.import_session"),
    }  # fmt: skip
    action: str = word("|".join(ACTIONS), None, "list", nargs="?", type=one_of(tuple(ACTIONS)))
    session: str = word("ID", f"{ID}; for import: FILE, or - for stdin", nargs="?")
    file: str = word("FILE", "where export writes, - is stdout; for rename: TITLE", nargs="?")
    json: bool = switch("--json", "JSON on stdout")
    limit: int = flag(
        "--limit", f"list: so many (default {MOST_LISTED})", MOST_LISTED, type=count, metavar="N"
    )
    all: bool = switch("--all", "list: every session there is")
    steps: bool = switch("--steps", "show: every step in one line")
    verbose: bool = switch("-v --verbose", "verify: every move of every call")
    export_format: str = flag(
        "--format", "export: jsonl (to import again) | html | md (to read)", "jsonl",
        type=one_of(("jsonl", "html", "md")), metavar="FORMAT",
    )  # fmt: skip
    as_recorded: bool = switch("--as-recorded", "export: with secrets that an older version did not mask")
    older_than: timedelta = flag(
        "--older-than", "not used for so long, such as 12h, 30d (the default), 8w", timedelta(days=30),
        "prune", type=duration, metavar="AGE",
    )  # fmt: skip
    keep: int = flag(
        "--keep", "the newest N always stay (default 20)", 20, "prune", type=position, metavar="N"
    )
    max_size: int | None = flag(
        "--max-size", "the oldest go too until the rest takes no more, such as 500MB", None, "prune",
        type=size, metavar="SIZE",
    )  # fmt: skip
    """Size in bytes."""
    dry_run: bool = switch("--dry-run", "only say what would go", "prune")
    yes: bool = switch("--yes", "import: take the session with the settings that it brings, unasked")

    @property
    def tells_more(self) -> bool:
        return self.verbose

    def check(self) -> None:
        """Check the number of arguments of `sandbur sessions ACTION`, and that its flags belong to this
        action."""
        action, command = self.action, f"sandbur sessions {self.action}"
        if action in ("show", "rename", "verify", "delete", "export") and not self.session:
            raise UsageError(f"`{command}` needs the ID of a session.", "`sandbur sessions` lists them.")
        if action == "import" and not self.session:
            raise UsageError(f"`{command}` needs a FILE, or - for stdin.")
        if action == "rename" and not self.file.strip():
            raise UsageError(f"`{command}` needs a TITLE.", 'sandbur sessions rename ID "a new title"')
        extra = self.session if action in ("list", "prune") else self.file
        if extra and action not in ("export", "rename"):
            helps = "show ID` shows one" if action == "list" else "--help` helps"
            raise UsageError(f"`{extra}` is one word too many.", f"`sandbur sessions {helps}.")
        self._check_flags()

    def _check_flags(self) -> None:
        usual = SessionsCommand()
        for fields, action, flags in _FLAGS_OF_ACTIONS:
            if action.split()[0] != self.action and any(
                getattr(self, name) != getattr(usual, name) for name in fields
            ):
                raise UsageError(f"{flags} to `sandbur sessions {action}`.")
        if self.limit != usual.limit and self.all:
            raise UsageError("--limit and --all exclude each other.", "Leave one of them out.")

    def run_at_once(self) -> int | None:
        if self.action != "list":
            return None
        return self._load("listing.list_at_rest")(self)
