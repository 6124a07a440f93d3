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
    agents: tuple[str, ...] = flag(
        "--agent",
        "runs the sessions of this agent; repeatable",
        (),
        action="append",
        metavar="MODULE:NAME|FILE",
    )
    concurrency: int = flag("--concurrency", "sessions at once (4)", 4, type=count, metavar="N")
    labels: tuple[str, ...] = flag(
        "--labels", "sessions that need these labels may run here", (), type=names, metavar="A,B"
    )
    budgets: tuple[str, ...] = flag(
        "--budget",
        "what all workers together may use of a model or provider in a minute; repeatable",
        (),
        action="append",
        metavar="MODEL=REQUESTS[/TOKENS]",
    )
    quotas: tuple[str, ...] = flag(
        "--quota",
        "how many sessions of a tenant run at once, on all workers together; repeatable",
        (),
        action="append",
        metavar="TENANT=N",
    )
    once: bool = switch("--once", "end when no session waits")
    until_stdin_ends: bool = switch(
        "--until-stdin-ends",
        "drain when stdin ends: so a worker ends with the program that started it",
    )
    quiet: bool = switch("-q --quiet", "no line for each event on stderr")

    def check(self) -> None:
        if not self.agents:
            raise UsageError("`sandbur worker` needs --agent.", "Name one: --agent support.bot:agent")
        for text in self.budgets:
            parse_budget(text)
        for text in self.quotas:
            parse_quota(text)


def parse_budget(text: str) -> tuple[str, int, int]:
    """Return the name, and the requests and tokens a minute; 0 is no limit."""
    name, equals, limits = text.rpartition("=")
    requests, _, tokens = limits.partition("/")
    if not (name and equals and requests.isdecimal() and (tokens or "0").isdecimal()):
        raise UsageError(
            f"--budget: `{text}` is not MODEL=REQUESTS[/TOKENS].", "Write openai=500/200000; 0 is no limit."
        )
    return name, int(requests), int(tokens or 0)


def parse_quota(text: str) -> tuple[str, int]:
    """Return the tenant, and how many of its sessions run at once."""
    tenant, equals, most = text.rpartition("=")
    if not (equals and most.isdecimal()):
        raise UsageError(f"--quota: `{text}` is not TENANT=N.", "Write acme=10.")
    return tenant, int(most)
