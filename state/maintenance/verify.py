"""Verifies that the records of approvals and effects are unchanged and consistent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from ..calls import digest_arguments
from ..conversation.messages import parse_json_object
from ..databases.chain import Chain, list_sound_rows
from ..databases.database import Database
from ..lazy_dataclass import dataclass
from ..store.files.contents import Copies, count_copies
from ..store.integrity import Health, examine, list_numbered_rows
from ..store.recording import (
    CallMove,
    Traced,
    list_all_traces,
    list_call_moves,
    list_changed_paths,
    list_messages,
    list_objects,
    list_tool_uses,
)
from ..store.seals import SealedPart, list_sealed_parts, load_head_with_seals
from ..store.sessions.inbox import Inbox
from ..store.sessions.settings_proof import compare_settings
from ..trace import RunBegan
from .damaged_rows import find_damaged_rows_of

_MOST_GONE = 1000
"""The most missing records of a session that are named: a damaged head can miss more than 10**18."""
_NEVER_RAN = ("denied", "error", "interrupted", "unknown")
"""The outcomes of calls that were refused, invalid, superseded or lost."""


@dataclass(frozen=True, slots=True)
class Approval:
    by: str
    """The origin of the approval: `policy`, `rule` or `person`."""
    arguments_sha256: str


@dataclass(slots=True)
class CallTrail:
    """The moves of one call that were checked so far."""

    call_id: str
    wish_sha256: str = ""
    """The digest of the arguments in the message that requests the call; empty if there is no such
    message.
    """
    moves: list[CallMove] = field(default_factory=list[CallMove])
    proposed: CallMove | None = None
    approval: Approval | None = None
    verdict: str = ""
    """The newest decision: undecided, approved, denied or invalid."""
    starts: int = 0
    is_open: bool = False
    """Whether the call has started and not finished."""
    is_finished: bool = False
    may_restart: bool = False
    """Whether a person, or a check of its effect, allowed one more run."""

    def for_fork(self) -> CallTrail:
        """Return the trail for a fork. The approval of a person is left out, because it applied to another
        session.
        """
        approval = self.approval if self.approval and self.approval.by != "person" else None
        verdict = self.verdict if approval or self.verdict != "approved" else "undecided"
        known = replace(self, approval=approval, verdict=verdict, moves=[*self.moves])
        return replace(known, is_finished=False, may_restart=self.starts > 0)

    def take_verdict(self, call: Mapping[str, Any], arguments_sha256: str) -> None:
        """Take over the decision that the pending call had when a run began."""
        self.verdict = str(call.get("decision", ""))
        by = str(call.get("decided_by", ""))
        if self.verdict == "approved" and by != "person":
            self.approval = Approval(by, arguments_sha256)
        elif self.verdict != "approved":
            self.approval = None
        self.may_restart = self.may_restart or call.get("settled_as") == "rerun"

    def take_move(self, move: CallMove, is_traced: bool) -> Iterator[str]:
        """Check one move and yield the problems with it.

        `is_traced`: the record is new enough that decisions and starts of runs were recorded, too.
        """
        self.moves.append(move)
        check = {
            "proposed": self._propose,
            "decided": self._decide,
            "started": self._start,
            "finished": self._finish,
        }.get(move.move)
        if check is None or not move.body:
            yield f"is not a move that this version knows: {move.move}" if move.body else "cannot be read"
            return
        yield from check(move, is_traced)

    def _propose(self, move: CallMove, is_traced: bool) -> Iterator[str]:
        if self.proposed is not None and self.proposed.session_id == move.session_id:
            yield f"proposes a call that record {self.proposed.row} has proposed already"
        is_other = bool(self.wish_sha256) and move.text("arguments_sha256") != self.wish_sha256
        if is_other and not move.body.get("edited"):
            yield "proposes other arguments than the model's message requests"
        self.proposed, self.verdict = move, move.text("decision")
        is_allowed = self.verdict == "approved" or not (self.verdict or is_traced)
        by = move.text("decided_by")
        self.approval = Approval(by, move.text("arguments_sha256")) if is_allowed else None

    def _decide(self, move: CallMove, is_traced: bool) -> Iterator[str]:
        arguments = move.text("arguments_sha256")
        if self.proposed is None:
            yield "decides about a call that was never proposed"
        elif not move.body.get("edited") and self.proposed.text("arguments_sha256") != arguments:
            yield f"decides about other arguments than record {self.proposed.row} proposes"
        if self.is_finished:
            yield "decides about a call that has finished"
        self.verdict = move.text("decision")
        if self.verdict == "undecided":
            # Right before its start, the call differed from the approved call.
            self.approval = None
            return
        if not move.text("who"):
            yield "does not say who decided"
        settled = move.text("settled_as")
        if self.is_open and not settled:
            yield "decides about a call that runs already"
        self.may_restart = self.may_restart or settled == "rerun"
        is_allowed = self.verdict == "approved" and settled in ("", "rerun")
        self.approval = Approval(move.text("decided_by"), arguments) if is_allowed else None

    def _start(self, move: CallMove, is_traced: bool) -> Iterator[str]:
        if self.proposed is None:
            yield "starts a call that was never proposed"
        elif self.approval is None:
            yield f"starts a call that nobody approved: the last decision was `{self.verdict or 'none'}`"
        else:
            yield from self._compare_approval(move, self.approval, is_traced)
        if self.is_finished:
            yield "starts a call that has finished"
        elif self.is_open and is_traced and not self.may_restart:
            yield "starts a call again that was running, although nobody allowed it"
        self.starts += 1
        self.is_open, self.may_restart = True, False

    def _compare_approval(self, move: CallMove, approval: Approval, is_traced: bool) -> Iterator[str]:
        if approval.arguments_sha256 != move.text("arguments_sha256"):
            yield "starts with other arguments than those that were approved"
        by = move.text("decided_by")
        if (is_traced or by) and by != approval.by:
            yield f"says that `{by or 'nobody'}` approved it, but `{approval.by or 'nobody'}` did"

    def _finish(self, move: CallMove, is_traced: bool) -> Iterator[str]:
        outcome = move.text("outcome")
        if self.proposed is None:
            yield "finishes a call that was never proposed"
        if self.is_finished:
            yield "finishes a call that has finished already"
        elif not self.starts and outcome not in _NEVER_RAN:
            yield f"finishes a call as `{outcome}`, which was never started"
        self.is_finished, self.is_open = True, False


Trails = dict[str, CallTrail]
Paths = dict[str, dict[str, None]]
"""Maps the id of a call to the paths of the files that it changed."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A record that breaks the hash chain, or that does not fit the earlier records of its session, such as a
    start without an approval."""

    session_id: str
    table: str
    place: str
    """The key of the row in its table; empty if the row is missing."""
    record: int
    """The number of the row in the session's hash chain; -1 if it is unknown."""
    problem: str
    call_id: str = ""
    is_set_aside: bool = False
    """Whether the row was quarantined when the session was opened. The session continues without it."""


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """The records of one call, for display."""

    session_id: str
    """The session with the last record of the call."""
    call_id: str
    moves: tuple[CallMove, ...]
    paths: tuple[str, ...]
    """The files that the call changed."""


