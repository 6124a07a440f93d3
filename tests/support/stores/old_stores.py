"""Stores that older versions wrote."""

from pathlib import Path

from support.places import FIXTURES

from sandbur.state.store.store import Store

STORES = sorted(FIXTURES.glob("store-*.sql"))
UNTRACED = STORES[:3]
"""Of versions that did not keep what the model was asked."""

DONE, WAITING, KILLED, FORK = (f"00000000-0000-4000-8000-00000000000{n}" for n in range(1, 5))


def opened(path: Path) -> Store:
    return Store.open(f"sqlite:///{path}")
