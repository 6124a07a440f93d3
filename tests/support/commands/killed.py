"""Sessions whose process was killed while a command ran."""

import time
import uuid

from support.commands.command import Command

SLOW = "echo half; echo x >> effects; sleep 600"
"""A shell command that takes effect at once and then runs for ten minutes."""
ALLOW = ("--allow", "run_shell_command(*)")


def kill_in_command(command: Command, shell: str = SLOW) -> str:
    """Let the demo model run a command, kill the agent after the effect, and return the session's id."""
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
