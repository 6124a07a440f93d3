"""`sandbur sessions prune`: deletes old sessions, and prints their names and sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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
from ...terminal.terminal import encode, put, say
from ...terminal.text.sanitize import one_line
from ...terminal.text.times import local_time
from .command import SessionsCommand
from .show import describe_sub_agents

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
        put(encode(_object(goes, plan.stays + len(busy), command.dry_run)))
    else:
        for line in _list_lines(goes):
            put(line)
        _sum_up(goes, plan, len(busy), command.dry_run)
    return 0


def _delete(store: Store, plan: PrunePlan, home: Path) -> set[str]:
    """Delete the sessions of the plan; return the ids of those that are kept: in use, or with a kept fork or
    sub-agent.
    """
    kept: set[str] = set()
    needed: set[str] = set()
    with ProgressLine("Deleting session", len(plan.goes)) as progress:
        for number, (session, _) in enumerate(plan.goes, 1):
            progress.show(number)
            if session.id in needed or not delete(store.database, session):
                kept.add(session.id)
                needed |= {one for one in (session.parent_id, session.spawned_by) if one is not None}
            else:
                store.forget(session.id)
                clear_scratch(home, session.id)
        if len(kept) < len(plan.goes):
            drop_unused_contents(store.database)
            store.database.compact()
    return kept


def _list_lines(goes: Sequence[tuple[StoredSession, Reason]]) -> Iterator[str]:
    """Yield a line for each session that is no sub-agent of another one; its size is that of all together."""
    parents = {session.id: session.spawned_by for session, _ in goes}
    sizes, counts = Counter[str](), Counter[str]()
    for session, _ in goes:
        root = session.id
        while (above := parents[root]) is not None and above in parents:
            root = above
        sizes[root] += session.size_bytes
        counts[root] += 1
    for session, reason in goes:
        if count := counts[session.id]:
            title = one_line(session.title) or "(no message yet)"
            more = describe_sub_agents(count - 1)
            used, size = local_time(session.updated_at), format_size(sizes[session.id])
            yield f"{session.id}  {used}  {size:>9}  {_REASONS[reason]}{more}  {title}"


def _sum_up(goes: list[tuple[StoredSession, Reason]], plan: PrunePlan, busy: int, is_dry_run: bool) -> None:
    verb = "Would delete" if is_dry_run else "Deleted"
    freed = sum(session.size_bytes for session, _ in goes)
    noun = "session" if len(goes) == 1 else "sessions"
    sub_agents = sum(session.spawned_by is not None for session, _ in goes)
    noun += f" ({sub_agents} of sub-agents)" if sub_agents else ""
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
                "spawned_by": session.spawned_by,
                "reason": reason,
            }
            for session, reason in goes
        ],
        "freed_bytes": sum(session.size_bytes for session, _ in goes),
        "kept": stays,
    }
