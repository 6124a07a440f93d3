"""Sessions whose process was killed while a command ran."""

import time
import uuid

from support.commands.command import Command

SLOW = "echo half; echo x >> effects; sleep 600"
"""Takes effect, then never ends."""
ALLOW = ("--allow", "run_shell_command(*)")


def killed_in_a_command(command: Command, shell: str = SLOW) -> str:
    """Run a command of the demo model until it took effect, kill the agent; return the session's id."""
    session_id = str(uuid.uuid4())
    before = effects(command)
    process = command.start("-p", f"run {shell}", "-m", "demo", *ALLOW, "--session-id", session_id)
    end = time.monotonic() + 120
    while effects(command) == before:
        assert time.monotonic() < end, "the command took no effect"
        time.sleep(0.02)
    process.kill()
    process.communicate()
    return session_id


def effects(command: Command) -> int:
    """Return how often the command took effect."""
    file = command.folder / "effects"
    return len(file.read_text().split()) if file.exists() else 0
