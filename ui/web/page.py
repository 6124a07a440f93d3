"""Renders the page of waiting decisions: HTML forms without a script, for all screen sizes."""

from collections.abc import Iterator, Sequence

from ...actions.workspace.paths import format_count
from ...state.session import SessionSummary
from ..report.markup import Html, block, join, tag
from ..terminal.lines import Line
from ..terminal.terminal import shorten
from ..terminal.text.times import ago
from .waiting_approvals import (
    LeftMessages,
    Overview,
    ParkedSession,
    StoppedSession,
    WaitingCall,
    WaitingSession,
    run_page,
)

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    # With `no-referrer` a browser would not send the origin of a form.
    "referrer-policy": "same-origin",
}

NOTES = {
    "approved": "Approved. The call runs when the session is resumed.",
    "denied": "Denied. The model is informed when the session is resumed.",
    "settled": "Settled. The session can be resumed.",
    "lifted": "The session tries again when it is resumed.",
}
"""The messages that a request can select; text from a request is never displayed."""

_MOST_MESSAGE_CHARS = 200
_CSS = """
:root{color-scheme:light dark;--bg:#fbfaf8;--card:#fff;--ink:#1d1c1a;--soft:#6b6862;--line:#dcd8cf;
--code:#f5f3ee;
--accent:#3858c9;--go:#1f7a43;--stop:#b3261e;--warn:#8a5a00}
@media (prefers-color-scheme:dark){:root{--bg:#151618;--card:#1d1f22;--ink:#e7e5e0;--soft:#a09c94;
--line:#3a3d42;
--code:#26282c;--accent:#8fa8ff;--go:#6fcf97;--stop:#ff8a80;--warn:#f0c36d}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1rem}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;font-size:.9rem}
a{color:var(--accent)}
h1{font-size:1.4rem;margin:.8rem 0}
h2{font-size:1.1rem;margin:0;overflow-wrap:anywhere}
section,.note{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.9rem;
margin:0 0 1rem}
.note{border-left:4px solid var(--accent);overflow-wrap:anywhere}.note.bad{border-left-color:var(--stop)}
.soft{color:var(--soft);font-size:.88rem;overflow-wrap:anywhere;margin:.2rem 0}
.why{color:var(--warn);overflow-wrap:anywhere;margin:.5rem 0}
article{border-top:1px solid var(--line);margin-top:.8rem;padding-top:.8rem}
h3{font-size:1rem;margin:0;overflow-wrap:anywhere}
pre,code{font:13px/1.5 ui-monospace,"Cascadia Mono",Menlo,Consolas,monospace}
pre{background:var(--code);border-radius:8px;padding:.7rem;margin:.5rem 0;white-space:pre-wrap;
overflow-wrap:anywhere;
max-height:60vh;overflow:auto}
code{overflow-wrap:anywhere}
.removed,.wrong{color:var(--stop)}.added,.good{color:var(--go)}.hunk{color:var(--accent)}
.heading{font-weight:650}.quiet{color:var(--soft)}.careful,.caution{color:var(--warn)}.caution{font-weight:650}
form{display:flex;flex-wrap:wrap;gap:.5rem;margin:.5rem 0 0}
input{flex:1 1 14rem;min-width:0;font:inherit;padding:.55rem .6rem;border:1px solid var(--line);
border-radius:8px;
background:var(--bg);color:var(--ink)}
button{font:inherit;font-weight:600;min-height:44px;padding:.4rem 1.1rem;border-radius:8px;
cursor:pointer;
border:1px solid currentColor;background:none;color:var(--ink)}
button.go{color:var(--go)}button.stop{color:var(--stop)}
ul{padding-left:1.1rem;margin:.4rem 0}li{overflow-wrap:anywhere;margin:.2rem 0}
"""


def page(found: Overview, form_token: str, note: str = "", problem: str = "") -> Html:
    """Return the whole page; `problem` is displayed as plain text."""
    count = sum(len(one.calls) for one in found.waiting) + sum(len(one.inside) for one in found.stopped)
    count += len(found.parked)
    title = f"{count} waiting" if count else "Nothing waits"
    body = join(
        tag("nav", tag("a", "Look again", href="/"), tag("a", "All runs", href="/projects")),
        tag("h1", f"{title} for your decision" if count else f"{title} for a decision"),
        tag("p", problem, class_="note bad", role="alert") if problem else Html(),
        tag("p", NOTES[note], class_="note", role="status") if note in NOTES else Html(),
        _render_due(found.due),
        join(*(_session(one, form_token) for one in found.waiting)),
        join(*(_render_stopped_session(one) for one in found.stopped if one.inside)),
        join(*(_render_parked_session(one, form_token) for one in found.parked)),
        _count_left_out(found.left_out),
        _render_stopped_sessions([one.summary for one in found.stopped if not one.inside]),
        _render_left_messages(found.messages),
    )
    return join(
        Html("<!doctype html>"),
        tag("html", _head(title), tag("body", tag("main", body)), lang="en"),
        Html("\n"),
    )


def _count_left_out(left_out: int) -> Html:
    if not left_out:
        return Html()
    return tag("p", f"{format_count(left_out, 'session')} more to decide.", class_="soft")


