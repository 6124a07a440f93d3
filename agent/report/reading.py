"""Reads everything that a session recorded, once, into its account."""

from collections.abc import Iterator

from agent.report.account import Account, Forked, Happened, Lost
from agent.report.boundaries import Runs
from agent.report.calls import CallBook
from agent.report.cutting import Room
from agent.report.step_costs import StepCosts
from agent.report.telling import Teller
from state.store.audit import audit
from state.store.message_pages import MessagePages
from state.store.step_drafts import StepDraft, step_drafts
from state.store.store import Store


def read_account(store: Store, session_id: str) -> Account:
    """Return the account of a session, with what came before it in the sessions it was forked from."""
    return _Reading(store, session_id).account()


class _Reading:
    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._id = session_id
        self._lineage = store.index.lineage(session_id)
        room = Room.for_calls(sum(_calls(store, owner) for owner, _ in self._lineage))
        self._book = CallBook(store, self._lineage, room)
        self._teller = Teller(MessagePages(store.database), self._book, room)
        self._runs = {
            owner: Runs(store.database, owner, limit, store.index.is_held(owner))
            for owner, limit in self._lineage
        }
        self._costs = StepCosts()

    def account(self) -> Account:
        happened = tuple(self._happened())
        self._book.close()
        return Account(
            summary=self._store.index.summary(self._id),
            settings=self._store.index.settings(self._id),
            standing=self._teller.standing,
            happened=happened,
            steps=tuple(self._costs.steps),
            audit=audit(self._store.database, [owner for owner, _ in self._lineage]),
        )

    def _happened(self) -> Iterator[Happened]:
        owner = self._lineage[0][0]
        yield from self._between(owner, -1, "")
        for draft in step_drafts(self._store.database, self._id):
            if draft.session_id != owner:
                yield Happened(draft.seq, draft.at, None, Forked(owner, draft.session_id))
                owner = draft.session_id
                yield from self._between(owner, draft.seq - 1, draft.at)
            yield from self._step(draft)
            yield from self._between(owner, draft.seq, draft.at)
        if owner != self._id:
            yield Happened(-1, "", None, Forked(owner, self._id))
            yield from self._between(self._id, self._lineage[-2][1] or -1, "")

    def _step(self, draft: StepDraft) -> Iterator[Happened]:
        if not draft.action:
            yield Happened(draft.seq, draft.at, None, Lost(f"The record of step {draft.seq} is damaged."))
            return
        told = list(self._teller.tell(draft))
        self._costs.add(draft, self._teller.tool_ms)
        yield from told

    def _between(self, owner: str, seq: int, at: str) -> Iterator[Happened]:
        """Yield what the trace says behind step `seq`: ends and beginnings of runs, model calls."""
        for happened in self._runs[owner].behind(seq):
            self._costs.trace(happened)
            yield happened


def _calls(store: Store, session_id: str) -> int:
    rows = store.database.query(
        "SELECT COUNT(DISTINCT call_id) FROM calls WHERE session_id = ?", (session_id,)
    )
    return int(rows[0][0])
