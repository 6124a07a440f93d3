"""The tables of a report page: figures, troubles, approvals, files, and the proof of the record."""

from agent.report.account import Account, Call, Lost, ModelUsed, RunBoundary
from agent.report.facts import Facts
from agent.version import VERSION
from state.usage import Usage
from ui.report.html_parts import cut_block, pill, sign_of, time
from ui.report.safe import line
from ui.report.words import boundary, call_state, headline, model_call, plural, verdict

_MOST_TROUBLES = 50
_MOST_BREACHES = 20


def tiles(facts: Facts, usage: Usage) -> str:
    """Return the main figures."""
    shown = "".join(
        f'<div class="tile"><span>{line(name)}</span><b>{line(value)}</b><span>{line(remark)}</span></div>'
        for name, value, remark in headline(facts, usage)
    )
    return f'<div class="tiles">{shown}</div>\n'


def troubles(facts: Facts) -> str:
    """Return what went wrong, with links to where it is told."""
    if not facts.troubles:
        return ""
    rows = "".join(
        f'<tr><td class="tight">{time(at)}</td><td>{_trouble(what)}</td></tr>'
        for at, what in facts.troubles[:_MOST_TROUBLES]
    )
    more = len(facts.troubles) - _MOST_TROUBLES
    rest = f'<tr><td></td><td class="soft">and {more} more, below</td></tr>' if more > 0 else ""
    return f"<h2>What went wrong</h2><table>{rows}{rest}</table>\n"


def _trouble(what: Call | RunBoundary | ModelUsed | Lost) -> str:
    match what:
        case Call():
            state = call_state(what, frozenset())
            again = f", started {len(what.started)} times" if len(what.started) > 1 else ""
            return f"{_link(what)} {pill(state, sign_of(state))}{again}"
        case RunBoundary():
            return line(boundary(what))
        case ModelUsed():
            notices = " ".join(map(line, what.call.notices))
            return f"{notices} {line(model_call(what))}"
        case Lost():
            return line(what.what)


def _link(call: Call) -> str:
    return f'<a href="#call-{call.number}">{line(call.tool)} <bdi>{line(call.subject)}</bdi></a>'


def approvals(facts: Facts, waiting: frozenset[str]) -> str:
    """Return every call that was asked about or denied: what exactly, who said what and when."""
    by_policy = facts.calls - len(facts.decided)
    rest = f'<p class="soft">{plural(by_policy, "call")} passed unasked, by the mode or a rule.</p>'
    if not facts.decided:
        return f"<h2>Approvals</h2>{rest}\n" if facts.calls else ""
    rows = "".join(_approval(call, waiting) for call in facts.decided)
    head = "<tr><th>Call</th><th>What exactly</th><th>Decisions</th><th>Outcome</th></tr>"
    return f'<h2>Approvals</h2><div class="scroll"><table>{head}{rows}</table></div>{rest}\n'


def _approval(call: Call, waiting: frozenset[str]) -> str:
    said = "<br>".join(
        f"{time(one.at)} {line(verdict(one))}{f': {line(one.reason)}' if one.reason else ''}"
        for one in call.verdicts
    )
    state = call_state(call, waiting)
    return (
        f'<tr><td class="tight"><a href="#call-{call.number}">{line(call.tool)}</a></td>'
        f"<td><details><summary>{line(call.subject)}</summary><pre>{cut_block(call.arguments)}</pre>"
        f'<span class="soft mono">sha256 {line(call.arguments_sha256)}</span></details></td>'
        f"<td>{said}</td><td>{pill(state, sign_of(state))}</td></tr>"
    )


def files(facts: Facts) -> str:
    """Return the files that were changed, with links to the calls that did it."""
    if not facts.files:
        return ""
    rows = "".join(
        f'<tr><td class="files"><code>{line(path)}</code></td><td>{_links(calls)}</td></tr>'
        for path, calls in sorted(facts.files.items())
    )
    return f"<h2>Files</h2><table>{rows}</table>\n"


def _links(calls: list[Call]) -> str:
    shown = ", ".join(f'<a href="#call-{call.number}">{line(call.tool)}</a>' for call in calls[:20])
    return f"{shown} and {len(calls) - 20} more" if len(calls) > 20 else shown


def record(account: Account) -> str:
    """Return whether the record behind this page holds."""
    audit = account.audit
    records = sum(session.records for session in audit.sessions)
    if audit.breaches:
        rows = "".join(
            f"<li>record {breach.record} {breach.table} {line(breach.place)}: {line(breach.problem)}</li>"
            for breach in audit.breaches[:_MOST_BREACHES]
        )
        more = len(audit.breaches) - _MOST_BREACHES
        rest = f"<li>and {more} more</li>" if more > 0 else ""
        found = (
            f"{pill('does not hold', 'bad')} {plural(len(audit.breaches), 'finding')}<ul>{rows}{rest}</ul>"
        )
    else:
        found = (
            f"{pill('verified', 'ok')} {plural(records, 'record')}, hash-chained; every call that started was"
            " approved as it ran. The chain ends in"
            f" <code>{line(audit.sessions[-1].chain)}</code>."
        )
    return (
        f"<h2>Record</h2><p>{found}</p>"
        f"<footer>Made by Sandbur {VERSION}. All times are UTC. Whole outputs: <code>sandbur sessions export"
        f" {line(account.summary.id)}</code></footer>\n"
    )
