"""What each step of a session did, in one line, read from what the step wrote."""

from collections.abc import Mapping
from dataclasses import dataclass

from state.store.database import Database
from state.store.line_texts import MessageLine, StepKind, StepText, message_line, step_text
from state.store.step_drafts import LogName, Reference, StepDraft, step_drafts

_PAGE_ROWS = 500


@dataclass(frozen=True, slots=True)
class TimelineStep:
    seq: int
    at: str
    """UTC, ISO 8601."""
    action: str
    kind: StepKind
    text: str
    """One line, cut; untrusted."""
    session_id: str
    """Whose step it is: of the session itself, or of one that it was forked from."""


def timeline(database: Database, session_id: str) -> list[TimelineStep]:
    """Return every step of a session, those of its ancestors first; damaged ones are named as such."""
    drafts = list(step_drafts(database, session_id))
    lines = _lines(database, {reference for draft in drafts for reference in draft.added})
    subjects: dict[str, str] = {}
    return [_step(draft, lines, subjects) for draft in drafts]


def _step(draft: StepDraft, lines: Mapping[Reference, MessageLine], subjects: dict[str, str]) -> TimelineStep:
    said = [lines[reference] for reference in draft.added if reference in lines]
    subjects |= {call_id: subject for line in said for call_id, subject in line.calls}
    found = (
        step_text(draft.action, draft.before, draft.after, said, subjects)
        if draft.action
        else StepText("other", "(the record of this step is damaged)")
    )
    return TimelineStep(draft.seq, draft.at, draft.action, found.kind, found.text, draft.session_id)


def _lines(database: Database, wanted: set[Reference]) -> dict[Reference, MessageLine]:
    """Read the messages log by log and keep of each what a line needs."""
    ends: dict[LogName, int] = {}
    for session_id, log, index in wanted:
        ends[session_id, log] = max(index + 1, ends.get((session_id, log), 0))
    lines: dict[Reference, MessageLine] = {}
    for (session_id, log), end in ends.items():
        for start in range(0, end, _PAGE_ROWS):
            rows = database.query(
                "SELECT idx, body FROM messages WHERE session_id = ? AND log = ? AND idx >= ? AND idx < ?",
                (session_id, log, start, min(end, start + _PAGE_ROWS)),
            )
            lines |= {(session_id, log, int(index)): message_line(body) for index, body in rows}
    return lines
