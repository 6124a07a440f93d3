"""Collects the items of a Responses stream, whose events identify them by an id, by an index, or not at
all."""

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ....state.lazy_dataclass import dataclass
from .streaming import as_list, as_object, as_text


@dataclass(slots=True)
class OutputItem:
    fields: dict[str, Any]
    index: int | None
    """The index in the output; None if the server sends none."""
    is_open: bool = True
    """Whether the end of the item has not arrived."""
    pieces: list[str] = field(default_factory=list[str])
    """The pieces of the item's text or arguments that have arrived."""

    @property
    def kind(self) -> str:
        return as_text(self.fields.get("type"))

    @property
    def ids(self) -> Iterator[str]:
        # Some servers identify an item by the id of its call.
        return (found for key in ("id", "call_id") if (found := as_text(self.fields.get(key))))

    @property
    def whole(self) -> dict[str, Any]:
        """Return the finished item; if that never arrived, an item of the collected parts."""
        collected = "".join(self.pieces)
        if self.kind == "function_call":
            ended = "" if self.is_open else as_text(self.fields.get("arguments"))
            return {**self.fields, "arguments": ended or collected or self.fields.get("arguments")}
        if not collected or text_of(self.fields):
            return self.fields
        return {**self.fields, "collected": collected}


def text_of(item: dict[str, Any]) -> str:
    """Return the text of a message item."""
    parts = (as_object(part) for part in as_list(item.get("content")))
    return "".join(as_text(part.get("text") or part.get("refusal")) for part in parts)


class OutputItems:
    """Collects events and returns each item once, in order, even if the events lack ids or indexes."""

    def __init__(self) -> None:
        self._items: list[OutputItem] = []
        self._by_id: dict[str, OutputItem] = {}
        self._by_index: dict[int, OutputItem] = {}

    def add(self, data: dict[str, Any]) -> None:
        """Add the start of an item. A piece of the item may have arrived before."""
        given = dict(as_object(data.get("item")))
        new = OutputItem(given, _index(data))
        known = next((self._by_id[id] for id in new.ids if id in self._by_id), None)
        if known is None or known.kind not in ("", new.kind) or not known.is_open or known.fields.get("name"):
            self._append(new)
        else:
            known.fields = given
            self._remember(known)

    def end(self, data: dict[str, Any]) -> None:
        """Replace the collected parts of an item by the finished item."""
        given = dict(as_object(data.get("item")))
        new = OutputItem(given, _index(data))
        found = self._find_named(new, data) or self._find_unnamed(new)
        if found is None:
            self._append(new)
            found = new
        found.fields, found.is_open = given, False
        self._remember(found)

    def add_piece(self, kind: str, data: dict[str, Any], text: str) -> None:
        """Add a piece of text or arguments to the item of this kind that the event means."""
        id = as_text(data.get("item_id"))
        found = self._by_id.get(id) if id else None
        if found is None and (index := _index(data)) is not None:
            found = self._by_index.get(index)
        if found is None or found.kind not in ("", kind):
            found = self._newest_open(kind)
        if found is None:
            found = OutputItem({"type": kind, "id": id} if id else {"type": kind}, _index(data))
            self._append(found)
        found.pieces.append(text)

    def in_order(self, listed_at_the_end: list[Any]) -> list[dict[str, Any]]:
        """Return the collected items, or the list at the end of the response if that list has more."""
        numbered = enumerate(self._items)
        ordered = sorted(numbered, key=lambda one: one[0] if one[1].index is None else one[1].index)
        collected = [item.whole for _, item in ordered]
        listed = [as_object(item) for item in listed_at_the_end]
        # Only one of the two lists is used: with both, a call could run twice.
        return listed if _says_more(listed, collected) else collected

    def _find_named(self, new: OutputItem, data: dict[str, Any]) -> OutputItem | None:
        """Return the item that the event identifies by its id or by a fitting index, or None."""
        for id in new.ids:
            found = self._by_id.get(id)
            if found is not None and found.kind in ("", new.kind):
                return found if found.is_open else self._twin_of(id, new) or found
        index = _index(data)
        found = self._by_index.get(index) if index is not None else None
        if found is None or found.kind not in ("", new.kind):
            return None
        is_other = not found.is_open and any(new.ids) and any(found.ids)
        return None if is_other else found

    def _twin_of(self, id: str, new: OutputItem) -> OutputItem | None:
        """Return an open item with the same id, or None. Some servers give all items of a reply one id."""
        return next(
            (one for one in self._items if one.is_open and id in one.ids and one.kind == new.kind), None
        )

    def _find_unnamed(self, new: OutputItem) -> OutputItem | None:
        """Return the open item with the same collected content, otherwise the newest open item of its
        kind."""
        content = as_text(new.fields.get("arguments")) or text_of(new.fields)
        of_kind = [one for one in self._items if one.is_open and one.kind in ("", new.kind)]
        same = (one for one in of_kind if "".join(one.pieces) == content)
        return next(same, None) or (of_kind[-1] if of_kind else None)

    def _newest_open(self, kind: str) -> OutputItem | None:
        return next((one for one in reversed(self._items) if one.is_open and one.kind in ("", kind)), None)

    def _append(self, new: OutputItem) -> None:
        self._items.append(new)
        self._remember(new)

    def _remember(self, item: OutputItem) -> None:
        for id in item.ids:
            self._by_id[id] = item
        if item.index is not None:
            self._by_index[item.index] = item


def _index(data: dict[str, Any]) -> int | None:
    index = data.get("output_index")
    return index if isinstance(index, int) else None


def _says_more(listed: list[dict[str, Any]], collected: list[dict[str, Any]]) -> bool:
    """Return whether a list has more calls or text than the other list."""

    def calls(items: list[dict[str, Any]]) -> int:
        return sum(item.get("type") == "function_call" for item in items)

    def has_text(items: list[dict[str, Any]]) -> bool:
        return any(text_of(item) or item.get("collected") for item in items)

    if not collected or calls(listed) > calls(collected):
        return True
    return calls(listed) == calls(collected) and has_text(listed) and not has_text(collected)
