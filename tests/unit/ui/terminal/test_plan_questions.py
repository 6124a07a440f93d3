"""The question about a plan: numbered steps, and what each may do in a column of its own."""

import json
from collections import Counter
from pathlib import Path

import pytest
from rich.cells import cell_len

from sandbur.agent.review.plans.plan_text import FORM
from sandbur.ui.terminal.lines import preview_plan
from sandbur.ui.terminal.text.diffs import Line

PLAN = f"""{FORM}
A step may have further lines of text, which are as long as somebody likes and are wrapped in every window.
## Test it with 中文 and `backticks`, | and #
- runs: `pytest -q`, `ruff check`
- writes: src/a/folder/with/a/long/name/that/does/not/fit/into/any/column/of/a/narrow/window.py
## Nothing
"""


def lay_out(plan: str, room: int, bar: str = "│") -> list[Line]:
    return preview_plan("propose_plan", json.dumps({"plan": plan}), ".", room, bar)


@pytest.mark.parametrize("bar", ["│", ""])
@pytest.mark.parametrize("room", [37, 57, 77, 117])
def test_every_word_of_a_plan_is_in_its_question_at_any_width(room: int, bar: str) -> None:
    lines = [text for _, text in lay_out(PLAN, room, bar)]
    assert max(map(cell_len, lines)) <= room
    lost = Counter(PLAN) - Counter("".join(lines))
    assert set(lost) <= set("#-: \n"), lost


def test_what_a_step_may_do_is_a_column_of_its_own() -> None:
    lines = [text for _, text in lay_out(PLAN, 100)]
    assert all(cell_len(line.partition("│")[0]) == 57 for line in lines if "│" in line)
    left, right = zip(*(line.partition("│")[::2] for line in lines), strict=True)
    assert [line.strip() for line in left if line[:1].isdigit()] == [
        "1. The first step",
        "2. Test it with 中文 and `backticks`, | and #",
        "3. Nothing",
    ]
    keys = [line.split()[0] for line in right if line[1:2].strip()]
    first = ["writes", "runs", "hosts", "tools", "agents", "budget"]
    assert keys == ["budget", *first, "runs", "writes"]


def test_in_a_narrow_window_what_a_step_may_do_is_below_it() -> None:
    lines = [text for _, text in lay_out("# Count\n## Look\n- runs: ls\n## End\n", 37)]
    assert lines == ["Count", "", "1. Look", "   runs    ls", "", "2. End"]


def test_what_is_no_plan_is_shown_as_it_is(tmp_path: Path) -> None:
    arguments = json.dumps({"plan": "# Count", "more": "x"})
    lines = [text for _, text in preview_plan("propose_plan", arguments, str(tmp_path), 80, "│")]
    assert lines == ["plan: # Count", "more: x"]
