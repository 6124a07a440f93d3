"""Puts the agent whose tools ask, and a tool server for it, into the folder of a command."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from support.places import SUPPORT


def copy_asking_bot(folder: Path, server: str, *words: str, **table: Any) -> None:
    """Make `asking_bot:agent` loadable from a folder; `server` is a file of `tool_servers`."""
    file = str(SUPPORT / "tool_servers" / server)
    servers = {"shop": {"command": sys.executable, "args": [file, *words], **table}}
    (folder / "asking_servers.json").write_text(json.dumps(servers))
    shutil.copy(SUPPORT / "tools" / "asking_bot.py", folder)
