"""What extensions find in the messages of a session: citations that do not hold, and the files they name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....state.store.recording import list_messages
from ....state.store.store import Store
from ...extensions.extension import CitedFile, load
from ...extensions.registry import extensions


def check_contents(store: Store, lineage: Sequence[str]) -> list[Any]:
    """Return the findings about the messages of a session, the last one in `lineage`, and of those that it
    was forked from. `Extension.verify` says what a finding is."""
    settings = store.index.settings(lineage[-1])
    found: list[Any] = []
    for check in (load(one.verify) for one in extensions() if one.verify):
        recorded = (one for each in lineage for one in list_messages(store.database, each))
        result = check(settings, (one.message for one in recorded))
        found += [] if result is None else [result]
    return found


def find_cited_files(store: Store, lineage: Sequence[str]) -> dict[str, CitedFile]:
    """Return citation -> file for the answers of a session."""
    files: dict[str, CitedFile] = {}
    for finding in check_contents(store, lineage):
        files |= finding.files
    return files
