"""Texts of any characters that UTF-8 has, for properties that hold for every text."""

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"])
"""Those that `st.text()` takes by itself; it tries all million of them first, which takes a second."""


def any_text(min_size: int = 0, max_size: int | None = None) -> st.SearchStrategy[str]:
    return st.text(CHARACTERS, min_size=min_size, max_size=max_size)
