"""`sandbur sessions prune`: deletes old sessions, and prints their names and sizes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....actions.workspace.paths import format_size
from ....agent.runtime.cleanup import clear_scratch
from ....state.maintenance.prune import (
    PrunePlan,
    PruneRules,
    Reason,
    StoredSession,
    delete,
    drop_unused_contents,
    plan_prune,
)
from ....state.store.store import Store
from ...cli.open_session import open_runtime
from ...terminal.live import ProgressLine
from ...terminal.standard_output import exit_on_signals
from ...terminal.terminal import put, say
from ...terminal.text.sanitize import one_line
from ...terminal.text.times import local_time
from .command import SessionsCommand

_REASONS = {"age": "not used for long", "size": "for the size limit"}


async def prune_sessions(command: SessionsCommand) -> int:
    rules = PruneRules(command.older_than, command.keep, command.max_size)
    async with open_runtime(command) as runtime:
        store = runtime.store
        with exit_on_signals():
            with ProgressLine("Looking at session") as progress:
                plan = plan_prune(store.database, store.tenant, rules, datetime.now(UTC), progress.show)
            busy: set[str] = set() if command.dry_run else _delete(store, plan, runtime.settings.home)
    goes = [choice for choice in plan.goes if choice[0].id not in busy]
    if command.json:
        put(json.dumps(_object(goes, plan.stays + len(busy), command.dry_run), indent=1))
    else:
        for session, reason in goes:
            put(_line(session, reason))
        _sum_up(goes, plan, len(busy), command.dry_run)
    return 0


def _delete(store: Store, plan: PrunePlan, home: Path) -> set[str]:
    """Delete the sessions of the plan; return the ids of those that are kept: in use, or with a kept fork."""
    kept: set[str] = set()
    with ProgressLine("Deleting session", len(plan.goes)) as progress:
        for number, (session, _) in enumerate(plan.goes, 1):
            progress.show(number)
            has_kept_fork = any(other.parent_id == session.id for other, _ in plan.goes if other.id in kept)
            if has_kept_fork or not delete(store.database, session):
                kept.add(session.id)
            else:
                store.forget(session.id)
                clear_scratch(home, session.id)
        if len(kept) < len(plan.goes):
            drop_unused_contents(store.database)
            store.database.compact()
    return kept


def _line(session: StoredSession, reason: Reason) -> str:
    title = one_line(session.title) or "(no message yet)"
    used = local_time(session.updated_at)
    return f"{session.id}  {used}  {format_size(session.size_bytes):>9}  {_REASONS[reason]}  {title}"


def _sum_up(goes: list[tuple[StoredSession, Reason]], plan: PrunePlan, busy: int, is_dry_run: bool) -> None:
    verb = "Would delete" if is_dry_run else "Deleted"
    freed = sum(session.size_bytes for session, _ in goes)
    noun = "session" if len(goes) == 1 else "sessions"
    summary = f"{verb} {len(goes)} {noun}, about {format_size(freed)}; {plan.stays + busy} stay."
    if plan.waiting:
        summary += f" {plan.waiting} of them would go, but a call waits for a decision."
    say(summary)


def _object(goes: list[tuple[StoredSession, Reason]], stays: int, is_dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": is_dry_run,
        "deleted": [
            {
                "id": session.id,
                "title": session.title,
                "updated_at": session.updated_at,
                "size_bytes": session.size_bytes,
                "reason": reason,
            }
            for session, reason in goes
        ],
        "freed_bytes": sum(session.size_bytes for session, _ in goes),
        "kept": stays,
    }
