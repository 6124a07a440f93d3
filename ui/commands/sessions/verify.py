"""`sandbur sessions verify ID`: checks that the record of approvals and effects is complete and unchanged."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from ....agent.history.reports.content_checks import check_contents
from ....state.maintenance.verify import Audit, AuditedCall, Breach, audit
from ...cli.open_session import open_runtime
from ...terminal.live import ProgressLine
from ...terminal.standard_output import exit_on_signals
from ...terminal.terminal import encode, make_console, put, say
from ...terminal.text.sanitize import one_line
from ...terminal.text.times import local_time
from .command import SessionsCommand

_NOUNS = {"steps": "step", "messages": "message", "calls": "call record", "outputs": "output",
          "files": "file change", "traces": "trace record", "inbox": "waiting message"}  # fmt: skip


async def verify_session(command: SessionsCommand) -> int:
    async with open_runtime(command) as runtime:
        store = runtime.store
        session_id = store.find(command.session)
        lineage = [*store.index.ancestors(session_id), session_id]
        with exit_on_signals(), ProgressLine("Checking session") as progress:
            found = audit(store.database, lineage, progress.show)
            contents = check_contents(store, lineage)
    problems = [problem for one in contents for problem in one.problems]
    if command.json:
        put(encode(_object(session_id, found, problems)))
    else:
        for breach in found.breaches:
            put(breach_line(breach, session_id))
        for problem in problems:
            put(one_line(problem))
        if command.verbose:
            _print_calls(found)
        for line in _summary(found):
            say(line)
        for one in contents:
            if one.checked:
                say(f"Citations: {one.checked} checked, {len(one.problems)} that do not hold.")
    return 1 if found.breaches or problems else 0


def breach_line(breach: Breach, session_id: str) -> str:
    """Describe a breach in one line; the session is named if it is not `session_id`."""
    where = f"record {breach.record}" if breach.record >= 0 else "the records"
    if breach.table:
        noun = _NOUNS.get(breach.table, "record")
        where += f", {noun} {one_line(breach.place)}"
    if breach.call_id:
        where += f" of {one_line(breach.call_id)}"
    if breach.session_id != session_id:
        where = f"{breach.session_id}: {where}"
    return f"{where}: {one_line(breach.problem)}"


def _summary(found: Audit) -> Iterator[str]:
    records = sum(session.records for session in found.sessions)
    ancestors = len(found.sessions) - 1
    whose = f" of this session and {ancestors} that it was forked from" if ancestors else ""
    if found.breaches:
        number = len(found.breaches)
        yield f"{number} of {records} records{whose} {'does' if number == 1 else 'do'} not hold."
        return
    starts = sum(move.move == "started" for call in found.calls for move in call.moves)
    times = "1 start" if starts == 1 else f"{starts} starts"
    calls = "1 call" if len(found.calls) == 1 else f"{len(found.calls)} calls"
    yield f"Verified: {records} records{whose}, {calls}, {times}, each as it was approved."
    yield f"The hash chain ends in {found.sessions[-1].chain}. Keep a copy of this digest as a proof."
    yield from _list_foreign_seals(found)


def _list_foreign_seals(found: Audit) -> Iterator[str]:
    """Yield lines about records whose chain is valid but which this machine's key did not seal."""
    for session in found.sessions:
        of = "" if session is found.sessions[-1] else f" of {session.session_id}"
        for stretch in session.stretches:
            if stretch.is_ours:
                continue
            last = stretch.until - 1
            which = f"Records {stretch.since} to {last}{of} were"
            if stretch.since == last:
                which = f"Record {last}{of} was"
            made = f"sealed with another key ({stretch.maker})" if stretch.maker else "not sealed"
            yield f"{which} {made}: order and completeness are checked, their author is not."


def _object(session_id: str, found: Audit, problems: Sequence[str]) -> dict[str, Any]:
    return {
        "session_id": session_id,
        **({"problems": list(problems)} if problems else {}),
        "holds": not found.breaches and not problems,
        "sessions": [asdict(session) for session in found.sessions],
        "breaches": [asdict(breach) for breach in found.breaches],
        "calls": [_call_object(call) for call in found.calls],
    }


def _call_object(call: AuditedCall) -> dict[str, Any]:
    moves = [
        {
            "session_id": move.session_id,
            "record": move.row,
            "move": move.move,
            "at": move.at,
            **{name: value for name, value in move.body.items() if name != "result"},
        }
        for move in call.moves
    ]
    return {"session_id": call.session_id, "call_id": call.call_id, "moves": moves, "files": list(call.paths)}


def _print_calls(found: Audit) -> None:
    rows = [row for call in found.calls for row in _rows(call)]
    if not sys.stdout.isatty():
        for row in rows:
            put("\t".join(row))
        return

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("record", "when", "call", "move"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("what", overflow="fold")
    for row in rows:
        table.add_row(*row)
    make_console(sys.stdout).print(table)


def _rows(call: AuditedCall) -> Iterator[tuple[str, ...]]:
    for move in call.moves:
        what = _what(move.move, {name: str(value) for name, value in move.body.items()})
        if move.move == "finished" and call.paths:
            what += f"; changed {', '.join(map(one_line, call.paths))}"
        yield (str(move.row), local_time(move.at), one_line(call.call_id), one_line(move.move), what)


def _what(move: str, body: dict[str, str]) -> str:
    """Return a short description of a record of a call, such as its start or its decision."""
    tool = one_line(body.get("tool", ""))
    digest = body.get("command_sha256", "")[:12]
    by = one_line(body.get("decided_by", ""))
    if move == "started":
        return f"{tool} {digest}, approved by {by or 'the policy at that time'}"
    if move == "finished":
        return one_line(body.get("outcome", ""))
    verdict = body.get("settled_as") or body.get("decision") or "no decision needed"
    who = body.get("who") or by
    # The reason of an approved call is the reason of the gate's question.
    says_why = body.get("reason") and not (body.get("who") and verdict == "approved")
    reason = f": {one_line(body['reason'])}" if says_why else ""
    edited = ", edited" if body.get("edited") else ""
    text = f"{one_line(verdict)}{edited}{f' by {one_line(who)}' if who else ''}{reason}"
    return f"{tool} {digest}, {text}"
