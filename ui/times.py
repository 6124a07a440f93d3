"""Stored times as a person reads them."""

from datetime import UTC, datetime

from ui.sanitize import one_line

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def local_time(stamp: str) -> str:
    """Return a stored UTC time as the local date and minute."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return one_line(stamp)


def ago(stamp: str) -> str:
    """Return how long ago a stored time was, in words."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()
    except (ValueError, TypeError):
        return "some time ago"
    if seconds < 0:
        return "in the future: a clock was changed"
    for length, unit in _UNITS:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
