"""The look of the screen: a style for each role of a text, and themes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ....agent.config.settings import Theme


class Look:
    """The look of this process. It is not a dataclass, so that `--help` does not import `dataclasses`."""

    __slots__ = ("is_plain", "theme")

    def __init__(self) -> None:
        self.theme: Theme = "dark"
        self.is_plain = False
        """True if only words and line ends are printed, for screen readers."""


LOOK = Look()


def appear(theme: Theme, is_plain: bool) -> None:
    """Set the theme of this process, and whether only words and line ends are printed."""
    LOOK.theme, LOOK.is_plain = theme, is_plain
    if is_plain:
        # Common libraries read this variable.
        os.environ["TERM"] = "dumb"


_DARK = {
    "plain": "none",
    "heading": "bold",
    "quiet": "dim",
    "thought": "dim italic",
    "good": "green",
    "careful": "yellow",
    "caution": "bold yellow",
    "frame": "not bold not dim yellow",
    "wrong": "red",
    "busy": "cyan",
    "yolo": "bold red",
    "trial": "bold magenta",
    "added": "green",
    "added.word": "bold reverse",
    "removed": "red",
    "removed.word": "bold reverse",
    "hunk": "cyan",
}
"""Role -> style. A line of text may also name a style of rich directly."""
_LIGHT = {
    **_DARK,
    "careful": "orange4",
    "caution": "bold orange4",
    "frame": "not bold not dim orange4",
    "yellow": "orange4",
    "bold yellow": "bold orange4",
    "busy": "blue",
    "cyan": "blue",
    "hunk": "blue",
    "good": "dark_green",
    "green": "dark_green",
    "added": "dark_green",
}
_STYLES: dict[Theme, dict[str, str]] = {"dark": _DARK, "light": _LIGHT, "none": _DARK}


_AS_THEY_ARE = {name: name for name in _LIGHT.keys() - _DARK.keys()}
"""The styles of rich that the light theme changes, unchanged: the other themes restore them."""


def put_on(console: Console, theme: Theme) -> None:
    """Define the roles of a theme for a console; the theme `none` has bold and dim text, but no colours."""
    from rich.theme import Theme as RichTheme

    console.push_theme(RichTheme({**_AS_THEY_ARE, **_STYLES[theme]}))
    console.no_color = theme == "none" or bool(os.environ.get("NO_COLOR"))


def code_theme(theme: Theme) -> str:
    """Return the name of the theme that highlights code."""
    return "ansi_light" if theme == "light" else "ansi_dark"
