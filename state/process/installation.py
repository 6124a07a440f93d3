"""Determines how Sandbur was installed, how it starts itself, and which command installs an extra."""

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

OWN_MODULE = ("-P", "-m", "sandbur")
"""The arguments with which an interpreter runs the command. A wheel, an editable installation and a checkout
all have this module, and with `-P` nothing is imported from the folder in which the process starts.
"""
_CHECKOUT = Path(__file__).resolve().parents[2]


def make_own_command(*words: str) -> list[str]:
    """Return the command line that runs `sandbur` with these words in the interpreter of this process."""
    return [sys.executable, *OWN_MODULE, *words]


def make_install_command(extra: str) -> str:
    """Return the shell command that adds an extra to this installation."""
    python = shlex.quote(sys.executable)
    # Environments created by uv have no pip.
    installs = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"{installs} {_find_source(extra)}"


def _find_source(extra: str) -> str:
    """Return the argument for pip: the folder, file or repository that Sandbur was installed from, else its
    name.
    """
    origin = read_origin()
    url = str(origin.get("url", ""))
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        return shlex.quote(f"sandbur[{extra}] @ {vcs['vcs']}+{url}@{vcs['commit_id']}")
    if not url.startswith("file:"):
        return shlex.quote(f"sandbur[{extra}] @ {url}" if url else f"sandbur[{extra}]")
    path = shlex.quote(f"{unquote(urlsplit(url).path)}[{extra}]")
    return f"-e {path}" if origin.get("dir_info", {}).get("editable") else path


def read_origin() -> dict[str, Any]:
    """Return pip's record of the source of Sandbur (PEP 610); empty if it was installed from an index."""
    recorded = _read_record("direct_url.json")
    if recorded is None:
        # Sandbur runs from the source folder, without an installation.
        return {"url": _CHECKOUT.as_uri(), "dir_info": {"editable": True}}
    return json.loads(recorded) if recorded else {}


def read_installer() -> str:
    """Return the name of the program that installed Sandbur, such as `pip`; empty if nothing recorded it."""
    return (_read_record("INSTALLER") or "").strip()


def _read_record(name: str) -> str | None:
    """Return a file of the package's metadata, empty if there is none; None without an installation."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution("sandbur").read_text(name) or ""
    except PackageNotFoundError:
        return None
