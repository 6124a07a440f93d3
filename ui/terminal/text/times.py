"""Times and durations in words."""

from datetime import UTC, datetime

from .sanitize import one_line

_AGES = ((86_400 * 365, "y"), (86_400, "d"), (3600, "h"), (60, "m"))
_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def format_seconds(seconds: float) -> str:
    """Return a duration as a person writes it."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    return whole_seconds(int(seconds))


def whole_seconds(seconds: int) -> str:
    """Return a duration in whole seconds, such as `42s`, `3m 07s` or `2h 05m`."""
    if seconds < 60:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m {rest:02d}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02d}m"


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


def short_age(stamp: str, now: datetime) -> str:
    """Return how long ago a stored time was, such as `5m`, `2h` or `3d`."""
    try:
        seconds = (now - datetime.fromisoformat(stamp)).total_seconds()
    except (ValueError, TypeError):
        return "?"
    length, unit = next((pair for pair in _AGES if seconds >= pair[0]), (60, "m"))
    return f"{max(0, int(seconds // length))}{unit}"