def _head(title: str) -> Html:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} · Sandbur"),
        tag("style", Html(_CSS)),
    )


def _render_due(due: int) -> Html:
    if not due:
        return Html()
    runs = "1 session is decided and goes" if due == 1 else f"{due} sessions are decided and go"
    return tag("p", f"{runs} on with ", tag("code", "sandbur resume --due"), ".", class_="note")


def _session(found: WaitingSession, form_token: str) -> Html:
    one = found.summary
    facts = (one.cwd, one.model, f"mode {found.mode}", ago(one.updated_at))
    imported = " · imported: what it says comes from elsewhere" if one.is_foreign else ""
    return tag(
        "section",
        tag("h2", tag("a", one.title or one.id, href=run_page(one))),
        tag("p", f"{' · '.join(facts)}{imported}", class_="soft"),
        join(*(_call(one.id, call, form_token) for call in found.calls)),
    )


def _call(session_id: str, waiting: WaitingCall, form_token: str) -> Html:
    call = waiting.call
    is_unknown = call.kind == "outcome_unknown"
    state_text = "was running when its process died; its outcome is unknown" if is_unknown else "wants to run"
    fields = {"form_token": form_token, "session": session_id, "call": call.call_id, "digest": waiting.digest}
    hidden = join(*(tag("input", type="hidden", name=name, value=value) for name, value in fields.items()))
    return tag(
        "article",
        tag("h3", f"{call.tool} {state_text}"),
        tag("pre", join(*_lines(waiting.lines))),
        tag("p", f"Asks: {call.reason}", class_="why") if call.reason and not is_unknown else Html(),
        *(_render_settlement(hidden) if is_unknown else _render_approval(hidden)),
    )


def _lines(lines: tuple[Line, ...]) -> Iterator[Html]:
    for style, text in lines:
        yield tag("span", block(text), class_=style or None)
        yield Html("\n")


def _render_approval(hidden: Html) -> Iterator[Html]:
    yield tag("form", hidden, _button("approve", "Approve", "go"), method="post", action="/decide")
    yield tag(
        "form", hidden, tag("input", name="words", placeholder="Why not (sent to the model)", maxlength=2000),
        _button("deny", "Deny", "stop"), method="post", action="/decide",
    )  # fmt: skip


def _render_settlement(hidden: Html) -> Iterator[Html]:
    yield tag(
        "form", hidden,
        tag("input", name="words", placeholder="What the model should know", maxlength=2000),
        _button("check", "Let the model check"), _button("done", "It took effect"),
        _button("failed", "It failed"), _button("rerun", "Run it again", "stop"),
        method="post", action="/decide",
    )  # fmt: skip


def _button(value: str, words: str, kind: str = "") -> Html:
    return tag("button", words, name="decision", value=value, class_=kind or None)


def _render_left_messages(found: tuple[LeftMessages, ...]) -> Html:
    if not found:
        return Html()

    def row(one: LeftMessages) -> Html:
        words = shorten(" ".join(one.texts[0].split()), _MOST_MESSAGE_CHARS, "...")
        more = f" and {len(one.texts) - 1} more" if len(one.texts) > 1 else ""
        return tag(
            "li", f"{one.summary.title or one.summary.id}: {words}{more} ", tag("code", one.summary.id)
        )

    head = join(tag("h2", "Messages that wait"), tag("p", "Sent when the session goes on.", class_="soft"))
    return tag("section", head, tag("ul", *map(row, found)))


def _render_stopped_session(found: StoppedSession) -> Html:
    one = found.summary
    text = "The process of the session died while this ran. A resume checks what took effect, and asks about "
    return tag(
        "section",
        tag("h2", tag("a", one.title or one.id, href=run_page(one))),
        tag("p", " · ".join((one.cwd, one.model, ago(one.updated_at))), class_="soft"),
        tag("pre", "\n".join(found.inside)),
        tag("p", f"{text}the rest: ", tag("code", f"sandbur -r {one.id}"), class_="why"),
    )


def _render_parked_session(found: ParkedSession, form_token: str) -> Html:
    one, fields = found.summary, {"form_token": form_token, "session": found.summary.id}
    hidden = join(*(tag("input", type="hidden", name=name, value=value) for name, value in fields.items()))
    return tag(
        "section",
        tag("h2", tag("a", one.title or one.id, href=run_page(one))),
        tag("p", " · ".join((one.cwd, one.model, ago(one.updated_at))), class_="soft"),
        tag("p", f"Parked. {found.reason}", class_="why"),
        tag("form", hidden, _button("lift", "Let it try again", "go"), method="post", action="/lift"),
    )


def _render_stopped_sessions(sessions: Sequence[SessionSummary]) -> Html:
    if not sessions:
        return Html()

    def row(one: SessionSummary) -> Html:
        text = f"{one.title or one.id} ({one.status}, {ago(one.updated_at)}): "
        return tag("li", text, tag("code", f"sandbur -r {one.id}"))

    head = join(tag("h2", "Stopped before the end"), tag("p", "No decision is needed yet.", class_="soft"))
    return tag("section", head, tag("ul", *map(row, sessions)))
