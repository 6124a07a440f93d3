"""Reads single messages of any history, page by page, for whoever walks through a whole run."""

from collections import OrderedDict

from pydantic import ValidationError

from state.messages import Message
from state.store.codec import decode_message
from state.store.database import Database
from state.store.health import places_set_aside

_PAGE_ROWS = 100
_KEPT_PAGES = 8

Page = tuple[str, int, int]


class MessagePages:
    """Holds a few pages at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pages: OrderedDict[Page, dict[int, str]] = OrderedDict()
        self._damaged: dict[str, set[str]] = {}

    def message(self, session_id: str, log: int, index: int) -> Message | None:
        """Return a message; None if it is gone or damaged."""
        if f"{log}/{index}" in self._set_aside(session_id):
            return None
        body = self._page((session_id, log, index // _PAGE_ROWS)).get(index)
        try:
            return None if body is None else decode_message(body)
        except ValidationError:
            return None

    def _page(self, name: Page) -> dict[int, str]:
        if name not in self._pages:
            session_id, log, number = name
            rows = self._database.query(
                "SELECT idx, body FROM messages WHERE session_id = ? AND log = ? AND idx >= ? AND idx < ?",
                (session_id, log, number * _PAGE_ROWS, (number + 1) * _PAGE_ROWS),
            )
            self._pages[name] = {int(index): str(body) for index, body in rows}
            if len(self._pages) > _KEPT_PAGES:
                self._pages.popitem(last=False)
        self._pages.move_to_end(name)
        return self._pages[name]

    def _set_aside(self, session_id: str) -> set[str]:
        if session_id not in self._damaged:
            self._damaged[session_id] = places_set_aside(self._database, session_id, "messages")
        return self._damaged[session_id]
