"""`sandbur doctor`: checks this installation and says what is missing."""

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from state.errors import SandburError
from ui.arguments import Arguments
from ui.opening import options_of
from ui.sanitize import one_line
from ui.store_checks import Finding, store_findings
from ui.terminal import glyphs_for, put

if TYPE_CHECKING:
    from agent.config import Settings

_PACKAGES = ("apache-burr", "pydantic", "openai", "anthropic", "rich", "prompt_toolkit", "genai-prices")


async def examine(arguments: Arguments) -> int:
    """Print the findings; return 1 if one of them keeps Sandbur from working."""
    glyphs = glyphs_for(sys.stdout.encoding)
    signs = {"good": glyphs.done, "note": glyphs.dot, "bad": glyphs.failed}
    failed = False
    for finding in _findings(arguments):
        put(f"{signs[finding.verdict]:<2} {finding.name:<14} {one_line(finding.detail)}")
        failed = failed or finding.verdict == "bad"
    return int(failed)


def _findings(arguments: Arguments) -> Iterator[Finding]:
    yield _python()
    yield from _packages()
    yield from _programs()
    yield _keys()
    try:
        from agent.config import load_settings

        settings = load_settings(options_of(arguments), os.environ)
    except SandburError as error:
        yield Finding("bad", "configuration", str(error))
        return
    yield from _configuration(settings)
    yield _model(settings)
    yield from store_findings(settings)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding("good", "Python", f"{found} at {sys.executable}")


def _packages() -> Iterator[Finding]:
    from agent.version import VERSION

    yield Finding("good", "sandbur", f"{VERSION} at {Path(__file__).resolve().parent.parent}")
    found: list[str] = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            yield Finding("bad", name, "is not installed; install Sandbur again with pip")
    yield Finding("good", "packages", ", ".join(found))


def _programs() -> Iterator[Finding]:
    uses = {"git": "the model cannot use version control", "rg": "grep and glob search in Python, slower"}
    for name, without in uses.items():
        path = shutil.which(name)
        yield Finding("good", name, path) if path else Finding("note", name, f"not installed: {without}")


def _keys() -> Finding:
    from agent.models.catalogue import DEFAULTS

    names = [name for name, _ in DEFAULTS]
    found = [name for name in names if os.environ.get(name, "").strip()]
    if found:
        return Finding("good", "keys", f"set: {', '.join(found)}")
    return Finding("note", "keys", f"none is set; looked for {', '.join(names)}")


def _configuration(settings: "Settings") -> Iterator[Finding]:
    from agent.paths import config_home

    user = config_home(os.environ) / "config.toml"
    yield Finding("good", "configuration", str(user) if user.exists() else f"none ({user} may hold one)")
    for notice in settings.notices:
        yield Finding("note", "configuration", notice)


def _model(settings: "Settings") -> Finding:
    from agent.models.catalogue import choose_model

    model, notices = choose_model(settings.model, os.environ)
    return Finding("note" if notices else "good", "model", ": ".join([model, *notices]))
