"""The flags of `sandbur worker`."""

from __future__ import annotations

from .....state.errors import UsageError
from ....cli.argument_types import count, names
from ....cli.grammar import Command, flag, switch


class WorkerCommand(Command):
    HOME = "run_worker.run_worker"
    EXAMPLES = (
        ("sandbur worker --store postgresql://db/runs --agent support.bot:agent", "until it is stopped"),
        ("sandbur worker --agent a:b --agent c:d --concurrency 8", "up to 8 sessions at once"),
        ("sandbur worker --agent a:b --once", "until no session waits, for cron"),
    )
    agents: list[str] = flag(
        "--agent", "runs the sessions of this agent; repeatable", action="append", metavar="MODULE:NAME"
    )
    concurrency: int = flag("--concurrency", "sessions at once (4)", 4, type=count, metavar="N")
    labels: tuple[str, ...] = flag(
        "--labels", "sessions that need these labels may run here", (), type=names, metavar="A,B"
    )
    once: bool = switch("--once", "end when no session waits")
    quiet: bool = switch("-q --quiet", "no line for each event on stderr")

    def check(self) -> None:
        if not self.agents:
            raise UsageError("`sandbur worker` needs --agent.", "Name one: --agent support.bot:agent")
