"""The flags and the actions of `sandbur memory`."""

from collections.abc import Mapping
from typing import ClassVar

from .....state.errors import UsageError
from ....cli.argument_types import count, one_of
from ....cli.grammar import Action, ActionCommand, flag, switch, word

MOST_LISTED, MOST_FOUND = 100, 10
_FLAGS: Mapping[str, tuple[str, ...]] = {
    "scope": ("list", "search", "show", "add", "edit", "forget", "review", "trace", "restore", "export",
              "import"),
    "all": ("list",),
    "limit": ("list", "search"),
    "json": ("list", "search", "show", "review", "trace"),
    "kind": ("add",),
    "path": ("add",),
    "from_facts": ("add",),
    "reason": ("edit", "forget", "restore"),
    "yes": ("forget",),
    "from_call": ("forget",),
    "from_session": ("forget",),
    "accept": ("review",),
    "reject": ("review",),
    "here": ("import",),
}  # fmt: skip
"""Field of a flag -> the actions that accept it."""
_WORDS: Mapping[str, tuple[int, int, str]] = {
    "list": (0, 0, ""),
    "search": (1, 99, "WORDS to search for"),
    "show": (1, 1, "the ID of a fact"),
    "add": (1, 1, "a TEXT in quotes, or - for stdin"),
    "edit": (2, 2, "the ID of a fact and its new TEXT in quotes"),
    "forget": (0, 1, "the ID of a fact"),
    "review": (0, 0, ""),
    "trace": (1, 1, "the ID of a fact"),
    "extract": (0, 0, ""),
    "restore": (1, 1, "the ID of a fact"),
    "export": (0, 1, ""),
    "import": (1, 1, "a FILE, or - for stdin"),
}
"""Action -> the least and the greatest number of words after it, and what they are."""


