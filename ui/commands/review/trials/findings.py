"""The check of `sandbur doctor` for trials: the kind of copy that works, and trials that nothing needs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from .....actions.workspace.copies.namespace import CopyMount, why_not
from .....agent.config.settings import Settings
from .....agent.review.trials.trial import find_orphans, trials_folder
from .....state.errors import SandburError
from .....state.process.temporaries import make_prefix
from .....state.store.store import Store
from ...setup.installation_checks import Finding


def find_problems(settings: Settings) -> Iterator[Finding]:
    """Yield the kind of copy that a trial of the working folder would get, and trials without a session."""
    yield _find_kind(settings)
    if trials_folder(settings.home).is_dir():
        yield from _find_orphans(settings)


def _find_kind(settings: Settings) -> Finding:
    try:
        # The data folder may not be there yet.
        place = next(folder for folder in (settings.home, *settings.home.parents) if folder.is_dir())
        with tempfile.TemporaryDirectory(dir=place, prefix=make_prefix("probe", place)) as folder:
            upper, work = Path(folder, "upper"), Path(folder, "work")
            upper.mkdir()
            work.mkdir()
            why = why_not([CopyMount("overlay", settings.cwd.resolve(), upper, work)])
    except OSError as error:
        why = f"{settings.home}: {error.strerror}"
    if not why:
        return Finding("good", "trials", "`sandbur try` works in an overlay of this folder")
    return Finding(
        "good", "trials", f"`sandbur try` copies this folder; an overlay does not work here: {why}"
    )


def _find_orphans(settings: Settings) -> Iterator[Finding]:
    try:
        store = Store.open(settings.store, settings.tenant, None, settings.durability, settings.home)
    except SandburError:
        # Another check reports a store that cannot be opened.
        return
    try:
        names = [path.name for path in trials_folder(settings.home).iterdir()]
        known = [name for name in names if store.index.exists(name)]
    finally:
        store.close()
    for folder in find_orphans(settings.home, known):
        detail = f"trial {folder.name} has no session in this store"
        yield Finding("note", "trials", detail, f"sandbur try drop {folder.name} --yes")
