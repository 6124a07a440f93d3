"""The page of figures is printed from what was recorded, by workload."""

import re

from bench.figures import Figure
from bench.page import PAGE, TEMPLATE, make_page
from bench.results import Conditions, Recorded, Results
from bench.workloads import WORKLOADS
from support.places import TESTS

CONDITIONS = Conditions(date="2026-11-28", commit="0" * 8, python="CPython 3.11.7", processors=2, load=0.1)


def record(*figures: Figure) -> Recorded:
    return Recorded(conditions=CONDITIONS, number=7, figures=figures)


def test_the_page_is_what_the_recorded_results_print() -> None:
    assert PAGE.read_text("utf-8") == make_page(TEMPLATE.read_text("utf-8"), Results.read()), (
        "change tests/bench/performance_template.md, and run: python tests/bench/all.py --page"
    )


def test_a_partial_run_changes_only_its_rows() -> None:
    kept, changed = Figure(what="a commit", value=1.8, limit=2), Figure(what="a turn", value=3.8, limit=4)
    before = Results(workloads={"store_commits": record(kept), "turns": record(changed)})
    after = before.replace({"turns": record(changed.model_copy(update={"value": 5.12345}))})
    template = "<!-- figures -->"
    old, new = (make_page(template, results).splitlines() for results in (before, after))
    assert set(new) - set(old) == {"| a turn | 5.12 | 4 | MISSED | `turns` |"}
    assert set(old) - set(new) == {"| a turn | 3.80 | 4 | kept | `turns` |"}


def test_the_list_of_misses_has_each_figure_over_its_limit_with_its_reason() -> None:
    figures = Figure(what="a turn", value=5, limit=4, unit=" ms"), Figure(what="memory", value=1, limit=2)
    results = Results(workloads={"turns": record(*figures), "crowd": record(figures[1])})
    template = "<!-- missed -->\n<!-- why turns: It is\nlong. -->\n<!-- why crowd: Not shown. -->\n"
    page = make_page(template, results)
    assert "3 figures have a limit; 1 of them miss it." in page
    assert "* `turns`: a turn: 5.00 ms (limit 4 ms). It is long." in page
    assert "Not shown" not in page


def test_programs_that_are_compared_share_a_table() -> None:
    first = Figure(contender="ours 1", what="CPU", value=1.5, unit=" ms")
    other = Figure(contender="theirs 2", what="CPU", value=9, unit=" ms")
    results = Results(
        workloads={
            "turn_peers": record(first, other),
            "crowd_peers": record(first.model_copy(update={"what": "memory", "unit": " MB"})),
        }
    )
    table = make_page("<!-- figures -->", results).splitlines()
    assert "|  | CPU | memory |" in table
    assert "| ours 1 | 1.50 ms | 1.50 MB |" in table
    assert "| theirs 2 | 9.00 ms | - |" in table


def test_every_workload_of_the_table_is_a_function_that_is_there() -> None:
    for module, function in (one.function.split(":") for one in WORKLOADS.values()):
        source = (TESTS / f"bench/{module}.py").read_text("utf-8")
        assert re.search(rf"^(async )?def {function}\(", source, re.M), f"{module}:{function}"