@dataclass(frozen=True, slots=True)
class AuditedSession:
    session_id: str
    records: int
    chain: str
    """The digest of the newest record, which covers all records. A copy of it in another place proves
    them.
    """
    stretches: tuple[SealedPart, ...] = ()
    """The parts of the chain, with the key that sealed each."""


@dataclass(frozen=True, slots=True)
class Audit:
    sessions: tuple[AuditedSession, ...]
    """The verified sessions. The ancestors come before the session."""
    breaches: tuple[Breach, ...]
    calls: tuple[AuditedCall, ...]


def audit(
    database: Database, lineage: list[str], watch: Callable[[int, int], object] = lambda number, total: None
) -> Audit:
    """Verify a session and its ancestors, without changes. `lineage` is oldest first.

    `watch` is called before each session, with its number and the number of all sessions.
    """
    sessions: list[AuditedSession] = []
    breaches: list[Breach] = []
    trails: Trails = {}
    contents = _ContentChecks(database)
    for number, session_id in enumerate(lineage, 1):
        watch(number, len(lineage))
        audited, found, trails = _audit_session(database, session_id, trails, contents)
        sessions.append(audited)
        breaches += found
        breaches += (
            Breach(session_id, "", "", -1, f"{row.table}: {row.problem}")
            for row in find_damaged_rows_of(database, session_id)
        )
    paths = {session_id: _load_paths(database, session_id) for session_id in lineage}
    calls = (_make_audited_call(trail, paths) for trail in trails.values() if trail.moves)
    return Audit(tuple(sessions), tuple(breaches), tuple(calls))


