"""What `docs/screen.md` says is so."""

from support.places import ROOT

from sandbur.ui.terminal.live import MAX_LINES
from sandbur.ui.terminal.status import StatusFacts, status_cells
from sandbur.ui.terminal.view.folds import MOST_CHARS
from sandbur.ui.terminal.view.plan_progress import MOST_STEPS

PAGE = (ROOT / "docs/screen.md").read_text("utf-8")


def test_the_line_on_the_page_is_the_status_line() -> None:
    facts = StatusFacts(
        mode="interactive", model="anthropic/claude-model", session="e8995322-9d", context_used=0.12,
        tokens=5123, cost_usd=0.0123, budget_left=0.9, model_calls=2,
    )  # fmt: skip
    line = "".join(text for _, text in status_cells(facts, 160, keys="Esc stops"))
    assert f"\n{line}\n" in PAGE


def test_what_is_left_out_first_is_told_in_its_order() -> None:
    told = PAGE.partition("are left out first: ")[2].partition(".")[0].split(", ")
    texts = {
        "session": "e8995322",
        "sandbox": "no sandbox",
        "tokens": "tokens",
        "budget": "left",
        "model": "a/m",
    }
    facts = StatusFacts("interactive", "a/m", "e8995322", "", 0.1, 5000, 0.1, 0.9, model_calls=1)
    gone: list[str] = []
    for width in range(120, 10, -1):
        line = "".join(text for _, text in status_cells(facts, width, keys="Esc stops"))
        gone += [name for name, text in texts.items() if text not in line and name not in gone]
    assert gone == told


def test_the_bounds_on_the_page_are_those_of_the_screen() -> None:
    assert f"at most {MAX_LINES} rows" in PAGE
    assert MOST_STEPS == 8
    assert "more than eight" in PAGE
    assert f"{MOST_CHARS // 1_000_000} million characters" in PAGE
