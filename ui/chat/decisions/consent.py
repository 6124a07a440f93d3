"""Questions about trust and risk: a project's configuration, a link out of it, yolo mode."""

import os
import sys
from pathlib import Path

from ....agent.config.data_folder import acknowledge, is_acknowledged
from ....agent.config.paths import CONFIG_NAME, MAX_CONFIG_BYTES, TEXT_FOLDERS, read_bytes, text_folders
from ....agent.config.trust import trust, trust_link, trust_place
from ....agent.config.trust_summary import Disclosure, summarize_settings
from ....agent.extensions.active_tools.tool_discovery import project_tools
from ....agent.extensions.markdown_files import folders_of, list_untrusted
from ....agent.runtime.prompts import find_instructions
from ....state.errors import ConfigError
from ...terminal.terminal import make_console
from ...terminal.text.sanitize import one_line
from .questions import OneKey

MAX_HARMLESS_LINES = 20
MAX_TEXTS = 40
_YOLO = """\
In yolo mode every command and every change runs without a question, with your rights, also what a file or a
web page has talked the model into. What a deny rule names is refused still. This is asked once."""


async def newly_trusted(config: Path | None) -> bool:
    """Show the effects of an untrusted configuration and ask; return whether it is trusted now."""
    found = None if config is None else read_bytes(config, MAX_CONFIG_BYTES)
    if config is None or found is None:
        return False

    content = found[0]
    summary = summarize_settings(content, config)
    if summary.problem:
        _print(f"{summary.problem} It is left out.")
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
    """Return the lines to read: all dangerous effects, and the first of the others."""
    more = len(summary.rest) - MAX_HARMLESS_LINES
    dangerous = [f"  ! {line}" for line in summary.dangerous]
    rest = [f"    {line}" for line in summary.rest[:MAX_HARMLESS_LINES]]
    return [
        "This project brings a configuration of its own. It",
        *(dangerous or ["  sets nothing that could do harm."]),
        *(["  and sets limits, prices or deny rules:"] if rest else []),
        *rest,
        *([f"    ({more} more of this kind)"] if more > 0 else []),
    ]


async def ask_about_links(cwd: Path) -> None:
    """Ask about instruction files that are links out of the repository; after a no they are asked about next
    time."""
    for found in find_instructions(cwd, os.environ).outside:
        _print(f"{found.link} is a link out of this project, to {found.target}.")
        _print(f"To take trust back later: sandbur trust --remove {found.link}")
        if await _says_yes("Read it, and tell the model what it says?"):
            trust_link(found.link, found.target, os.environ)


async def ask_about_tools(cwd: Path) -> None:
    """Ask about a project's Python tools; after a no they are asked about next time."""

    try:
        found = project_tools(cwd)
    except ConfigError as problem:
        _print(f"{problem} The tools of this project are left out.")
        return
    if found is None or found.is_trusted(os.environ):
        return
    _print(f"This project brings tools as Python programs in {found.folder}:")
    for name, content in found.files.items():
        _print(f"  ! {name} ({len(content):,} bytes)")
    _print("They run with your rights when a session begins, before any call of them is judged.")
    _print(f"To take trust back later: sandbur trust --remove {found.folder}")
    if await _says_yes("Run them in this folder, until one of them changes?"):
        found.trust(os.environ)


async def ask_about_texts(cwd: Path) -> None:
    """Ask about a project's skills and commands; after a no they are asked about next time."""
    if not any(text_folders(kind, cwd, os.environ) for kind in TEXT_FOLDERS):
        return

    for kind in TEXT_FOLDERS:
        for folder, _ in list_untrusted(folders_of(kind, cwd, os.environ), os.environ):
            try:
                names = list(folder.files)
            except ConfigError:
                continue  # the session says why it is left out
            _print(f"This project brings {kind}, texts for you and the model, in {folder.path}:")
            for name in names[:MAX_TEXTS]:
                _print(f"  ! {name}")
            if len(names) > MAX_TEXTS:
                _print(f"    ({len(names) - MAX_TEXTS} more files)")
            _print("They tell the model what to do. Each call that comes of it is judged as ever.")
            _print(f"To take trust back later: sandbur trust --remove {folder.path}")
            if await _says_yes("Use them in this folder, until one of them changes?"):
                folder.trust(os.environ)


async def knows_yolo(home: Path, otherwise: str = "") -> bool:
    """Return whether the person knows what yolo mode does; ask, unless that is recorded.

    `otherwise` is printed if the answer is no: the mode that applies instead.
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
    """Print a line whole, however long, and nothing of it as anything but text."""
    indent = line[: len(line) - len(line.lstrip())]
    console = make_console(sys.stdout)
    console.print(f"{indent}{one_line(line)}", markup=False, highlight=False, soft_wrap=True)
