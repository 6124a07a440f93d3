"""Suggests the known names that a mistyped name probably means."""

from collections.abc import Collection
from difflib import get_close_matches


def suggest_names(name: str, known: Collection[str], otherwise: str = "", most: int = 1) -> str:
    """Return a question such as "Did you mean `allow`?", or `otherwise` if no known name is similar.

    `most` is the largest number of names in the question.
    """
    near = get_close_matches(name, known, n=most)
    return f"Did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else otherwise


def suggest_keys(key: str, known: Collection[str], most: int = 1) -> str:
    """Return a question about similar keys of a table; if there are none, a sentence with all its keys."""
    return suggest_names(key, known, f"The keys are: {', '.join(known)}.", most)


def suggest_values(name: str, known: Collection[str]) -> str:
    """Return a question about a similar value; if there is none, a sentence with all values."""
    return suggest_names(name, known, f"There are: {', '.join(known) or 'none'}.")
