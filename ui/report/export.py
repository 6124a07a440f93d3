"""Writes the report of a session as HTML or Markdown."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state.store.store import Store


def report(store: "Store", session_id: str, form: str) -> Iterator[str]:
    """Yield the report as `html` or `md`, piece by piece."""
    from agent.report.reading import read_account

    account = read_account(store, session_id)
    if form == "html":
        from ui.report.html import html_page

        yield from html_page(account)
    else:
        from ui.report.markdown import markdown

        yield from markdown(account)