def audit_all(database: Database, parents: Mapping[str, str | None]) -> Iterator[tuple[str, list[Breach]]]:
    """Verify many sessions, each once and after its parent. Yield the id and the breaches of each.

    `parents` maps the id of each session to the id of the session that it was forked from.
    """
    forks: dict[str | None, list[str]] = {}
    for session_id, parent_id in parents.items():
        forks.setdefault(parent_id if parent_id in parents else None, []).append(session_id)
    contents = _ContentChecks(database)
    waiting: list[tuple[str, Trails]] = [(session_id, {}) for session_id in reversed(forks.get(None, ()))]
    while waiting:
        session_id, before = waiting.pop()
        _, found, trails = _audit_session(database, session_id, before, contents)
        yield session_id, found
        waiting += [(fork, trails) for fork in reversed(forks.get(session_id, ()))]


def _audit_session(
    database: Database, session_id: str, before: Trails, contents: _ContentChecks
) -> tuple[AuditedSession, list[Breach], Trails]:
    """Verify the records of a session. `before` are the calls of its parent."""
    end, seals = load_head_with_seals(database, session_id) or (Chain(0, ""), [])
    trails = {call_id: trail.for_fork() for call_id, trail in before.items()}
    breaches = [
        *_find_chain_breaches(database, session_id, end.records),
        *_find_settings_breaches(database, session_id),
        *_find_content_breaches(database, session_id, contents),
        *_find_inbox_breaches(database, session_id, contents),
        *_find_rule_breaches(database, session_id, end.records, trails),
    ]
    audited = AuditedSession(session_id, *end, tuple(list_sealed_parts(database, end, seals)))
    return audited, breaches, trails


def _find_chain_breaches(database: Database, session_id: str, records: int) -> Iterator[Breach]:
    health = examine(database, session_id)
    numbers = _load_numbers(database, session_id)
    records_of = {place: record for record, places in numbers.items() for place in places}
    found = [(damage, damage.reason, False) for damage in health.damages]
    found += [(damage, f"{damage.reason}; it was set aside", True) for damage in health.quarantined]
    for broken in health.broken_seals:
        yield Breach(session_id, "", "", broken.record, broken.problem)
    for damage, problem, is_set_aside in found:
        record = records_of.get((damage.table, damage.place), -1)
        yield Breach(session_id, damage.table, damage.place, record, problem, is_set_aside=is_set_aside)
    yield from _find_missing(session_id, records, health, numbers)
    yield from _find_doubles(session_id, numbers)


def _load_numbers(database: Database, session_id: str) -> dict[int, list[tuple[str, str]]]:
    """Return the table and the key of the rows with each number of the chain."""
    found: dict[int, list[tuple[str, str]]] = {}
    for record, _, table, place in list_numbered_rows(database, session_id):
        if record >= 0:
            found.setdefault(record, []).append((table, place))
    return found


def _find_missing(
    session_id: str, records: int, health: Health, numbers: Mapping[int, Any]
) -> Iterator[Breach]:
    """Yield a breach for each number without a record."""
    if not health.missing:
        return
    gone = 0
    for record in range(records):
        if record not in numbers:
            gone += 1
            yield Breach(session_id, "", "", record, "is gone")
        if gone == _MOST_GONE:
            break
    if gone < health.missing:
        yield Breach(session_id, "", "", -1, "the chain is shorter than it was: records are missing")


def _find_doubles(session_id: str, numbers: Mapping[int, list[tuple[str, str]]]) -> Iterator[Breach]:
    """Yield a breach for each row that has the same number as another one."""
    for record, places in sorted(numbers.items()):
        for table, place in places if len(places) > 1 else ():
            yield Breach(session_id, table, place, record, "has the same number as another record")


