"""Timestamps in the format of the store."""

from datetime import UTC, datetime


def now() -> str:
    """Return the current time in UTC, ISO 8601 with milliseconds."""
    return format_time(datetime.now(UTC))


def count_milliseconds(start: str, end: str) -> int:
    """Return the milliseconds between two stored times; 0 if one is unknown, or if a clock was set back."""
    try:
        taken = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    except (ValueError, TypeError):
        return 0
    return max(int(taken.total_seconds() * 1000), 0)


def format_time(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
