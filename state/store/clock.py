"""Timestamps as the store writes them."""

from datetime import UTC, datetime


def now() -> str:
    """Return the current time in UTC, ISO 8601 with milliseconds."""
    return text_of(datetime.now(UTC))


def text_of(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")
