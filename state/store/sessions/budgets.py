"""Budgets: how many requests and tokens a minute all workers together may use of a model."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ...databases.database import Database, GuardedUpdate, exists, insert, update
from ...errors import GuardFailed
from ...process.clock import format_time
from .sealed_limits import REMOVED, is_changed, load_codes, make_limit_error, note_limit, seal_limit

_THOUSANDTHS = 1000
"""A bucket counts in thousandths, so that a short time refills a part of one."""
_MINUTE_S = 60.0
_MOST_TRIES = 20
_RETRY_S = 0.05


class Budget(NamedTuple):
    """One row: a bucket of requests and one of tokens, which a minute fills. A limit of 0 is none."""

    requests_per_minute: int
    tokens_per_minute: int
    requests_left: int
    tokens_left: int
    at: str
    version: int

    def refill(self, now: datetime) -> Budget:
        """Return the budget as it is `now`."""
        passed_s = max(0.0, (now - datetime.fromisoformat(self.at)).total_seconds())
        requests, tokens = (
            min(left + int(limit * _THOUSANDTHS * passed_s / _MINUTE_S), limit * _THOUSANDTHS)
            for left, limit in (
                (self.requests_left, self.requests_per_minute),
                (self.tokens_left, self.tokens_per_minute),
            )
        )
        return self._replace(requests_left=requests, tokens_left=tokens, at=format_time(now))

    def count_seconds(self) -> float:
        """Return the seconds until a request may be sent; 0 if it may be sent now."""
        waits = [0.0]
        if self.requests_per_minute:
            missing = _THOUSANDTHS - self.requests_left
            waits.append(missing * _MINUTE_S / (self.requests_per_minute * _THOUSANDTHS))
        if self.tokens_per_minute:
            missing = 1 - self.tokens_left
            waits.append(missing * _MINUTE_S / (self.tokens_per_minute * _THOUSANDTHS))
        return max(waits)

    def charge(self, requests: int, tokens: int) -> Budget:
        """Return the budget after a use. A reply may cost more tokens than are left: then others wait."""
        return self._replace(
            requests_left=self.requests_left - requests * _THOUSANDTHS,
            tokens_left=self.tokens_left - tokens * _THOUSANDTHS,
        )


class BudgetRows:
    """The budgets in a store, by the name of a model or of a provider. Methods wait for the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, name: str, requests_per_minute: int = 0, tokens_per_minute: int = 0) -> None:
        """Set the limits of a budget, whose buckets are full then; 0 is no limit."""
        limits = {"requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute}
        left = {"requests_left": requests_per_minute, "tokens_left": tokens_per_minute}
        full = {key: value * _THOUSANDTHS for key, value in left.items()}
        row = {**limits, **full, "at": format_time(self._database.now()), "version": 0}
        removal = ("DELETE FROM budgets WHERE name = ?", (name,))
        code = seal_limit(self._database, "budget", name, (requests_per_minute, tokens_per_minute))
        self._database.commit([removal, insert("budgets", {"name": name, **row}), *code])
        note_limit(self._database, "budget", name)

    def find(self, *names: str) -> str:
        """Return the first of these names that has a budget; empty if none has one.

        Raises `StoreError` if one of them was changed from outside.
        """
        rows = self._database.query("SELECT name, requests_per_minute, tokens_per_minute FROM budgets")
        known = {str(name): (int(requests), int(tokens)) for name, requests, tokens in rows}
        codes = load_codes(self._database)
        for name in names:
            if is_changed(self._database, codes, "budget", name, known.get(name, REMOVED)):
                raise make_limit_error("budget", name)
        return next((name for name in names if name in known), "")

    def take(self, name: str) -> float:
        """Take one request of a budget. Return 0, or the seconds after which to try again."""
        for _ in range(_MOST_TRIES):
            if (budget := self._load(name)) is None:
                return 0.0
            if wait_s := budget.count_seconds():
                return max(wait_s, _RETRY_S)
            if self._write(name, budget.charge(1, 0)):
                return 0.0
        return _RETRY_S

    def charge(self, name: str, tokens: int) -> None:
        """Subtract the tokens that a reply has used."""
        for _ in range(_MOST_TRIES):
            if (budget := self._load(name)) is None or self._write(name, budget.charge(0, tokens)):
                return

    def _load(self, name: str) -> Budget | None:
        columns = ", ".join(Budget._fields)
        rows = self._database.query(f"SELECT {columns} FROM budgets WHERE name = ?", (name,))
        return Budget(*rows[0]).refill(self._database.now()) if rows else None

    def _write(self, name: str, budget: Budget) -> bool:
        """Write a changed budget; return False if another process has changed it meanwhile."""
        columns = {**budget._asdict(), "version": budget.version + 1}
        claim = update("budgets", columns, {"name": name, "version": budget.version})
        landed = exists("budgets", {"name": name, "version": budget.version + 1, "at": budget.at})
        try:
            self._database.commit([], GuardedUpdate(claim, landed))
        except GuardFailed:
            return False
        return True
