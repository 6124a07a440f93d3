"""The flags and the actions of `sandbur index`."""

from collections.abc import Mapping
from typing import ClassVar

from .....agent.knowledge.retrieval.scopes import PROJECT_BASE
from .....state.errors import UsageError
from ....cli.argument_types import count, one_of
from ....cli.grammar import Action, ActionCommand, flag, switch, word

_MOST_FOUND = 8
_BASE = ("--base", "--user")


class IndexCommand(ActionCommand):
    GROUPS = ("place",)
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "add": Action("DIR|FILE|URL", "add a folder, a file or a page, and make it searchable",
                      (*_BASE, "--describe"), (
            ("sandbur index add docs", "sessions of this project can search it from now on"),
            ("sandbur index add https://example.com/manual.html --base manuals", "another base"),
            ("sandbur index add screenshots --describe MODEL", "pictures are found by what they show"),
            ("sandbur index add ~/notes --base notes --user", "a base for all projects"),
        ), home="changes.add"),
        "list": Action("", "the knowledge bases of this folder, and what they contain",
                       ("--base", "--user", "--json"), home="listing.list_bases"),
        "search": Action("QUERY", "print the passages that match best, with their lines or pages",
                         (*_BASE, "--limit", "--json"), (
            ("sandbur index search 'how do I resume a session?'", ""),
        ), home="listing.search"),
        "update": Action("", "index what has changed, and remove what is gone",
                         (*_BASE, "--describe", "--reembed", "--watch"), (
            ("sandbur index update --watch", "follow the files until Ctrl-C"),
        ), home="changes.update"),
        "remove": Action("[DIR|FILE|URL]", "remove what was added; without it, the whole base",
                         (*_BASE, "--yes"), home="changes.remove"),
    }  # fmt: skip
    action: str = word(
        "|".join(ACTIONS), "add, list, search, update or remove", "list", nargs="?",
        type=one_of(tuple(ACTIONS)),
    )  # fmt: skip
    what: str = word("WHAT", "add, remove: DIR, FILE or URL; search: QUERY", nargs="?")
    base: str = flag("--base", f"the knowledge base (default: {PROJECT_BASE})", "", metavar="NAME")
    user: bool = switch("--user", "a knowledge base for all projects, and not for this one")
    limit: int = flag(
        "--limit", f"search: the best N (default {_MOST_FOUND})", _MOST_FOUND, type=count, metavar="N"
    )
    describe: str = flag(
        "--describe", "add, update: MODEL describes pictures, one request for each", "", metavar="MODEL"
    )
    reembed: bool = switch("--reembed", "update: new vectors, by the model of the setting `embeddings`")
    watch: bool = switch("--watch", "update: follow the files until Ctrl-C, a line per change")
    json: bool = switch("--json", "list, search: JSON on stdout, one object per line")
    yes: bool = switch("--yes", "remove: without a question")

    def check(self) -> None:
        """Check that the action has the arguments that it needs, and only flags that belong to it."""
        needed = {"add": "a DIR, FILE or URL", "search": "a QUERY"}
        if self.action in needed and not self.what.strip():
            raise UsageError(
                f"`sandbur index {self.action}` needs {needed[self.action]}.", "See `sandbur index --help`."
            )
        if self.action in ("list", "update") and self.what:
            raise UsageError(f"`{self.what[:40]}` is one word too many.", "See `sandbur index --help`.")
        given = {
            "--json": self.json,
            "--yes": self.yes,
            "--describe": bool(self.describe),
            "--reembed": self.reembed,
            "--watch": self.watch,
            "--limit": self.limit != _MOST_FOUND,
        }
        for name, is_given in given.items():
            if is_given and name not in self.ACTIONS[self.action].flags:
                owners = [action for action, one in self.ACTIONS.items() if name in one.flags]
                raise UsageError(f"{name} belongs to `sandbur index {owners[0]}`.")
