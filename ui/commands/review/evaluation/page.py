"""The page of an evaluation: the matrix of tasks and contenders, with a link to the report of each run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .....agent.review.evaluation.measures.result import EvaluationResult, EvaluationRun
from .....state.errors import UsageError
from .....state.store.store import Store
from ....report.html import begin_page, div, report, span
from ....report.markup import Html, join, tag
from .table import format_measured

_MOST_CHECK_CHARS = 400


def write_page(result: EvaluationResult, store: Store, path: Path) -> None:
    """Write the page, and the report of each run into a folder beside it; raises `UsageError`."""
    reports = path.with_name(f"{path.stem}-runs")
    try:
        reports.mkdir(exist_ok=True)
        for run in result.runs:
            if store.index.exists(run.session_id):
                (reports / f"{run.session_id}.html").write_text(
                    "".join(report(store, run.session_id, "html")), "utf-8"
                )
        path.write_text("".join(_list_parts(result, reports.name)), "utf-8")
    except OSError as error:
        raise UsageError(f"The page {path} cannot be written: {error.strerror or error}.") from None


def _list_parts(result: EvaluationResult, reports: str) -> Iterator[Html]:
    yield begin_page(f"Evaluation {result.suite}")
    yield join(Html("<body><main>\n"), div("brand", "Sandbur evaluation"), tag("h1", result.suite))
    head = tag("tr", *(tag("th", name) for name in ("task", *result.contenders)))
    rows = [
        tag(
            "tr",
            tag("td", task),
            *(tag("td", *_list_links(result.runs_of(name, task), reports)) for name in result.contenders),
        )
        for task in result.tasks
    ]
    yield _table(head, *rows)
    yield tag("h2", "Metrics")
    yield _metrics(result)
    if compared := result.compare():
        yield tag("h2", "Comparisons")
        names = ("contenders", "tasks", "better", "worse", "difference", "p")
        yield _table(
            tag("tr", *(tag("th", name) for name in names)),
            *(
                tag("tr", *(tag("td", text) for text in (
                    f"{one.first} against {one.second}", str(one.test.tasks), str(one.test.better),
                    str(one.test.worse), f"{one.test.difference.value:+.3f}", f"{one.test.p:.3f}",
                )))
                for one in compared
            ),
        )  # fmt: skip
    for label, why in result.open.items():
        yield div("note", f"Not ended: {label}: {why}")
    yield Html("</main></body></html>\n")


def _metrics(result: EvaluationResult) -> Html:
    found = {name: {one.name: one for one in result.metrics_of(name)} for name in result.contenders}
    names = dict.fromkeys(metric for several in found.values() for metric in several)
    head = tag("tr", *(tag("th", name) for name in ("mean [95 %]", *result.contenders)))
    rows = [
        tag(
            "tr",
            tag("td", metric),
            *(
                tag("td", format_measured(several[metric]) if metric in several else "-")
                for several in found.values()
            ),
        )
        for metric in names
    ]
    return _table(head, *rows)


def _table(head: Html, *rows: Html) -> Html:
    return tag("table", tag("thead", head), tag("tbody", *rows))


def _list_links(runs: list[EvaluationRun], reports: str) -> Iterator[Html | str]:
    if not runs:
        yield span("soft", "-")
    for run in runs:
        cost = "" if run.cost_usd is None else f", ${run.cost_usd:.4f}"
        about = f"{run.status}, reward {run.reward:g}, {run.turns} turns, {run.seconds:.1f} s{cost}"
        title = f"{about}\n{run.check[-_MOST_CHECK_CHARS:]}".strip()
        yield tag(
            "a", "pass" if run.is_passed else "fail", href=f"{reports}/{run.session_id}.html", title=title
        )
        yield " "
