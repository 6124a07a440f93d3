"""Memory as files below `/memories`, as the model's tool shows and changes them: a file is one fact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ....actions.workspace.content_cache import digest_of
from ....state.calls import VIRTUAL, FileChange
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ....state.memory.fact_store import Addition
from ....state.memory.facts import Fact, Provenance, check_path, check_text, make_text_key
from .memories import Memories
from .scopes import ROOT, VirtualPath, name_path, parse_path

_MODE = 0o644
_MOST_ROWS = 60
_PREVIEW_CHARS = 90


class PlannedChange(NamedTuple):
    """A change that was checked, and is not made yet."""

    changes: tuple[FileChange, ...]
    make: Callable[[], str]
    """Makes the change and returns a sentence for the model."""


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """The files of one session. Each method raises `UsageError` with a sentence for the model."""

    memories: Memories
    find_origin: Callable[[str], Provenance]
    """Returns where a new text comes from."""

    def view(self, path: str) -> str:
        """Return a file with line numbers and its origin, or the files of a folder."""
        place = parse_path(path)
        fact = self.memories.find_at(place)
        if fact is not None:
            lines = (f"{number:>6}\t{line}" for number, line in enumerate(fact.text.split("\n"), 1))
            return "\n".join([f"{name_path(fact)}: {describe_age(fact)}.", *lines])
        facts = self._list_below(place)
        if not facts and place.name:
            raise _make_missing(path)
        return "\n".join([f"Files in {path.rstrip('/')} ({len(facts):,}):", *_list_rows(facts)])

    def plan_creation(self, path: str, text: str) -> PlannedChange:
        place, text = _parse_file(path), check_text(text)
        if self.memories.find_at(place) is not None:
            raise UsageError(f"{path} exists already.", "Correct it with str_replace.")
        scope = self.memories.scopes.get(place.kind or "")
        stored = check_path(place.stored)
        self.memories.require_no_secret(text, stored)
        self._require_new_text(scope.kind, text)

        def make() -> str:
            origin = self.find_origin(text)
            added = self.memories.add(text, scope, path=stored, provenance=origin)
            near = "".join(f"\nNearly the same: {name_path(one)}" for one in added.similar[:3])
            return f"Remembered in {name_path(added.fact)}.{_mark(origin)}{_describe_ended(added)}{near}"

        return PlannedChange((_describe(f"{ROOT}/{scope.kind}/{place.name}", None, text),), make)

    def plan_replacement(self, path: str, old: str, new: str) -> PlannedChange:
        """Plan the replacement of a text that has to occur exactly once."""
        fact = self._require(path)
        count = fact.text.count(old) if old else 0
        if count != 1:
            what = "old_str is not in" if not count else f"old_str occurs {count} times in"
            raise UsageError(f"{what} {path}.", "Copy it from a view, and make it unique.")
        return self._plan_correction(fact, fact.text.replace(old, new))

    def plan_insertion(self, path: str, line: int, text: str) -> PlannedChange:
        """Plan the insertion of lines after a line; 0 is the beginning."""
        fact = self._require(path)
        lines = fact.text.split("\n")
        if line > len(lines):
            raise UsageError(
                f"insert_line is {line}, but {path} has {len(lines)} lines.", "0 is its beginning."
            )
        return self._plan_correction(fact, "\n".join([*lines[:line], text.removesuffix("\n"), *lines[line:]]))

    def plan_deletion(self, path: str) -> PlannedChange:
        fact = self._require(path)

        def make() -> str:
            gone = self.memories.forget(fact.id, "deleted by the model")
            more = "".join(f"\n{name_path(one)}" for one in gone.derived)
            return f"Forgotten: {name_path(fact)}." + (f" It was the source of:{more}" if more else "")

        return PlannedChange((_describe(name_path(fact), fact.text, None),), make)

    def plan_move(self, old_path: str, new_path: str) -> PlannedChange:
        fact, place = self._require(old_path), _parse_file(new_path)
        stored = check_path(place.stored)
        if place.kind != fact.scope.kind:
            raise UsageError(
                f"A file cannot move to {ROOT}/{place.kind}.", "Create a file there, and delete this one."
            )
        if self.memories.find_at(place) is not None:
            raise UsageError(f"{new_path} exists already.", "Choose another path.")
        self.memories.require_no_secret(stored)

        def make() -> str:
            return f"Renamed to {name_path(self.memories.move(fact.id, stored))}."

        target = f"{ROOT}/{place.kind}/{place.name}"
        changes = (_describe(name_path(fact), fact.text, None), _describe(target, None, fact.text))
        return PlannedChange(changes, make)

    def digest_at(self, path: str) -> str | None:
        """Return the SHA-256 of a file's text, or None if there is no file."""
        fact = self.memories.find_at(parse_path(path))
        return None if fact is None else digest_of(fact.text.encode())

    def _plan_correction(self, fact: Fact, text: str) -> PlannedChange:
        text = check_text(text)
        self.memories.require_no_secret(text)
        if make_text_key(text) == make_text_key(fact.text):
            raise UsageError(f"The text of {name_path(fact)} stays the same.", "Change more than its case.")
        self._require_new_text(fact.scope.kind, text)

        def make() -> str:
            origin = self.find_origin(text)
            done = self.memories.correct(fact.id, text, "corrected by the model", origin)
            gone = "".join(f"\n{name_path(one)}" for one in done.derived)
            more = f"\nForgotten, because it was derived from the old text:{gone}" if gone else ""
            return f"Corrected {name_path(done.new)}.{_mark(origin)}{more}"

        # A file without a path of its own is named by its id, which a correction changes.
        after = None if not fact.path else text
        return PlannedChange((_describe(name_path(fact), fact.text, after),), make)

    def _require_new_text(self, kind: str, text: str) -> None:
        scope = self.memories.scopes.get(kind)
        same = self.memories.facts.rows.find_valid(scope, "text_key", make_text_key(text))
        if same is not None:
            raise UsageError(f"{name_path(same)} has this text already.", "Nothing was changed.")

    def _require(self, path: str) -> Fact:
        fact = self.memories.find_at(_parse_file(path))
        if fact is None:
            raise _make_missing(path)
        return fact

    def _list_below(self, place: VirtualPath) -> list[Fact]:
        scopes = () if place.kind is None else (self.memories.scopes.get(place.kind),)
        start = f"{ROOT}/{place.kind}/{place.name}/" if place.name else ROOT
        return [fact for fact in self.memories.list_facts(scopes) if name_path(fact).startswith(start)]


