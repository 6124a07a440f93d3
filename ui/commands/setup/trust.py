"""`sandbur trust`: lists the trusted files and folders, and stops trusting one of them."""

import os
from pathlib import Path

from ....agent.config.trust import list_trusted, take_back
from ....state.errors import UsageError
from ...terminal.terminal import put, say
from ...terminal.text.sanitize import one_line
from .command import TrustCommand

_NOTHING = (
    "Nothing is trusted. Start `sandbur` in a folder with its own configuration: the chat shows what the "
    "configuration would change, and asks."
)


async def change_trust(command: TrustCommand) -> int:
    if command.remove:
        if not take_back(Path(command.path), os.environ):
            raise UsageError(f"{command.path} is not trusted.", "`sandbur trust` lists what is trusted.")
        say(f"Not trusted any more: {one_line(command.path)}")
        return 0
    paths = list_trusted(os.environ)
    for path in paths:
        put(one_line(path))
    if not paths:
        say(_NOTHING)
    return 0
