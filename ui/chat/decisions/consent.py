"""Asks a person about trust and risk: a project's configuration, tools and texts, and yolo mode."""

import os
import sys
from pathlib import Path

from ....agent.config.data_folder import acknowledge, is_acknowledged
from ....agent.config.paths import CONFIG_NAME, MAX_CONFIG_BYTES, TEXT_FOLDERS, read_bytes, text_folders
from ....agent.config.trust import trust, trust_link, trust_place
from ....agent.config.trust_summary import Disclosure, summarize_settings
from ....agent.extensions.active_tools.project_tools import project_tools
from ....agent.extensions.markdown_files import describe_fields, folders_of, list_untrusted
from ....agent.runtime.prompts import find_instructions
from ....state.errors import ConfigError
from ...terminal.terminal import make_console
from ...terminal.text.sanitize import one_line
from .questions import OneKey

MAX_HARMLESS_LINES = 20
MAX_TEXTS = 40
_YOLO = """\
In yolo mode every command and every change runs without a question, with your rights, also if a file or a web
page has misled the model. Deny rules still apply. This question is asked once. The mode ends with its
session; another session needs --yolo or /mode yolo again."""


async def ask_to_trust(config: Path | None) -> bool:
    """Show what an untrusted configuration would change, and ask; return whether it is trusted now."""
    found = None if config is None else read_bytes(config, MAX_CONFIG_BYTES)
    if config is None or found is None:
        return False

    content = found[0]
    summary = summarize_settings(content, config)
    if summary.problem:
        _print(f"{summary.problem} The configuration is ignored.")
        return False
    is_settings = config.match(CONFIG_NAME)
    place = config.parent.parent if is_settings else config
    for line in _lines(summary):
        _print(line)
    _print(f"{config} is not trusted yet. To take trust back later: sandbur trust --remove {place}")
    if not await _says_yes("Use it in this folder, until it changes?"):
        return False
    if is_settings:
        trust(place, os.environ, content)
    else:
        trust_place(place, content, os.environ)
    return True


def _lines(summary: Disclosure) -> list[str]:
    """Return all dangerous effects of a configuration, and the first of the harmless ones."""
    more = len(summary.rest) - MAX_HARMLESS_LINES
    dangerous = [f"  ! {line}" for line in summary.dangerous]
    rest = [f"    {line}" for line in summary.rest[:MAX_HARMLESS_LINES]]
    return [
        "This project has its own configuration. It",
        *(dangerous or ["  sets nothing that could do harm."]),
        *(["  and sets limits, prices or deny rules:"] if rest else []),
        *rest,
        *([f"    ({more} more of this kind)"] if more > 0 else []),
    ]


async def ask_about_links(cwd: Path) -> None:
    """Ask about instruction files that are links out of the repository; after a "no" ask again at the next
    start."""
    for found in find_instructions(cwd, os.environ).outside:
        _print(f"{found.link} is a link out of this project, to {found.target}.")
        _print(f"To take trust back later: sandbur trust --remove {found.link}")
        if await _says_yes("Read it, and tell the model what it says?"):
            trust_link(found.link, found.target, os.environ)


async def ask_about_tools(cwd: Path) -> None:
    """Ask about the Python tools of a project; after a "no" ask again at the next start."""

    try:
        found = project_tools(cwd)
    except ConfigError as problem:
        _print(f"{problem} The tools of this project are ignored.")
        return
    if found is None or found.is_trusted(os.environ):
        return
    _print(f"This project has tools as Python programs in {found.folder}:")
    for name, content in found.files.items():
        _print(f"  ! {name} ({len(content):,} bytes)")
    _print("They run with your rights as soon as a session begins, before any call is judged.")
    _print(f"To take trust back later: sandbur trust --remove {found.folder}")
    if await _says_yes("Run them in this folder, until one of them changes?"):
        found.trust(os.environ)


async def ask_about_texts(cwd: Path) -> None:
    """Ask about a project's skills, commands and agents; after a no they are asked about next time."""
    if not any(text_folders(kind, cwd, os.environ) for kind in TEXT_FOLDERS):
        return

    for kind in TEXT_FOLDERS:
        for folder, _ in list_untrusted(folders_of(kind, cwd, os.environ), os.environ):
            try:
                names = list(folder.files)
            except ConfigError:
                continue  # a notice of the session gives the reason
            _print(f"This project has {kind}, texts for you and the model, in {folder.path}:")
            for name in names[:MAX_TEXTS]:
                fields = describe_fields(folder, name)
                _print(f"  ! {name}{f' ({fields})' if fields else ''}")
            if len(names) > MAX_TEXTS:
                _print(f"    ({len(names) - MAX_TEXTS} more files)")
            _print("They instruct the model. Calls that follow from them are judged like all others.")
            _print(f"To take trust back later: sandbur trust --remove {folder.path}")
            if await _says_yes("Use them in this folder, until one of them changes?"):
                folder.trust(os.environ)


async def knows_yolo(home: Path, otherwise: str = "") -> bool:
    """Return whether the person accepts yolo mode; ask once, and record a "yes" in the data folder `home`.

    `otherwise` is printed if the answer is no.
    """
    if is_acknowledged(home):
        return True
    make_console(sys.stdout).print(_YOLO.replace("\n", " "), markup=False, highlight=False)
    if not await _says_yes("Go on in yolo mode?"):
        if otherwise:
            _print(otherwise)
        return False
    acknowledge(home)
    return True


async def _says_yes(question: str) -> bool:
    return (await OneKey(f"{question} [y/n] ", "yn", safe="n").ask()).key == "y"


def _print(line: str) -> None:
    """Print a line in full, without wrapping, markup or control characters."""
    indent = line[: len(line) - len(line.lstrip())]
    console = make_console(sys.stdout)
    console.print(f"{indent}{one_line(line)}", markup=False, highlight=False, soft_wrap=True)