def describe_age(fact: Fact) -> str:
    """Return when and from where a fact was written, for a model that reads it, as a clause."""
    found = fact.provenance
    by = {"person": "by the user", "model": "by a model", "tool": "from the output of a tool"}[found.origin]
    session = f" in session {found.session_id[:8]}" if found.session_id else ""
    return f"written on {fact.confirmed_at[:10]} {by}{session}; verify it before you rely on it"


def _list_rows(facts: Sequence[Fact]) -> Iterable[str]:
    for fact in facts[:_MOST_ROWS]:
        text = " ".join(fact.text.split())
        text = text if len(text) <= _PREVIEW_CHARS else f"{text[:_PREVIEW_CHARS]}..."
        mark = " [from a tool]" if fact.provenance.origin == "tool" else ""
        yield f"{name_path(fact)} ({fact.confirmed_at[:10]}{mark}): {text}"
    if len(facts) > _MOST_ROWS:
        yield f"{len(facts) - _MOST_ROWS:,} older ones are left out: recall finds them by their words."


def _parse_file(path: str) -> VirtualPath:
    place = parse_path(path)
    if place.kind is None or not place.name:
        raise UsageError(f"{path[:80]!r} is a folder.", f"Name a file, such as {ROOT}/project/tests.md.")
    return place


def _make_missing(path: str) -> UsageError:
    return UsageError(f"There is no {path[:200]}.", f"View {ROOT} to see the files.")


def _mark(origin: Provenance) -> str:
    return (
        " It is marked as taken from the output of a tool or from a file." if origin.origin == "tool" else ""
    )


def _describe_ended(added: Addition) -> str:
    """Return that the text had been corrected or forgotten, for the model; empty if it had not."""
    if added.ended is None:
        return ""
    what = "forgotten" if added.ended.fact.state == "forgotten" else "corrected"
    by = f" It is now: {name_path(added.ended.successor)}" if added.ended.successor is not None else ""
    why = f": {added.ended.change.reason}" if added.ended.change.reason else "."
    return f"\nThis text was {what} on {added.ended.change.at[:10]}{why}{by}"


def _describe(path: str, before: str | None, after: str | None) -> FileChange:
    before, after = (None if text is None else digest_of(text.encode()) for text in (before, after))
    return FileChange(
        path=f"{VIRTUAL}{path}",
        before=before,
        before_mode=None if before is None else _MODE,
        after=after,
        after_mode=None if after is None else _MODE,
    )
