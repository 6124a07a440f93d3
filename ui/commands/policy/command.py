"""The flags of `sandbur policy`, and what each of its words does."""

from dataclasses import dataclass
from importlib import import_module

from ....state.errors import UsageError
from ...argument_types import one_of
from ...grammar import Command, switch, word

ACTIONS = ("check",)


@dataclass(frozen=True, kw_only=True)
class PolicyCommand(Command):
    GROUPS = ("run", "place")
    action: str = word("|".join(ACTIONS), "check a command", "", type=one_of(ACTIONS))
    what: str = word("COMMAND", "a shell command, or - for calls as JSON lines on stdin", nargs="?")
    json: bool = switch("--json", "JSON on stdout")

    def check(self) -> None:
        if self.action == "check" and not self.what:
            raise UsageError(
                "`sandbur policy check` needs a shell command.", "Such as: sandbur policy check 'git status'"
            )
        if self.action == "check" and self.what == "-" and not self.json:
            raise UsageError("`sandbur policy check -` reads and writes JSON lines.", "Say --json, too.")

    async def run(self) -> int:
        module, function = _DOING[self.action]
        return await getattr(import_module(module, __package__), function)(self)


_DOING = {"check": (".check", "check")}
"""Action -> the module of this package and the function in it."""
