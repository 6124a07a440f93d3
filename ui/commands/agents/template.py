"""`sandbur agents new`: writes the file of a new agent, with every key explained."""

from __future__ import annotations

import os
from pathlib import Path

from ....agent.agents.markdown.agent_parser import normalize_name
from ....agent.config.paths import config_home, current_folder, project_folders, repository_root
from ....state.errors import ConfigError, UsageError
from ...terminal.terminal import say
from ...terminal.text.sanitize import one_line
from .command import AgentsCommand

_TEMPLATE = """\
---
name: {name}
# When the agent is of use. Of this file, a model that may start the agent reads only this.
description: Say here for which work {name} should be used.

# Remove a # to set a key. A key that is not set is that of the session that starts the agent.
# tools: Read, Grep, Glob
# disallowedTools: Write, Edit
# model: inherit
# effort: low
# The mode only ever narrows that of the session: plan, default, acceptEdits
# permissionMode: plan
# maxTurns: 20
# skills: release-notes
# mcpServers: [docs]
# The agent works in a copy of the folder:
# isolation: copy
---
You are {name}. Say here what the agent does, how, and what it answers with.

Its last message is all that the session which started it gets to see.
"""


async def write_agent(command: AgentsCommand) -> int:
    """Write the file; an existing one is not changed."""
    name = command.agent
    if name != normalize_name(name):
        likely = normalize_name(name) or "reviewer"
        raise UsageError(
            f"`{one_line(name)}` cannot name an agent: a name consists of a-z, 0-9 and -.",
            f"For example: sandbur agents new {likely}",
        )
    path = (config_home(os.environ) if command.user else _project_folder()) / "agents" / f"{name}.md"
    _create(path, _TEMPLATE.format(name=name))
    whose = "Sessions of all projects" if command.user else "Once you trust its folder in the chat, sessions"
    say(f"Wrote {one_line(str(path))}. Edit it. {whose} can start the agent.")
    return 0


def _create(path: Path, text: str) -> None:
    """Write a new file; raises `UsageError` if there is one, and `ConfigError` if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{path.parent} cannot be created: {error.strerror}.", "Check the path.") from None
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists already; it was not changed.", "Choose another name.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.", "Check the folder.") from None


def _project_folder() -> Path:
    """Return the nearest `.sandbur` of the project, or where a new one belongs; raises `UsageError`."""
    cwd = current_folder()
    root = repository_root(cwd) or cwd
    places = [folder / ".sandbur" for folder in project_folders(cwd)]
    folder = next((place for place in places if place.is_dir()), root / ".sandbur")
    for place in (folder, folder / "agents"):
        if place.is_symlink():
            raise UsageError(f"{place} is a link; nothing is written there.", "Remove it, or use --user.")
    return folder
