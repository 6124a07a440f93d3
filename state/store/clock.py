"""Timestamps as the store writes them."""

from datetime import UTC, datetime


def now() -> str:
    """Return the current time in UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
