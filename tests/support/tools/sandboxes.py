"""Sandboxes for tests: real ones, of each kind that works on this machine."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from support.required import lacks

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.shell.sandbox.plan import ResourceLimits
from sandbur.actions.tools.shell.sandbox.sandbox import Sandbox, SandboxKind, Workplace
from sandbur.actions.tools.shell.sandbox.wall import wall_kind
from sandbur.actions.tools.shell.tool import RunShellCommand
from sandbur.state.calls import DecidedBy

KINDS: tuple[SandboxKind, ...] = ("bubblewrap", "landlock")


@cache
def trouble_with(kind: SandboxKind) -> str:
    sandbox = Sandbox(kind, Workplace((Path.cwd(),), Path.home()))
    try:
        return sandbox.trouble()
    finally:
        sandbox.close()


def require(kind: SandboxKind) -> None:
    """Skip the test where this sandbox does not work; in CI that is a failure."""
    if trouble := trouble_with(kind):
        lacks(f"{kind} does not work on this machine: {trouble}")


def require_code_sandbox() -> None:
    """Skip the test where no code of a model runs; in CI that is a failure."""
    if wall_kind() is None:
        lacks("no sandbox for code works on this machine")


@contextmanager
def open_sandbox(
    kind: SandboxKind,
    roots: Sequence[Path],
    home: Path,
    domains: Sequence[str] = (),
    limits: ResourceLimits | None = None,
    private: tuple[Path, ...] = (),
) -> Iterator[Sandbox]:
    require(kind)
    sandbox = Sandbox(kind, Workplace(tuple(roots), home, private), domains, limits)
    try:
        yield sandbox
    finally:
        sandbox.close()


async def run(
    sandbox: Sandbox | None,
    folder: Path,
    command: str,
    allowed_by: DecidedBy = "policy",
    **options: object,
) -> ToolOutcome:
    tool = RunShellCommand(sandbox=sandbox)
    context = ToolContext("c1", folder, lambda text: None, allowed_by=allowed_by)
    return await tool.run(tool.parse(json.dumps({"command": command, **options})), context)