def _find_settings_breaches(database: Database, session_id: str) -> Iterator[Breach]:
    """Compare the row of the session with the newest settings in the chain."""
    if differences := compare_settings(database, session_id).differences:
        problem = "its settings differ from those that its records contain"
        yield Breach(session_id, "", "", -1, f"{problem}: {', '.join(differences)}")


class _ContentChecks:
    """Hashes each stored content once, even if many messages and changes refer to it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counted: dict[str, Copies] = {}

    def problem(self, what: str, digest: str, must_be_there: bool = True) -> str:
        """Return the problem of the content of `what`; empty if there is none."""
        if digest not in self._counted:
            self._counted[digest] = count_copies(self._database, digest)
        sound, damaged = self._counted[digest]
        if not sound and (damaged or must_be_there):
            return f"refers to {what}, which is missing, or is not what was written"
        return f"refers to {what}: one copy is not what was written, another copy is" if damaged else ""


def _find_content_breaches(database: Database, session_id: str, contents: _ContentChecks) -> Iterator[Breach]:
    """Compare the files of messages, and the old contents of changed files, with the digests in the chain."""
    for recorded in list_messages(database, session_id):
        for file in recorded.message.files if recorded.message is not None else ():
            if problem := contents.problem(file.label, file.sha256):
                place = f"{recorded.log}/{recorded.position}"
                yield Breach(session_id, "messages", place, recorded.row, problem)
    rows = list_sound_rows(database, "files", session_id, ("record", "call_id", "path", "body"))
    for n, row, call_id, path, body in rows:
        digest = (parse_json_object(body) or {}).get("before")
        # The old content of a file with a secret was never stored.
        what = f"the old content of {path}"
        if isinstance(digest, str) and (problem := contents.problem(what, digest, must_be_there=False)):
            yield Breach(session_id, "files", str(n), int(row), problem, call_id)


def _find_inbox_breaches(database: Database, session_id: str, contents: _ContentChecks) -> Iterator[Breach]:
    inbox = Inbox(database, session_id)
    for number in inbox.list_unreadable():
        yield Breach(session_id, "inbox", str(number), -1, "cannot be read, so it is never sent")
    for number, file in inbox.list_files():
        if problem := contents.problem(file.label, file.sha256):
            yield Breach(session_id, "inbox", str(number), -1, problem)


def _find_rule_breaches(
    database: Database, session_id: str, records: int, trails: Trails
) -> Iterator[Breach]:
    """Check the moves of every call, and the waiting calls at the start of each run.

    Rows that a running session adds after its first `records` rows are not checked.
    """
    wishes = {use.call_id: digest_arguments(use.arguments) for use in list_tool_uses(database, session_id)}
    began = [traced for traced in list_all_traces(database, session_id) if traced.event == "run_began"]
    first_traced = began[0].row if began else None
    for move in list_call_moves(database, session_id):
        if move.row >= records:
            continue
        while began and began[0].row < move.row:
            _take_verdicts(began.pop(0), trails)
        trail = trails.setdefault(move.call_id, CallTrail(move.call_id))
        trail.wish_sha256 = wishes.get(move.call_id, trail.wish_sha256)
        is_traced = first_traced is not None and first_traced < move.row
        for problem in trail.take_move(move, is_traced):
            yield Breach(session_id, "calls", str(move.n), move.row, problem, move.call_id)


def _take_verdicts(began: Traced, trails: Trails) -> None:
    """Take over the decisions about waiting calls that the start of a run changed."""
    changes = began.record.changes if isinstance(began.record, RunBegan) else {}
    for call in list_objects(changes, "pending_tool_calls"):
        trail = trails.get(str(call.get("call_id")))
        if trail is not None:
            trail.take_verdict(call, digest_arguments(str(call.get("arguments", ""))))


def _make_audited_call(trail: CallTrail, paths: Mapping[str, Paths]) -> AuditedCall:
    last = trail.moves[-1].session_id
    changed = paths[last].get(trail.call_id, {})
    return AuditedCall(last, trail.call_id, tuple(trail.moves), tuple(changed))


def _load_paths(database: Database, session_id: str) -> Paths:
    """Return the files that each call changed, in order."""
    found: Paths = {}
    for _, call_id, path in list_changed_paths(database, session_id):
        found.setdefault(call_id, {})[path] = None
    return found
