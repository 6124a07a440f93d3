"""Undoes the newest compression of a history. The store still has the messages that were summarized."""

from ....state.conversation.transcript import Transcript
from ....state.store.store import Store
from ...session.session import Session
from ..timeline import list_timeline


def restore_uncompressed(store: Store, session: Session) -> Transcript | None:
    """Return the history as it was before its newest compression, or None if it has none."""
    now = session.state.chat_history
    for step in reversed(list_timeline(store.database, session.id)):
        if step.kind != "compression" or step.seq < 1:
            continue
        after = store.show(session.id, step.seq).state.chat_history
        before = store.show(session.id, step.seq - 1).state.chat_history
        if _names(before) != _names(after) and _names(now.part(0, len(after))) == _names(after):
            earlier = store.earlier_history(session.id, step.seq - 1)
            return Transcript((*earlier.spans, *now.part(len(after)).spans))
    return None


def _names(history: Transcript) -> list[tuple[str | None, int | None, int, int]]:
    """Return the identity of each range of messages of a history in the store."""
    return [(log.session_id, log.number, start, end) for log, start, end in history.spans]
