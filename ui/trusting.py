"""Asks once whether a project's own configuration may count."""

import os
import sys
from pathlib import Path

from ui.sanitize import plain
from ui.terminal import make_console

MAX_SHOWN_LINES = 40


async def newly_trusted(config: Path | None) -> bool:
    """Show a configuration that nobody has trusted and ask; return whether it is trusted now."""
    if config is None:
        return False
    content = config.read_bytes()
    console = make_console(sys.stdout)
    lines = plain(content.decode("utf-8", "replace")).splitlines()
    console.print(f"{plain(str(config))} is not trusted yet. It says:", markup=False, highlight=False)
    for line in lines[:MAX_SHOWN_LINES]:
        console.print(f"  {line}", markup=False, highlight=False)
    if len(lines) > MAX_SHOWN_LINES:
        console.print(f"  ({len(lines) - MAX_SHOWN_LINES} more lines)", markup=False)
    from ui.one_key import OneKey

    if await OneKey("Use it in this folder, until it changes? [y/n] ", "yn").ask() != "y":
        return False
    from agent.trust import trust

    trust(config.parent.parent, os.environ, content)
    return True
