"""The status line: what holds now, in the columns there are."""

from dataclasses import replace

import pytest
from rich.cells import cell_len

from sandbur.state.application import Usage
from sandbur.ui.terminal.status import StatusFacts, money, short_count, status_cells

FACTS = StatusFacts(
    mode="interactive", model="anthropic/claude-model", session="e8995322-9d", context_used=0.12, tokens=5123,
    cost_usd=0.0123, budget_left=0.9, sandbox="bubblewrap, no network", context_window=1000, model_calls=2,
)  # fmt: skip


def told(facts: StatusFacts, width: int) -> str:
    return "".join(text for _, text in status_cells(facts, width, keys="Esc stops"))


def test_a_wide_line_tells_everything() -> None:
    assert told(FACTS, 160) == (
        "interactive · anthropic/claude-model · e8995322 · ctx 12% · 5.1k tokens · $0.0123 · $0.9000 left"
        " · sandbox bubblewrap, no network · Esc stops"
    )


@pytest.mark.parametrize("width", [*range(1, 60), 80, 100, 160])
def test_the_line_is_never_wider_than_the_terminal(width: int) -> None:
    assert cell_len(told(FACTS, width)) <= width


def test_what_matters_least_is_left_out_first() -> None:
    assert told(FACTS, 40) == "interactive · ctx 12% · Esc stops"
    at_80 = told(FACTS, 80)
    assert "anthropic/claude-model" in at_80
    assert "$0.0123" in at_80
    assert "no network" not in at_80


@pytest.mark.parametrize("width", [4, 20, 40, 80])
def test_yolo_is_seen_at_every_width(width: int) -> None:
    role, text = status_cells(StatusFacts(mode="yolo", model="demo"), width)[0]
    assert role == "yolo"
    assert text.startswith("YOLO")


def test_a_model_call_changes_what_is_told() -> None:
    used = Usage(llm_calls=1, input_tokens=400, output_tokens=100, cost_usd=0.1)
    after = FACTS.after(used)
    assert (after.tokens, after.model_calls, after.context_used) == (5623, 3, 0.5)
    assert after.cost_usd == pytest.approx(0.1123)
    assert after.budget_left == pytest.approx(0.8)


def test_an_unknown_cost_is_called_so_and_none_is_told_before_the_first_call() -> None:
    after = FACTS.after(Usage(llm_calls=1, input_tokens=None, cost_usd=None))
    assert "cost unknown" in told(after, 160)
    assert "tokens" not in told(after, 160)
    assert "$" not in told(StatusFacts(mode="plan", model="demo"), 160)


def test_a_name_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in told(StatusFacts(mode="plan", model="a\x1b[2Jb\nc", session="\x07"), 160)


def test_numbers_are_short() -> None:
    assert [short_count(n) for n in (0, 999, 1000, 12_345, 2_500_000)] == ["0", "999", "1.0k", "12k", "2.5M"]
    assert [money(n) for n in (0, 0.00012, 12.345)] == ["$0", "$0.0001", "$12.35"]


@pytest.mark.parametrize("mode", ["interactive", "auto-edit", "yolo", "plan"])
@pytest.mark.parametrize("width", [24, 40, 80])
def test_a_trial_is_seen_at_every_width_before_the_mode(mode: str, width: int) -> None:
    facts = replace(FACTS, mode=mode, is_trial=True)
    assert status_cells(facts, width)[0] == ("trial", "trial")
    assert told(facts, width).partition(" · ")[2].casefold().startswith(mode)
    assert "trial" not in told(replace(facts, is_trial=False), width)
