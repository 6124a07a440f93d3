"""The page of a session as the file `/memories/session.md`, as the model's tool shows and changes it."""

from __future__ import annotations

from collections.abc import Callable

from ....actions.turn.session_page import MOST_PAGE_BYTES, check_page
from ....state.conversation.messages import PageEdit
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass

PAGE = "/memories/session.md"
_OF_A_CALL = "The page of the session can be changed only by a call of your own."


def is_page(path: str | None) -> bool:
    """Return whether a virtual path is that of the page."""
    return [part for part in (path or "").split("/") if part] == PAGE.split("/")[1:]


def is_root(path: str) -> bool:
    """Return whether a virtual path is that of all files of memory."""
    return path.strip("/") == PAGE.split("/")[1]


def describe_page(text: str) -> str:
    """Return the line of the page in a listing of `/memories`; empty if there is no page."""
    size = len(text.encode())
    return f"{PAGE} ({size:,} of {MOST_PAGE_BYTES:,} bytes): the page of this session" if text else ""


@dataclass(frozen=True, slots=True)
class PageFile:
    """The page as the calls before this one left it.

    Each method raises `UsageError` with a sentence for the model.
    """

    text: str | None
    """None: the call cannot change the page, because another tool made it."""
    mask: Callable[[str], str]
    """Returns a text with its secrets masked."""

    def view(self) -> str:
        """Return the page with line numbers."""
        lines = [f"{number:>6}\t{line}" for number, line in enumerate(self._require().split("\n"), 1)]
        return "\n".join([f"{PAGE}: the page of this session.", *lines])

    def create(self, text: str) -> tuple[str, PageEdit]:
        """Write the whole page, also over an older one."""
        self._require_own_call()
        page = check_page(text, self.mask)
        if not page:
            raise UsageError("The page needs a text.", "To clear it, delete it.")
        return f"Written to {PAGE}.", PageEdit(text=page, is_in_call=True)

    def replace(self, old: str, new: str) -> tuple[str, PageEdit]:
        """Replace a text that has to occur exactly once."""
        page = self._require()
        count = page.count(old) if old else 0
        if count != 1:
            what = "old_str is not in" if not count else f"old_str occurs {count} times in"
            raise UsageError(f"{what} {PAGE}.", "Copy it from the page, and make it unique.")
        return self._change(page.replace(old, new))

    def insert(self, line: int, text: str) -> tuple[str, PageEdit]:
        """Insert lines after a line; 0 is the beginning."""
        self._require_own_call()
        lines = self.text.split("\n") if self.text else []
        if line > len(lines):
            raise UsageError(
                f"insert_line is {line}, but {PAGE} has {len(lines)} lines.", "0 is its beginning."
            )
        return self._change("\n".join([*lines[:line], text.removesuffix("\n"), *lines[line:]]))

    def delete(self) -> tuple[str, PageEdit]:
        self._require()
        return f"{PAGE} is cleared.", PageEdit(text="", is_in_call=True)

    def _change(self, text: str) -> tuple[str, PageEdit]:
        self._require_own_call()
        page = check_page(text, self.mask)
        if page == self.text:
            raise UsageError(f"The text of {PAGE} stays the same.", "Nothing was changed.")
        return (f"{PAGE} is now:\n{page}" if page else f"{PAGE} is cleared."), PageEdit(text=page)

    def _require(self) -> str:
        self._require_own_call()
        if not self.text:
            raise UsageError(f"{PAGE} is empty.", "Create it.")
        return self.text

    def _require_own_call(self) -> None:
        if self.text is None:
            raise UsageError(_OF_A_CALL)
