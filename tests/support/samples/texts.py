"""Random texts of all characters that UTF-8 can encode, for property tests."""

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"])
"""The default characters of `st.text()`; naming them saves its search over all characters, about a second."""


def any_text(min_size: int = 0, max_size: int | None = None) -> st.SearchStrategy[str]:
    return st.text(CHARACTERS, min_size=min_size, max_size=max_size)
