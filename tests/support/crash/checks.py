"""Checks of requests, files, effects and journal after a trial, however often the agent died."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from support.crash.past import Past
from support.crash.place import Place
from support.crash.scenarios import OLD, Scenario, word_of

from sandbur.state.maintenance.export import export_session
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store

UNKNOWN = "may or may not"
NOT_RUN = "was not run"
_ALWAYS_THERE = {"notes.txt", "effects.txt"}


def check_requests(place: Place, messages: Sequence[str]) -> Iterator[str]:
    """Check that a provider would accept each request, and that each request extends the one before."""
    yield from (f"the provider would answer 400: {rejection}" for rejection in place.server.rejections)
    pasts = [Past(request) for request in place.server.requests if request.body]
    if not pasts:
        return
    newest: dict[str, Past] = {}
    heads: dict[bool, str] = {}
    for number, past in enumerate(pasts):
        before = newest.get(past.thread)
        # A request for a summary is not part of the conversation.
        if before is not None and not past.summarizes and not past.core.startswith(before.core):
            change = _first_difference(before.core, past.core)
            yield f"request {number} does not extend the one before: {change}"
        if past.head != heads.setdefault(bool(past.child), past.head):
            yield f"request {number} has another system prompt or other tools"
        newest[past.thread] = past
    if all(past.child for past in pasts):
        return  # No model reads the message of a workflow: each of its agents gets a part of it.
    texts = newest.get("", pasts[-1]).users
    for message in messages:
        if texts.count(message) != 1:
            yield f"the message {message!r} is {texts.count(message)} times in the last request"


def _first_difference(one: str, other: str) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return f"...{one[max(0, at - 60) : at + 60]!r} became {other[max(0, at - 60) : at + 60]!r}"


def check_world(
    place: Place, scenario: Scenario, deaths: int, settle: str, is_begun: bool = False
) -> Iterator[str]:
    """Check that every effect exists once, or that the model knows that the outcome is unknown.

    With `is_begun`, the first requests went to another server, so not all results are known here.
    """
    written = Counter(place.effects)
    results = _last_results(place)
    unknown = 0
    for word in scenario.effects:
        text = results.get(word)
        if text is None and is_begun:
            text = ""
        if text is None:
            yield f"the model was never told what came of {word!r}"
            continue
        unknown += UNKNOWN in text
        if NOT_RUN in text and UNKNOWN not in text:
            if written[word]:
                yield f"{word!r} was written, but the model was told: {text[:200]!r}"
            continue
        for mark in (word, f"{word}-end"):
            # A person who settles a call with `rerun` accepts a second effect.
            most = 2 if settle == "rerun" or (settle == "honest" and mark == word) else 1
            if written[mark] > (most if "--yolo" not in scenario.flags else 1):
                yield f"{mark!r} was written {written[mark]} times"
        # The outcome that a person states reaches the model, true or not.
        is_known = UNKNOWN not in text and "The user says" not in text
        if is_known and not written[f"{word}-end"]:
            yield f"{word!r} was never written, but the model was told: {text[:200]!r}"
        if UNKNOWN in text and "--yolo" not in scenario.flags:
            yield f"nobody was asked about {word!r}: {text[:200]!r}"
    if unknown > deaths * scenario.at_once:
        yield f"{unknown} unknown outcomes after {deaths} deaths"
    dependency = Counter((place.folder / "ledger").read_text().split()) if scenario.opens else Counter[str]()
    if not 0 <= dependency["open"] - dependency["close"] <= deaths:
        yield f"a dependency was opened and closed otherwise: {dependency}"
    if extra := set(written) - {mark for word in scenario.effects for mark in (word, f"{word}-end")}:
        yield f"nobody asked for {extra}"


def _last_results(place: Place) -> dict[str, str]:
    """Return the last result that the model got for each effect."""
    found: dict[str, str] = {}
    for request in place.server.requests:
        for arguments, (_, text) in Past(request).results.items() if request.body else ():
            if word := word_of(json.loads(arguments)):
                found[word] = text
    return found


def check_files(place: Place, scenario: Scenario, is_over: bool) -> Iterator[str]:
    """Check that each file has the old or the new content, at the end the new one and no temporary file."""
    for name, new in scenario.files.items():
        path = place.workspace / name
        content = path.read_text() if path.exists() else None
        old = OLD if name == "notes.txt" else None
        if content not in ((new,) if is_over else (old, new)):
            yield f"{name} holds {content!r}"
    if is_over:
        strays = {path.name for path in place.workspace.iterdir()} - _ALWAYS_THERE - set(scenario.files)
        if strays:
            yield f"left in the workspace: {strays}"


def family(place: Place, session_id: str) -> list[str]:
    """Return a session and the sub-agents that it started, at any depth."""
    with _store_of(place) as store:
        members, asked = [session_id], 0
        while asked < len(members):
            members += [child.id for child in store.index.children_of(members[asked], limit=1000)]
            asked += 1
    return members


def check_journal(place: Place, session_id: str) -> Iterator[str]:
    """Check that the session can be exported, that each call ends once, and that the store is intact."""
    moves: dict[str, list[str]] = defaultdict(list)
    with _store_of(place) as store:
        for record in export_session(store.database, session_id):
            json.dumps(record)
            if record["kind"] == "call":
                moves[record["call_id"]].append(record["move"])
    for call_id, made in moves.items():
        # The call of a sub-agent ends in its own session; that of its parent has only the decision.
        if "/" in call_id and made == ["proposed", "decided"]:
            continue
        # A decision tool, such as `submit_plan`, is answered by the graph itself and never starts.
        if made != ["proposed"] and (made.count("finished") != 1 or made[-1] != "finished"):
            yield f"call {call_id} went {' > '.join(made)}"
    if not place.store:
        yield from _check_database(place.home / "sandbur.db")


def check_audit(place: Place, session_id: str) -> Iterator[str]:
    """Check that each call started as it was approved, and that no record was lost or changed."""
    with _store_of(place) as store:
        found = audit(store.database, [owner for owner, _ in store.index.lineage(session_id)])
    for breach in found.breaches:
        yield f"audit: {breach.table} {breach.place} (record {breach.record}): {breach.problem}"


@contextmanager
def _store_of(place: Place) -> Iterator[Store]:
    store = Store.open(place.store or f"sqlite:///{place.home / 'sandbur.db'}")
    try:
        yield store
    finally:
        store.close()


def _check_database(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("PRAGMA integrity_check").fetchall()
    if found != [("ok",)]:
        yield f"integrity_check: {found}"
