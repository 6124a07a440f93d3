"""Types of arguments: each function parses one word, or raises `ArgumentTypeError` with the reason."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class OneOf:
    """An argument type that accepts only these words."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def __call__(self, text: str) -> str:
        if text in self.names:
            return text
        near = nearest(text, self.names)
        hint = f"did you mean `{near}`?" if near else "the values are " + ", ".join(self.names)
        raise argparse.ArgumentTypeError(f"`{text}` is not a known value; {hint}")


def one_of(names: Sequence[str]) -> OneOf:
    return OneOf(names)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """Return the most similar known word, or None if no word is similar."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=cutoff)), None)


def count(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")


def position(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is not a whole number")


def port(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is not a port, 0 to 65535")


def amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if isfinite(value) and value > 0:
        return value
    raise argparse.ArgumentTypeError(f"`{text}` is not a number above 0")


def uuid(text: str) -> str:
    from uuid import UUID

    try:
        return str(UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is not a UUID") from None


def names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def path(text: str) -> Path:
    from pathlib import Path

    return Path(text)


def size(text: str) -> int:
    """Parse a size such as `1GB` into bytes; 1 KB is 1000 bytes, 1 KiB is 1024 bytes."""
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([kmgt]?)(i?)b?", text.lower(), re.ASCII)
    if not found or (found[3] and not found[2]):
        raise argparse.ArgumentTypeError(f"`{text}` is not a size such as 500MB or 1GB")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2]])


def edit(text: str) -> str:
    """Check that an edit of the state has the form PATH=VALUE, and return it."""
    if not re.match(r"[A-Za-z_]\w*(\.-?\w+)*=", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"`{text[:60]}` is not PATH=VALUE, such as current_goal=...")
    return text
