"""`sandbur update`: prints the command that updates this installation, for the way it was installed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ....agent.runtime.version import VERSION
from ....state.process.installation import read_installer, read_origin
from ...cli.grammar import Command, switch
from ...terminal.terminal import encode, put, say
from ...terminal.text.sanitize import plain

_NAME = "sandbur"
_LOOK_UP_S = 60.0
_IMAGE = "podman build --pull -t IMAGE -f docs/deploy/Containerfile ."
_OWNERS: tuple[tuple[Sequence[str], str, str], ...] = (
    (("dpkg-query", "-S"), ":", "sudo apt-get install --only-upgrade {}"),
    (("rpm", "-qf", "--queryformat", "%{NAME}"), "\n", "sudo dnf upgrade {}"),
    (("pacman", "-Qqo"), "\n", "sudo pacman -S {}"),
)
"""The command that prints which package of the system owns a file, what ends the name in its output, and the
command that updates the package."""


class UpdateCommand(Command):
    GROUPS = ()
    EXAMPLES = (
        ('sh -c "$(sandbur update)"', "update now: stdout has the command alone"),
        ("sandbur update --check", "asks the installer for newer versions, too"),
    )
    check_newer: bool = switch("--check", "run the installer's own command that lists newer versions")
    json: bool = switch("--json", "JSON on stdout")

    async def run(self) -> int:
        update = find_update(this_place())
        newer = look_up(update) if self.check_newer else None
        if self.json:
            put(encode({"version": VERSION, **update._asdict(), "newer": newer}))
            return 0
        say(f"Sandbur {VERSION} was installed {update.origin}. This command updates it:")
        put(update.command)
        for text in (update.note, newer):
            if text:
                say(plain(text).rstrip())
        return 0


class InstallPlace(NamedTuple):
    """The environment that a program runs in."""

    prefix: Path
    base_prefix: Path
    python: str
    sources: Path
    """The folder of the package."""
    origin: Mapping[str, Any]
    """Where the package came from, as the installer recorded it (PEP 610)."""
    installer: str
    has_pip: bool = True
    is_writable: bool = True
    is_container: bool = False


class UpdateAdvice(NamedTuple):
    kind: str
    origin: str
    """A clause that says how Sandbur was installed."""
    command: str
    note: str = ""
    look_up: tuple[str, ...] = ()
    """The command of the installer that lists newer versions; empty: there is none."""


def this_place() -> InstallPlace:
    """Return the environment of this process."""
    return InstallPlace(
        Path(sys.prefix),
        Path(sys.base_prefix),
        sys.executable,
        Path(__file__).resolve().parents[3],
        read_origin(),
        read_installer(),
        has_pip=find_spec("pip") is not None,
        is_writable=os.access(sys.prefix, os.W_OK),
        is_container=any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv"))),
    )


def find_update(place: InstallPlace) -> UpdateAdvice:
    """Return how a program in this environment is updated."""
    found = next(filter(None, (find(place) for find in _FINDERS)))
    if place.is_container and not found.note and found.kind not in ("checkout", "container"):
        return found._replace(note="This lasts as long as this container: update its image, too.")
    return found


def look_up(update: UpdateAdvice) -> str:
    """Return what the installer prints about newer versions, or a sentence about why that is unknown."""
    if not update.look_up:
        return "Its installer has no command that lists newer versions."
    line = shlex.join(update.look_up)
    try:
        done = subprocess.run(
            update.look_up,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LOOK_UP_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"Newer versions are unknown, because `{line}` cannot be run: {error}"
    text = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        return f"Newer versions are unknown, because `{line}` failed:\n{text}"
    return f"`{line}` prints:\n{text}" if text else f"`{line}` prints nothing, so that nothing is newer."


def _find_checkout(place: InstallPlace) -> UpdateAdvice | None:
    if not place.origin.get("dir_info", {}).get("editable"):
        return None
    folder = _path_of(place.origin)
    command, note = _after_pull(folder, _make_pip_command(place, f"-e {shlex.quote(folder)}"))
    look = ("git", "-C", folder, "fetch", "--dry-run", "--verbose") if _is_checkout(folder) else ()
    return UpdateAdvice("checkout", f"as the editable checkout {folder}", command, note, look)


def _find_pipx(place: InstallPlace) -> UpdateAdvice | None:
    try:
        metadata = json.loads((place.prefix / "pipx_metadata.json").read_text("utf-8"))
        source, suffix = str(metadata["main_package"]["package_or_url"]), metadata["main_package"]["suffix"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if not source.startswith("/"):
        command = f"pipx upgrade {shlex.quote(place.prefix.name)}"
        return UpdateAdvice("pipx", f"by pipx from {source}", command, look_up=("pipx", "list", "--outdated"))
    options = f"--force --suffix={shlex.quote(suffix)}" if suffix else "--force"
    command, note = _after_pull(source.partition("[")[0], f"pipx install {options} {shlex.quote(source)}")
    return UpdateAdvice("pipx", f"by pipx from {source}", command, note)


def _find_uv_tool(place: InstallPlace) -> UpdateAdvice | None:
    try:
        receipt = tomllib.loads((place.prefix / "uv-receipt.toml").read_text("utf-8"))
        (needed,) = (one for one in receipt["tool"]["requirements"] if one["name"] == _NAME)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    folder = str(needed.get("directory") or needed.get("editable") or "")
    look = ("uv", "tool", "list", "--outdated")
    if not folder:
        source = str(needed.get("git") or needed.get("url") or needed.get("path") or "a package index")
        return UpdateAdvice(
            "uv", f"by uv from {source}", f"uv tool upgrade {place.prefix.name}", look_up=look
        )
    extras = f"[{','.join(needed['extras'])}]" if needed.get("extras") else ""
    command, note = _after_pull(folder, f"uv tool install --reinstall {shlex.quote(folder + extras)}")
    return UpdateAdvice("uv", f"by uv from {folder}", command, note)


def _find_package_manager(place: InstallPlace) -> UpdateAdvice | None:
    """Return the update of what Nix, Homebrew or conda installed."""
    if place.sources.is_relative_to("/nix/store"):
        return UpdateAdvice("system", "by Nix", f"nix profile upgrade {_NAME}")
    if "Cellar" in place.sources.parts:
        look = ("brew", "outdated", _NAME)
        return UpdateAdvice("system", "by Homebrew", f"brew upgrade {_NAME}", look_up=look)
    if place.installer == "conda":
        look = ("conda", "search", _NAME)
        line = f"conda update --prefix {shlex.quote(str(place.prefix))} {_NAME}"
        return UpdateAdvice("system", "by conda", line, look_up=look)
    return None


def _find_system_package(place: InstallPlace) -> UpdateAdvice | None:
    if place.prefix != place.base_prefix or place.installer in ("pip", "uv"):
        return None
    for query, end, command in _OWNERS:
        if shutil.which(query[0]) is None:
            continue
        line = [*query, str(place.sources / "__init__.py")]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        owner = done.stdout.decode(errors="replace").partition(end)[0].strip()
        if done.returncode == 0 and owner:
            package = shlex.quote(owner)
            return UpdateAdvice("system", f"as the package {owner} of this system", command.format(package))
    return None


def _find_image(place: InstallPlace) -> UpdateAdvice | None:
    if not place.is_container or place.is_writable:
        return None
    note = "Run it in a checkout with the newer sources, IMAGE being the name of this container's image."
    return UpdateAdvice("container", "in the image of this container", _IMAGE, note)


def _find_pip(place: InstallPlace) -> UpdateAdvice:
    url = str(place.origin.get("url", ""))
    by = "by pip" if place.has_pip else "by uv pip"
    if "vcs_info" in place.origin:
        vcs = place.origin["vcs_info"]
        revision = f"@{vcs['requested_revision']}" if vcs.get("requested_revision") else ""
        source = f"{_NAME} @ {vcs['vcs']}+{url}{revision}"
        return UpdateAdvice(
            "pip", f"{by} from {url}", _make_pip_command(place, f"--upgrade {shlex.quote(source)}")
        )
    if not url:
        look = (place.python, "-m", "pip", "index", "versions", _NAME) if place.has_pip else ()
        return UpdateAdvice(
            "pip", f"{by} from a package index", _make_pip_command(place, f"--upgrade {_NAME}"), look_up=look
        )
    if "dir_info" in place.origin:
        folder = _path_of(place.origin)
        command, note = _after_pull(folder, _make_pip_command(place, f"--upgrade {shlex.quote(folder)}"))
        return UpdateAdvice("pip", f"{by} from {folder}", command, note)
    note = "Put the path or the address of the newer wheel in the place of WHEEL."
    return UpdateAdvice("pip", f"{by} from {url}", _make_pip_command(place, "--upgrade WHEEL"), note)


_FINDERS: tuple[Callable[[InstallPlace], UpdateAdvice | None], ...] = (
    _find_checkout,
    _find_image,
    _find_pipx,
    _find_uv_tool,
    _find_package_manager,
    _find_system_package,
    _find_pip,
)


def _make_pip_command(place: InstallPlace, words: str) -> str:
    """Return the command that installs into an environment; those that uv made have no pip."""
    python = shlex.quote(place.python)
    return (
        f"{python} -m pip install {words}" if place.has_pip else f"uv pip install --python {python} {words}"
    )


def _after_pull(folder: str, command: str) -> tuple[str, str]:
    """Return a command that first pulls the sources which it installs, and a note if Git cannot do that."""
    if _is_checkout(folder):
        return f"git -C {shlex.quote(folder)} pull && {command}", ""
    return (
        command,
        f"Before that, replace the sources in {folder}, which is no checkout, by newer ones.",
    )


def _is_checkout(folder: str) -> bool:
    return Path(folder, ".git").exists()


def _path_of(origin: Mapping[str, Any]) -> str:
    return unquote(urlsplit(str(origin.get("url", ""))).path)
