"""Types of arguments that are times: each function parses one word, or raises `ArgumentTypeError`.

The help of the command does without `datetime`, which takes longer than anything else in it.
"""

import argparse
import re
from datetime import UTC, datetime, timedelta

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MOST_DAYS = 36_500


def duration(text: str) -> timedelta:
    """Parse an age such as `30d`; the units are `s`, `m`, `h`, `d` and `w`."""
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", text, re.ASCII)
    age = timedelta(seconds=int(found[1]) * _SECONDS[found[2]]) if found else None
    if age is None or age.days > _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"`{text}` is not an age such as 30d, 12h or 2w")
    return age


def moment(text: str) -> datetime:
    """Parse a date, a date and a time, or an age before now such as `2h`. Without a zone it is local time."""
    return _parse_moment(text, days=0)


def end_moment(text: str) -> datetime:
    """Parse a moment as `moment` does, except that a date is the end of that day."""
    return _parse_moment(text, days=1)


def _parse_moment(text: str, days: int) -> datetime:
    """Return a moment in UTC. `days` are added to a date without a time."""
    try:
        if re.fullmatch(r"[0-9]{1,6}[smhdw]", text, re.ASCII):
            return datetime.now(UTC) - duration(text)
        is_date = re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII)
        found = datetime.fromisoformat(text) + timedelta(days=days if is_date else 0)
        return found.astimezone(UTC)
    except (ValueError, OverflowError, argparse.ArgumentTypeError):
        raise argparse.ArgumentTypeError(
            f"`{text[:60]}` is not a time such as 2026-11-05, 2026-11-05T09:30, 3d or 12h"
        ) from None
