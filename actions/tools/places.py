"""Where a path of a call leads, and how places are written for a model."""

import os
import re
from pathlib import Path

_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def resolved(path: str, cwd: Path) -> Path:
    """Return the absolute path; `..` stays, because behind a link only the system knows what it means."""
    return cwd / os.path.expanduser(path)  # noqa: PTH111 -- Path.expanduser raises for unknown users


def shown(path: str | Path) -> str:
    """Return a path as one line of valid text: bytes that are no UTF-8 replaced, controls written out."""
    text = os.fsencode(path).decode(errors="replace")
    return _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown_from(path: str | Path, cwd: Path) -> str:
    """Return a path as the model should write it: relative below the working folder, else absolute."""
    text, base = os.fspath(path), os.path.join(os.fspath(cwd), "")  # noqa: PTH118 -- keeps the slash
    return shown(text[len(base) :] if text.startswith(base) and len(text) > len(base) else text)


def size_text(size: int) -> str:
    """Return a size for people, such as `12.3 KB`."""
    if size < 1000:
        return f"{size} bytes" if size != 1 else "1 byte"
    value = float(size)
    for unit in ("KB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"
