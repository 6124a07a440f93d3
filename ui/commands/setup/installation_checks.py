"""Checks of `sandbur doctor` for this machine: Python, packages, extras, programs, the terminal."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Literal

from ....actions.tools.shell.sandbox.sandbox import Workplace, what_works
from ....actions.tools.shell.sandbox.wall import KINDS, wall_kind, why_no_wall
from ....agent.config.paths import user_home
from ....agent.config.settings import Settings
from ....agent.runtime.version import VERSION
from ....state.lazy_dataclass import dataclass

_PACKAGES = ("apache-burr", "pydantic", "openai", "anthropic", "rich", "prompt_toolkit", "genai-prices")
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")
_FOR_EXTRA = re.compile(r";.*\bextra == ['\"]([^'\"]+)['\"]")
_FOR_DEVELOPERS = ("test", "dev")
"""The extras that no user needs."""
_PROGRAMS = (
    ("git", "git", "the model cannot use version control"),
    ("rg", "ripgrep", "grep and glob search in Python, slower"),
)
"""Program, the package that installs it, and what happens without it."""
_INSTALLERS = {
    "apt": "sudo apt install",
    "dnf": "sudo dnf install",
    "pacman": "sudo pacman -S",
    "zypper": "sudo zypper install",
    "apk": "sudo apk add",
    "brew": "brew install",
}
_LEAST_COLUMNS = 40


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Literal["good", "note", "bad"]
    name: str
    detail: str
    fix: str = ""
    """A command line or an instruction that solves the problem; empty if there is no problem."""


def installation() -> Iterator[Finding]:
    found = ".".join(map(str, sys.version_info[:3]))
    yield Finding("good", "Python", f"{found} at {sys.executable}")
    yield from _packages()
    yield _extras()
    for name, package, without in _PROGRAMS:
        path = shutil.which(name)
        yield (
            Finding("good", name, path)
            if path
            else Finding("note", name, f"not installed: {without}", installs(package))
        )
    yield _terminal()


def installs(package: str) -> str:
    """Return the command that installs a system package."""
    known = next((command for name, command in _INSTALLERS.items() if shutil.which(name)), "")
    return f"{known} {package}" if known else f"install {package} with the package manager of your system"


def _packages() -> Iterator[Finding]:
    yield Finding("good", "sandbur", f"{VERSION} at {Path(__file__).resolve().parents[3]}")
    found: list[str] = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            fix = f"{shlex.quote(sys.executable)} -m pip install {name}"
            yield Finding("bad", name, "is not installed", fix)
    yield Finding("good", "packages", ", ".join(found))


def has_extra(name: str, package: str = "sandbur") -> bool:
    """Return whether all that an extra of a package needs is installed, by the metadata of the packages."""
    found = [(line, _FOR_EXTRA.search(line)) for line in requires(package) or ()]
    needed = {line: marker[0] for line, marker in found if marker is not None and marker[1] == name}
    # What only some systems or versions need counts only if there is nothing else.
    always = [line for line, marker in needed.items() if " and " not in marker]
    return all(map(_is_installed, always)) if always else any(map(_is_installed, needed))


def _is_installed(requirement: str) -> bool:
    found = _REQUIREMENT.match(requirement)
    assert found is not None, "metadata names a package"
    try:
        version(found[1])
        extras = filter(None, (found[2] or "").split(","))
        return all(has_extra(extra.strip(), found[1]) for extra in extras)
    except PackageNotFoundError:
        return False


def list_extras() -> list[str]:
    """Return the names of all extras of this installation, by its metadata."""
    found = metadata("sandbur").get_all("Provides-Extra") or []
    return sorted(set(found) - set(_FOR_DEVELOPERS))


def _extras() -> Finding:
    try:
        known = list_extras()
    except PackageNotFoundError:
        return Finding("note", "extras", "not known: Sandbur is not installed as a package")
    there = [name for name in known if has_extra(name)]
    others = [name for name in known if name not in there]
    more = f"; not installed: {', '.join(others)}" if others else ""
    return Finding("good", "extras", f"{', '.join(there) or 'none'}{more}")


def _terminal() -> Finding:
    if not sys.stdout.isatty():
        return Finding("good", "terminal", "the output does not go to a terminal")
    term, size = os.environ.get("TERM", ""), os.get_terminal_size(sys.stdout.fileno())
    text = f"{term or 'TERM is not set'}, {size.columns} columns, {sys.stdout.encoding}"
    if term in ("", "dumb"):
        lacking = "; no line is updated in place"
        return Finding("note", "terminal", text + lacking, "export TERM=xterm-256color")
    if sys.stdout.encoding.lower().replace("-", "") != "utf8":
        return Finding("note", "terminal", f"{text}; symbols are ASCII", "export LC_ALL=C.UTF-8")
    if size.columns < _LEAST_COLUMNS:
        lacking = f"; words are broken below {_LEAST_COLUMNS} columns"
        return Finding("note", "terminal", text + lacking, "make the window wider")
    return Finding("good", "terminal", text)


def sandboxes(settings: Settings) -> Finding:
    found = list(what_works(Workplace((settings.cwd,), user_home(os.environ))))
    text = ", ".join(f"{kind} {f'does not work ({why})' if why else 'works'}" for kind, why in found)
    if not all(why for _, why in found):
        return Finding("good", "sandbox", f"{settings.sandbox}; {text}")
    verdict = "bad" if settings.sandbox == "required" else "note"
    return Finding(verdict, "sandbox", f"{settings.sandbox}; {text}", installs("bubblewrap"))


def wall() -> Finding:
    """Check whether commands that only read, which run unasked, have a read-only view of the files."""
    if sys.platform == "linux":
        if (kind := wall_kind()) is not None:
            what = "commands that only read run unasked, and cannot write or use a network"
            return Finding("good", "read-only view", f"by {kind}: {what}")
        why = "; ".join(f"{one}: {why_no_wall(one)}" for one in KINDS)
    else:
        why = "Linux only"
    detail = f"not available ({why}): commands that only read run without a question and with your rights"
    return Finding(
        "note", "read-only view", detail, installs("bubblewrap") if sys.platform == "linux" else ""
    )
