"""Opens a store a second time, as another process would, and closes it at the end of the test."""

from sandbur.state.store.store import Store

_OPENED: list[Store] = []


def reopen(store: Store) -> Store:
    again = Store.open(store.url)
    _OPENED.append(again)
    return again


def close_all() -> None:
    while _OPENED:
        _OPENED.pop().close()