class MemoryCommand(ActionCommand):
    GROUPS = ("place",)
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "list": Action("", "the facts of this project and your own, the newest first",
                       ("--scope", "--all", "--limit", "--json"), (
            ("sandbur memory", "the facts that are valid"),
            ("sandbur memory list --all", "those that were corrected or forgotten, too"),
            ("sandbur memory list --json | jq -r .text", "one object a line"),
        ), home="looking.list_facts"),
        "search": Action("WORDS", "the facts that match, the best one first",
                         ("--scope", "--limit", "--json"), (
            ("sandbur memory search how are tests run", ""),
        ), home="looking.search_facts"),
        "show": Action("ID", "a fact, where it comes from, and what happened to it", ("--scope", "--json"), (
            ("sandbur memory show 3f2a", "the start of an id is enough"),
            ("sandbur memory show 3f2a --scope project:../shop", "a fact of another project"),
        ), home="looking.show_fact"),
        "add": Action("TEXT", "remember a fact", ("--scope", "--kind", "--path", "--from"), (
            ('sandbur memory add "Tests run with uv run pytest"', "for this project"),
            ('sandbur memory add "Answer in German" --scope user', "for all projects"),
        ), home="changing.add_fact"),
        "edit": Action("ID TEXT", "correct a fact; what was derived from it is forgotten",
                       ("--scope", "--reason"), (
            ('sandbur memory edit 3f2a "The port is 9090" --reason "it was moved"', ""),
        ), home="changing.edit_fact"),
        "forget": Action("ID", "forget a fact, with everything that was derived from it",
                         ("--scope", "--from-call", "--from-session", "--yes", "--reason"), (
            ("sandbur memory forget 3f2a", "shows what goes along, and asks"),
            ("sandbur memory forget --from-call toolu_01", "what came from one tool call, with all derived"),
            ("sandbur memory forget --from-session 8c1d", "what came from one session"),
        ), home="changing.forget_fact"),
        "review": Action("", "the facts that wait for you; accept or reject them",
                         ("--accept", "--reject", "--scope", "--json"), (
            ("sandbur memory review", "asks about each at a terminal, and lists them elsewhere"),
            ("sandbur memory review --accept 3f2a --reject 9b1c", ""),
        ), home="reviewing.review_proposals"),
        "trace": Action("ID", "the text that a fact was taken from, and what else came from there",
                        ("--scope", "--json"), (
            ("sandbur memory trace 3f2a", ""),
        ), home="tracing.trace_fact"),
        "extract": Action("", "find facts now in the sessions of this folder that were not read yet",
                          home="reviewing.extract_facts"),
        "restore": Action("ID", "undo what corrected or forgot a fact", ("--scope", "--reason"),
                          home="changing.restore_fact"),
        "export": Action("[FILE]", "write facts with their history as lines of JSON", ("--scope",), (
            ("sandbur memory export memory.jsonl", "this project and your own facts"),
        ), home="transfer.export_memory"),
        "import": Action("FILE", "add the facts of an export", ("--here", "--scope"), (
            ("sandbur memory import memory.jsonl", "each fact where it was: for its project, or for you"),
            ("sandbur memory import memory.jsonl --here", "those of projects for this project"),
            ("sandbur memory import memory.jsonl --scope user", "all of them for you"),
        ), home="transfer.import_memory"),
    }  # fmt: skip
    action: str = word("|".join(ACTIONS), None, "list", nargs="?", type=one_of(tuple(ACTIONS)))
    words: tuple[str, ...] = word("WORD", "the id of a fact, a text, words or a file", (), nargs="*")
    scope: str = flag("--scope", "user | project[:DIR] | agent:NAME", "", metavar="SCOPE")
    all: bool = switch("--all", "list: those that were corrected or forgotten, too")
    limit: int = flag("--limit", "list, search: at most N facts", 0, type=count, metavar="N")
    json: bool = switch("--json", "list, search, show, review, trace: JSON on stdout, one object per line")
    kind: str = flag("--kind", "add: what it is, such as rule or preference", "fact", metavar="KIND")
    path: str = flag(
        "--path", "add: the file that the model sees it as, such as tests.md", "", metavar="NAME"
    )
    from_facts: tuple[str, ...] = flag(
        "--from", "add: a fact that it was derived from; repeatable", (), action="append", metavar="ID"
    )
    reason: str = flag("--reason", "edit, forget, restore: why", "", metavar="TEXT")
    yes: bool = switch("--yes", "forget: without a question")
    from_call: str = flag("--from-call", "forget: what came from this tool call", "", metavar="CALL")
    from_session: str = flag("--from-session", "forget: what came from this session", "", metavar="ID")
    accept: tuple[str, ...] = flag(
        "--accept", "review: accept a proposal; repeatable", (), action="append", metavar="ID"
    )
    reject: tuple[str, ...] = flag(
        "--reject", "review: reject a proposal; repeatable", (), action="append", metavar="ID"
    )

    here: bool = switch("--here", "import: the facts of projects become facts of this project")

    def check(self) -> None:
        """Check the number of words, and that flags belong to the action."""
        least, most, what = _WORDS[self.action]
        if self.action == "forget":
            least = most = int(not (self.from_call or self.from_session))
        if len(self.words) < least:
            raise UsageError(
                f"`sandbur memory {self.action}` needs {what}.", "`sandbur memory` lists the facts with ids."
            )
        if len(self.words) > most:
            hint = f"Put a text in quotes, or see `sandbur memory {self.action} --help`."
            raise UsageError(f"`{self.words[most][:40]}` is one word too many.", hint)
        if self.here and self.scope:
            raise UsageError("--here and --scope exclude each other.", "--scope puts all facts there.")
        usual = MemoryCommand()
        for name, actions in _FLAGS.items():
            if self.action not in actions and getattr(self, name) not in (getattr(usual, name), []):
                spelled = "--from" if name == "from_facts" else f"--{name.replace('_', '-')}"
                raise UsageError(f"{spelled} belongs to `sandbur memory {'`, `'.join(actions)}`.")
