"""The page of an evaluation: the matrix of tasks and contenders, with links to the reports of its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .....agent.review.evaluation.measures.result import EvaluationResult, EvaluationRun
from .....state.errors import UsageError
from .....state.store.store import Store
from ....report.html import begin_page, div, report, span
from ....report.markup import Html, join, tag
from .table import format_measured

_MOST_CHECK_CHARS = 400


def write_page(result: EvaluationResult, path: Path, store: Store | None = None) -> None:
    """Write the page, and the report of each run in the store into a folder beside it; raises `UsageError`.

    Without a store, as for results of other machines and versions, the page has no links.
    """
    try:
        links: Mapping[str, str] = (
            {} if store is None else _write_reports(result, path.with_name(f"{path.stem}-runs"), store)
        )
        path.write_text("".join(_list_parts(result, links)), "utf-8")
    except OSError as error:
        raise UsageError(f"The page {path} cannot be written: {error.strerror or error}.") from None


def _write_reports(result: EvaluationResult, folder: Path, store: Store) -> Mapping[str, str]:
    """Write the report of each run; return the links to them by the ids of the sessions."""
    folder.mkdir(exist_ok=True)
    found = [run.session_id for run in result.runs if store.index.exists(run.session_id)]
    for session_id in found:
        (folder / f"{session_id}.html").write_text("".join(report(store, session_id, "html")), "utf-8")
    return {session_id: f"{folder.name}/{session_id}.html" for session_id in found}


def _list_parts(result: EvaluationResult, links: Mapping[str, str]) -> Iterator[Html]:
    yield begin_page(f"Evaluation {result.suite}")
    yield join(Html("<body><main>\n"), div("brand", "Sandbur evaluation"), tag("h1", result.suite))
    head = tag("tr", *(tag("th", name) for name in ("task", *result.contenders)))
    rows = [
        tag(
            "tr",
            tag("td", task),
            *(tag("td", *_list_verdicts(result.runs_of(name, task), links)) for name in result.contenders),
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
    if failed := [run for run in result.runs if not run.is_passed]:
        yield tag("h2", "Failed runs")
        yield _list_failed(failed)
    for label, why in result.open.items():
        yield div("note", f"Not ended: {label}: {why}")
    for notice in dict.fromkeys(result.notices):
        yield div("note", notice)
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


def _list_verdicts(runs: list[EvaluationRun], links: Mapping[str, str]) -> Iterator[Html | str]:
    if not runs:
        yield span("soft", "-")
    for run in runs:
        cost = "" if run.cost_usd is None else f", ${run.cost_usd:.4f}"
        about = f"{run.status}, reward {run.reward:g}, {run.turns} turns, {run.seconds:.1f} s{cost}"
        title = f"{about}\n{_cut_check(run)}".strip()
        link = links.get(run.session_id)
        verdict, sign = ("pass", "ok") if run.is_passed else ("fail", "bad")
        name = "span" if link is None else "a"
        yield tag(name, verdict, class_=f"pill {sign}", href=link, title=title)
        yield " "


def _list_failed(runs: Sequence[EvaluationRun]) -> Html:
    """Return a table of runs that failed, with the end of what their checks printed."""
    head = tag("tr", *(tag("th", name) for name in ("run", "status", "reward", "check")))
    rows = [
        tag("tr", *(tag("td", text) for text in (
            f"{run.task} · {run.contender} · {run.repeat}", run.status, f"{run.reward:g}", _cut_check(run),
        )))
        for run in runs
    ]  # fmt: skip
    return _table(head, *rows)


def _cut_check(run: EvaluationRun) -> str:
    return run.check[-_MOST_CHECK_CHARS:].strip()
