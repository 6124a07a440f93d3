"""Makes `docs/performance.md` from its template and the recorded results; nobody types in that page.

Marks in the template: `<!-- figures -->`, `<!-- missed -->` and `<!-- runs -->` stand for the parts made
here; `<!-- why NAME: text -->` says why figures of that workload miss, and appears only while one does.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.figures import Figure
from bench.results import Conditions, Recorded, Results
from bench.workloads import SUBJECTS, WORKLOADS

PAGE = Path(__file__).resolve().parents[2] / "docs/performance.md"
TEMPLATE = Path(__file__).with_name("performance_template.md")
FROM = "<!-- Printed by `python tests/bench/all.py --page`. Edit tests/bench/performance_template.md. -->\n\n"
WHY = re.compile(r"<!-- why (\w+): (.*?) -->\n", re.S)


def make_page(template: str, results: Results) -> str:
    """Return the page. Workloads that are not in the table any more are left out."""
    recorded = {name: results.workloads[name] for name in WORKLOADS if name in results.workloads}
    reasons = {name: " ".join(text.split()) for name, text in WHY.findall(template)}
    parts = {
        "figures": _list_subjects(recorded),
        "missed": _list_missed(recorded, reasons),
        "runs": _list_runs(recorded),
    }
    page = WHY.sub("", template)
    for mark, lines in parts.items():
        page = page.replace(f"<!-- {mark} -->", "\n".join(lines))
    return FROM + page


def write_page(results: Results) -> None:
    PAGE.write_text(make_page(TEMPLATE.read_text("utf-8"), results), "utf-8")


def _list_subjects(recorded: dict[str, Recorded]) -> Iterator[str]:
    for subject, workloads in SUBJECTS.items():
        found = {name: recorded[name] for name in workloads if name in recorded}
        figures = [(figure, name) for name, one in found.items() for figure in one.figures]
        own = [(figure, name) for figure, name in figures if not figure.contender]
        compared = [figure for figure, _ in figures if figure.contender]
        yield f"### {subject}\n"
        if not found:
            yield "Nothing is recorded.\n"
        if own:
            yield from _make_table(
                ("What", "Figure", "Limit", "State", "Workload"),
                (_make_row(figure, name, found[name]) for figure, name in own),
            )
        if compared:
            yield from _compare(compared)


def _make_row(figure: Figure, name: str, recorded: Recorded) -> tuple[str, ...]:
    value = f"{figure.value_text} of {figure.against}" if figure.against else figure.value_text
    state = figure.state if figure.limit is not None else ""
    return figure.what, value, figure.limit_text, state, f"`{_show(name, recorded)}`"


def _show(name: str, recorded: Recorded) -> str:
    """Return the words for `all.py` that run this again."""
    return name if recorded.number == WORKLOADS[name].number else f"{name}={recorded.number}"


def _compare(figures: list[Figure]) -> Iterator[str]:
    """Yield a table with a row for each contender and a column for each measure."""
    measures = list(dict.fromkeys(figure.what for figure in figures))
    values = {(figure.contender, figure.what): figure.value_text for figure in figures}
    names = dict.fromkeys(figure.contender for figure in figures)
    contenders = sorted(names, key=lambda name: not name.startswith("sandbur "))
    rows = ((one, *(values.get((one, what), "-") for what in measures)) for one in contenders)
    return _make_table(("", *measures), rows)


def _make_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = tuple(head)
    yield _join(names)
    yield "|---" * len(names) + "|"
    yield from map(_join, rows)
    yield ""


def _join(cells: Iterable[str]) -> str:
    escaped = (" ".join(cell.split()).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _list_missed(recorded: dict[str, Recorded], reasons: dict[str, str]) -> Iterator[str]:
    limited = [figure for one in recorded.values() for figure in one.figures if figure.limit is not None]
    missed = {name: [figure for figure in one.figures if figure.is_missed] for name, one in recorded.items()}
    count = sum(map(len, missed.values()))
    yield f"{len(limited)} figures have a limit; {count or 'none'} of them miss{'' if count else 'es'} it."
    for name, figures in missed.items():
        if not figures:
            continue
        texts = (f"{one.what}: {one.value_text} (limit {one.limit_text})" for one in figures)
        reason = f" {reasons[name]}" if name in reasons else ""
        yield f"\n* `{name}`: {'; '.join(texts)}.{reason}"
    failed = [name for name, one in recorded.items() if one.has_failed]
    if failed:
        yield f"\nThese ended with an error: {_quote(failed)}."


def _list_runs(recorded: dict[str, Recorded]) -> Iterator[str]:
    runs: dict[Conditions, list[str]] = {}
    for name, one in recorded.items():
        runs.setdefault(one.conditions, []).append(_show(name, one))
    rows = (
        (run.date, run.commit, run.python, str(run.processors), f"{run.load:.1f}", _quote(names))
        for run, names in sorted(runs.items(), key=lambda pair: (pair[0].date, pair[0].commit))
    )
    yield from _make_table(("Date", "Commit", "Python", "Processors", "Load before", "Workloads"), rows)
    if others := [name for name in WORKLOADS if name not in recorded]:
        yield f"Not recorded: {_quote(others)}."


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
