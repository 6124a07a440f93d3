"""The list of sessions to pick from: status, last messages, and a search in the person's messages."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path

from ...actions.workspace.paths import format_count
from ...agent.config.paths import repository_root
from ...agent.graph import next_action
from ...agent.history.timeline import list_first_lines
from ...state.application import ApplicationState
from ...state.conversation.messages import Message
from ...state.errors import StoreError, UsageError
from ...state.session import SessionSummary
from ...state.store.sessions.listing import FolderFilter
from ...state.store.store import Store
from ..terminal.text.sanitize import one_line, plain
from ..terminal.text.times import local_time, short_age
from .menu import Choice, ChoiceList, Pages, Picker
from .recap import format_position

_MOST_TITLE = 60
_MAX_MESSAGE_CHARS = 400
_PAGE = 100
STATES = {
    "needs_approval": ("waits for you", "waits"),
    "needs_decision": ("waits for you", "waits"),
    "running": ("runs elsewhere", "runs"),
    "interrupted": ("interrupted", "stopped"),
    "rate_limited": ("turned away", "stopped"),
    "goal_not_reached": ("goal missed", "missed"),
    "repeated": ("repeated itself", "stopped"),
    "turn_limit": ("at its limit", "stopped"),
    "budget_limit": ("at its budget", "stopped"),
    "timeout": ("ran out of time", "stopped"),
    "error": ("failed", "failed"),
    "parked": ("parked", "parked"),
}
"""Status -> its description in a few words, and in one word."""


async def pick_session(store: Store, cwd: Path) -> str:
    """Return the id of the session that the person picks; the list begins with this project's sessions.

    The preview shows the last messages, and the filter searches the messages of the person. Further sessions
    are loaded when the person scrolls or filters. Raises `UsageError` if there is no session.
    """
    root, now = repository_root(cwd), datetime.now(UTC)
    summaries: dict[str, SessionSummary] = {}

    async def list_sessions(folders: FolderFilter | None) -> tuple[list[SessionSummary], ChoiceList]:
        pages = _pages(store, folders)
        first = await anext(pages, None) or []
        summaries.update((session.id, session) for session in first)

        async def choices() -> Pages:
            async for page in pages:
                summaries.update((session.id, session) for session in page)
                yield [choice_of(session, now, folders is None) for session in page]

        is_all = len(first) < _PAGE
        total = store.count_roots() if folders is None else 0
        listed_choices = [choice_of(session, now, folders is None) for session in first]
        return first, ChoiceList(listed_choices, None if is_all else choices(), total)

    newest, everywhere = await list_sessions(None)
    if not newest:
        raise UsageError("There is no session to resume yet.", "Start one: sandbur")
    own, here = await list_sessions(FolderFilter(str(cwd), "" if root is None else str(root)))
    is_more = bool(own) and (not here.is_whole or here.size < everywhere.size)

    async def preview(name: str) -> Sequence[str]:
        return await preview_lines(store, summaries[name])

    picker = Picker(
        "Resume which session?",
        here if own else everywhere,
        "leaves",
        more=everywhere if is_more else (),
        preview=preview,
        words=_words(store, summaries),
    )
    return await picker.run()


async def _pages(store: Store, folders: FolderFilter | None) -> AsyncIterator[list[SessionSummary]]:
    """Yield pages of sessions without sub-agents, the newest session first."""
    sessions = store.roots(folders)
    while page := await store.database.offload(lambda: list(islice(sessions, _PAGE))):
        yield page


async def _words(store: Store, known: Mapping[str, SessionSummary]) -> AsyncIterator[Mapping[str, str]]:
    """Yield pages with the person's messages by session id; an empty page if all listed ones were read."""
    read: set[str] = set()
    while True:
        left = list(islice((name for name in known if name not in read), _PAGE))
        read.update(left)
        found: dict[str, str] = dict.fromkeys(left, "")
        reading = partial(list[dict[str, list[str]]], list_first_lines(store.database, left))
        with suppress(StoreError):  # then the filter does not search the messages
            for page in await store.database.offload(reading):
                found |= {name: " ".join(lines) for name, lines in page.items()}
        yield found


def choice_of(session: SessionSummary, now: datetime, with_folder: bool = False) -> Choice:
    title = one_line(session.title)[:_MOST_TITLE] or "(no message yet)"
    folder = f"{one_line(session.cwd.rpartition('/')[2])[:16]:<16} " if with_folder else ""
    state, short_state = state_of(session, now)
    line = f"{session.id[:8]}  {local_time(session.updated_at)}  {state:<15} {folder}{title}"
    short = f"{short_age(session.updated_at, now):>3} {short_state:<7} {title}  {folder}".rstrip()
    words = f"{session.title} {session.id} {session.cwd} {session.model} {state}"
    return Choice(session.id, line, words, short)


def state_of(session: SessionSummary, now: datetime) -> tuple[str, str]:
    """Return the status of a session in a few words, and in one word."""
    if session.is_foreign:
        return "imported", "import"
    if session.wake_at and session.status != "running":
        is_due = session.wake_at <= now.isoformat()
        return ("due", "due") if is_due else (f"due {local_time(session.wake_at)[-5:]}", "waits")
    return STATES.get(session.status, (session.status, session.status[:7]))


async def preview_lines(store: Store, session: SessionSummary) -> Sequence[str]:
    """Return the last message and answer of a session, and where the session stopped."""
    try:
        view = await store.database.offload(lambda: store.show(session.id))
    except StoreError as problem:
        return [one_line(str(problem))]
    waits_at = "prompt" if session.status == "running" else next_action(view.position, view.state)
    folder = f"{one_line(session.cwd)}, {one_line(session.model)}, {format_count(session.steps, 'step')}"
    standing = [text for _, text in format_position(view.state, waits_at)]
    return [folder, *_last_exchange(view.state), *standing]


def _last_exchange(state: ApplicationState) -> Sequence[str]:
    """Return the last message of the person, and the answer to it."""
    found: list[Message] = []
    for message in list(state.chat_history)[::-1]:
        if message.display_text.strip() and message.origin == "model" and not found:
            found.append(message)
        elif message.display_text.strip() and message.origin == "person":
            found.append(message)
            break
    signs = {"person": "you: ", "model": "agent: "}
    return [
        signs[one.origin] + " ".join(plain(one.display_text[:_MAX_MESSAGE_CHARS]).split())
        for one in found[::-1]
    ]
