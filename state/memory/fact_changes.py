"""Changes facts in guarded transactions: each change happens once, on the facts that it was planned for."""

import random
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

from ..databases.database import Database, GuardedUpdate, Statement, exists, insert, update
from ..errors import GuardFailed, StoreError
from ..process.clock import now
from ..process.crashpoints import reach
from ..search.documents import DocumentIndex, IndexedText
from .fact_rows import FactRows
from .facts import ChangeKind, Fact, FactState

ResultT = TypeVar("ResultT")
_TRIES = 100
_LONGEST_PAUSE_S = 0.05


class Author(NamedTuple):
    """Who changes facts, and why."""

    actor: str = ""
    """Such as the name of a person or of a model."""
    reason: str = ""


UNNAMED = Author()


class FactOperation:
    """The statements of one operation, which are committed together."""

    def __init__(
        self, rows: FactRows, index: DocumentIndex, tenant: str, version: int, author: Author
    ) -> None:
        self.statements: list[Statement] = []
        self.at = now()
        self.token = secrets.token_hex(16)
        self.version = version
        self._rows = rows
        self._index = index
        self._tenant = tenant
        self._author = author

    def add(self, fact: Fact, what: ChangeKind = "added", cause: str = "") -> None:
        """Write a new fact, and let searches find it if it is valid."""
        self.statements += self._rows.insert(fact)
        if fact.state == "valid":
            self._show(fact)
        self.note(fact.id, what, cause)

    def end(
        self, facts: Sequence[Fact], state: FactState, cause: str, superseded_by: str | None = None
    ) -> None:
        """Mark facts as superseded or forgotten, so that no search finds them."""
        for fact in facts:
            self.statements.append(self._rows.set_state(fact.id, state, superseded_by))
            self.statements += self._index.remove(self._name_collection(fact), [fact.id])
            self.note(fact.id, "superseded" if state == "superseded" else "forgotten", cause)

    def restore(self, facts: Sequence[Fact], cause: str) -> None:
        """Mark facts as valid again."""
        for fact in facts:
            self.statements.append(self._rows.set_state(fact.id, "valid"))
            self._show(fact)
            self.note(fact.id, "restored", cause)

    def accept(self, proposal: Fact, cause: str = "") -> None:
        """Mark a proposal as valid; it keeps its path."""
        changes = {"state": "valid", "path": proposal.path}
        self.statements.append(update("facts", changes, {"id": proposal.id}))
        self._show(proposal)
        self.note(proposal.id, "accepted", cause)

    def set_aside(
        self, proposals: Sequence[Fact], state: Literal["proposed", "rejected"], cause: str = ""
    ) -> None:
        """Reject proposals, or turn rejected ones into proposals again."""
        for proposal in proposals:
            self.statements.append(self._rows.set_state(proposal.id, state))
            self.note(proposal.id, state, cause)

    def confirm(self, fact: Fact) -> None:
        sql = "UPDATE facts SET confirmed_at = ? WHERE id = ?"
        self.statements.append((sql, (self.at, fact.id)))
        self.note(fact.id, "confirmed")

    def set_path(self, fact: Fact) -> None:
        """Write the path of a fact that changes otherwise in this operation, too."""
        self.statements.append(("UPDATE facts SET path = ? WHERE id = ?", (fact.path, fact.id)))

    def move(self, fact: Fact, path: str) -> None:
        """Change the path of a valid fact."""
        self.statements.append(("UPDATE facts SET path = ? WHERE id = ?", (path, fact.id)))
        self._show(fact.model_copy(update={"path": path}))
        self.note(fact.id, "moved")

    def note(self, fact_id: str, what: ChangeKind, cause: str = "") -> None:
        """Record what happens to a fact. Each fact changes once in one operation."""
        row = {
            "tenant": self._tenant,
            "version": self.version,
            "fact_id": fact_id,
            "token": self.token,
            "what": what,
            "at": self.at,
            "actor": self._author.actor[:255],
            "cause": cause or fact_id,
            "reason": self._author.reason,
        }
        self.statements.append(insert("fact_changes", row))

    def _show(self, fact: Fact) -> None:
        title = f"{fact.path.removeprefix('/memories')} {fact.kind}"
        text = IndexedText(fact.id, fact.text, title)
        self.statements += self._index.put(self._name_collection(fact), text)

    def _name_collection(self, fact: Fact) -> str:
        return fact.scope.name_collection(self._tenant)


class FactWriter:
    """Runs operations on the facts of a tenant, one after the other, even if several processes run them."""

    def __init__(self, database: Database, rows: FactRows, index: DocumentIndex, tenant: str) -> None:
        self._database = database
        self._rows = rows
        self._index = index
        self._tenant = tenant

    def change(self, author: Author, plan: Callable[[FactOperation], ResultT]) -> ResultT:
        """Run `plan`, which reads facts and adds statements to an operation, and commit the operation.

        If another process changed facts since `plan` read them, nothing happens and `plan` runs again.
        """
        for attempt in range(_TRIES):
            operation = FactOperation(self._rows, self._index, self._tenant, self._read_version() + 1, author)
            result = plan(operation)
            if not operation.statements:
                return result
            reach("fact_change_planned")
            try:
                self._database.commit(operation.statements, self._make_guard(operation))
            except GuardFailed:
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE_S, 0.001 * 2**attempt)))
                continue
            reach("fact_change_committed")
            return result
        raise StoreError(
            f"The facts in {self._database.name} are changed all the time by other processes.",
            "Try again when they have finished.",
        )

    def _read_version(self) -> int:
        sql = "SELECT version FROM fact_heads WHERE tenant = ?"
        if not (rows := self._database.query(sql, (self._tenant,))):
            first = "INSERT INTO fact_heads (tenant, version) VALUES (?, 0) ON CONFLICT (tenant) DO NOTHING"
            self._database.commit([(first, (self._tenant,))])
            rows = self._database.query(sql, (self._tenant,))
        return int(rows[0][0])

    def _make_guard(self, operation: FactOperation) -> GuardedUpdate:
        claim = "UPDATE fact_heads SET version = version + 1 WHERE tenant = ? AND version = ?"
        key = {"tenant": self._tenant, "version": operation.version, "token": operation.token}
        return GuardedUpdate((claim, (self._tenant, operation.version - 1)), exists("fact_changes", key))
