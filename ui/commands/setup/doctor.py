"""`sandbur doctor`: checks this installation, and prints each problem with the command that solves it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict

from ....agent.config.load import load_settings
from ....agent.config.paths import config_home
from ....agent.config.settings import Settings, load_extensions
from ....agent.extensions.extension import load
from ....agent.extensions.registry import extensions
from ....state.errors import SandburError
from ...cli.open_session import read_overrides
from ...terminal.terminal import encode, glyphs_for, make_console, put
from ...terminal.text.sanitize import one_line
from ...terminal.text.wrap import hanging
from .command import DoctorCommand
from .installation_checks import Finding, installation, sandboxes, wall
from .model_checks import answers, keys, models
from .store_checks import store_findings

_INDENT = " " * 18


async def check_installation(command: DoctorCommand) -> int:
    """Print the findings; return 1 if a finding prevents Sandbur from working, else 0."""
    found: list[Finding] = []
    async for finding in _findings(command):
        found.append(finding)
        if not command.json:
            _print(finding)
    failed = any(finding.verdict == "bad" for finding in found)
    if command.json:
        put(encode({"ok": not failed, "findings": [asdict(one) for one in found]}))
    return int(failed)


def _print(finding: Finding) -> None:
    glyphs = glyphs_for(sys.stdout.encoding)
    sign = {"good": glyphs.done, "note": glyphs.dot, "bad": glyphs.failed}[finding.verdict]
    head, detail = f"{sign:<2} {finding.name:<14} ", one_line(finding.detail)
    is_seen = sys.stdout.isatty()
    for row in hanging(head, detail, make_console(sys.stdout).width) if is_seen else [f"{head}{detail}"]:
        put(row)
    if finding.fix:
        # The command has a line of its own, so that it can be copied.
        put(f"{_INDENT}{one_line(finding.fix)}")


async def _findings(command: DoctorCommand) -> AsyncIterator[Finding]:
    for finding in (*installation(), keys()):
        yield finding
    try:
        load_extensions()
        settings = load_settings(read_overrides(command), os.environ)
    except SandburError as error:
        yield Finding("bad", "configuration", error.message, error.hint)
        return
    yield sandboxes(settings)
    yield wall()
    for finding in (*_configuration(settings), *models(settings), *_of_extensions(settings)):
        yield finding
    if command.online:
        for finding in await answers(settings, command.timeout_s):
            yield finding
    for finding in store_findings(settings, command.reindex, command.full):
        yield finding


def _configuration(settings: Settings) -> Iterator[Finding]:
    user = config_home(os.environ) / "config.toml"
    yield Finding("good", "configuration", str(user) if user.exists() else f"none ({user} does not exist)")
    for file, what in settings.machine.describe():
        yield Finding("good", "policy", f"{file}: {what}")
    for notice in settings.notices:
        is_untrusted = settings.untrusted_config is not None or bool(settings.untrusted_files)
        # The command `sandbur` starts the chat, which asks about trust.
        fix = "sandbur" if is_untrusted and "is not trusted" in notice else "sandbur config path"
        yield Finding("note", "configuration", notice, fix)


def _of_extensions(settings: Settings) -> Iterator[Finding]:
    """Run the checks of each extension."""
    for extension in extensions():
        if extension.doctor:
            yield from load(extension.doctor)(settings)
