"""`sandbur trust`: lists what may bring its own configuration, and takes trust back."""

import os
from pathlib import Path

from ....state.errors import UsageError
from ...cli.grammar import Command, switch, word
from ...terminal.terminal import put, say
from ...terminal.text.sanitize import one_line

_NOTHING = (
    "Nothing is trusted. Start `sandbur` in a folder that has a configuration of its own: it shows what "
    "that would change, and asks."
)


class TrustCommand(Command):
    GROUPS = ()
    path: str = word("PATH", "with --remove: a folder or link of the list", nargs="?")
    remove: bool = switch("--remove", "trust it no more; the chat asks again there")

    def check(self) -> None:
        if self.remove and not self.path:
            raise UsageError("`sandbur trust --remove` needs a PATH.", "`sandbur trust` lists them.")
        if self.path and not self.remove:
            raise UsageError(
                "A folder is trusted in the chat, where it is shown what its configuration would change.",
                f"Take trust back with: sandbur trust --remove {self.path}",
            )

    async def run(self) -> int:
        from ....agent.config.trust import take_back, trusted

        if self.remove:
            if not take_back(Path(self.path), os.environ):
                raise UsageError(f"{self.path} is not trusted.", "`sandbur trust` lists what is.")
            say(f"Not trusted any more: {one_line(self.path)}")
            return 0
        paths = trusted(os.environ)
        for path in paths:
            put(one_line(path))
        if not paths:
            say(_NOTHING)
        return 0
