"""`sandbur trust`: lists the trusted projects, and withdraws trust."""

import os
from pathlib import Path

from ....agent.config.trust import list_trusted, take_back
from ....state.errors import UsageError
from ...terminal.terminal import put, say
from ...terminal.text.sanitize import one_line
from .command import TrustCommand

_NOTHING = (
    "Nothing is trusted. Start `sandbur` in a folder that has a configuration of its own: it shows what "
    "that would change, and asks."
)


async def change_trust(command: TrustCommand) -> int:
    if command.remove:
        if not take_back(Path(command.path), os.environ):
            raise UsageError(f"{command.path} is not trusted.", "`sandbur trust` lists what is.")
        say(f"Not trusted any more: {one_line(command.path)}")
        return 0
    paths = list_trusted(os.environ)
    for path in paths:
        put(one_line(path))
    if not paths:
        say(_NOTHING)
    return 0
