"""All workers together use at most the requests and tokens a minute of a budget."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from sandbur.state.errors import UsageError
from sandbur.state.process.clock import format_time
from sandbur.state.store.sessions.budgets import Budget, BudgetRows
from sandbur.state.store.store import Store
from sandbur.ui.cli.arguments import parse

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def empty(store: Store, name: str) -> None:
    """Leave nothing of a budget."""
    sql = "UPDATE budgets SET requests_left = 0, at = ? WHERE name = ?"
    store.database.commit([(sql, (format_time(store.database.now()), name))])


def test_many_threads_take_as_many_requests_as_the_budget_has(store: Store) -> None:
    BudgetRows(store.database).write("openai", requests_per_minute=6)
    taken: list[float] = []

    def work() -> None:
        rows = BudgetRows(store.database)
        taken.extend(rows.take("openai") for _ in range(6))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A minute fills six: the threads may have taken a tenth of a minute or two.
    assert 6 <= taken.count(0.0) <= 8
    assert all(wait_s <= 10 for wait_s in taken)


def test_a_reply_that_cost_more_tokens_than_are_left_makes_the_next_request_wait(store: Store) -> None:
    rows = BudgetRows(store.database)
    rows.write("openai/big", tokens_per_minute=600)
    assert rows.take("openai/big") == 0
    rows.charge("openai/big", 900)
    assert 25 < rows.take("openai/big") <= 31


def test_a_bucket_fills_with_time_and_never_above_its_limit() -> None:
    budget = Budget(60, 0, 0, 0, format_time(NOW), 0)
    assert budget.count_seconds() == 1.0
    assert budget.refill(NOW + timedelta(seconds=1)).count_seconds() == 0.0
    assert budget.refill(NOW + timedelta(hours=1)).requests_left == 60_000
    assert budget.refill(NOW - timedelta(hours=1)).requests_left == 0


def test_a_model_without_a_budget_waits_for_nothing(store: Store) -> None:
    rows = BudgetRows(store.database)
    rows.write("openai", requests_per_minute=1)
    assert rows.find("anthropic/x", "anthropic") == ""
    assert rows.find("openai/x", "openai") == "openai"
    assert rows.take("anthropic") == 0
    empty(store, "openai")
    assert rows.take("openai") > 50


@pytest.mark.parametrize("flags", [["--budget", "openai"], ["--budget", "=5"], ["--quota", "acme=x"], []])
def test_limits_that_are_no_numbers_are_refused(flags: list[str]) -> None:
    agent = ["--agent", "a:b"] if flags else []
    with pytest.raises(UsageError):
        parse(["worker", *agent, *flags])
