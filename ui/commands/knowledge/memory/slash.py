"""`/memory`: lists, finds, shows, adds, corrects, forgets and restores facts from the chat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from .....actions.turn.session_page import MOST_PAGE_BYTES
from .....agent.knowledge.memory.memories import Memories, open_facts
from .....agent.knowledge.memory.scopes import find_scopes
from .....agent.session.decisions import whoami
from .....agent.session.secrets import masker_for
from .....state.errors import UsageError
from .....state.memory.facts import shorten_id
from ....chat.decisions.questions import OneKey
from ....chat.slash.command import DONE, EditorContext, SlashContext, SlashOffer, SlashResult, tell
from ....chat.slash.file_commands import edit_in_editor
from ....terminal.text.sanitize import plain
from .changing import describe_addition
from .command import MOST_FOUND
from .fact_lines import (
    SLASH_COMMAND,
    describe_acceptance,
    describe_cascade,
    describe_correction,
    describe_fact,
    describe_reversal,
    list_rows,
)
from .reviewing import describe
from .tracing import describe_trace

ResultT = TypeVar("ResultT")
_MOST_LISTED = 30
_NO_PAGE = (
    "The page of this session is empty. It stays in view when older messages are compressed.",
    "Write it: /memory page edit",
)
_OFFERS = {
    "list": "the newest facts",
    "search": "the facts that match some words",
    "show": "a fact and its history, by its ID",
    "add": "remember a text for this project, or with `user` before it for all",
    "edit": "correct a fact: ID and the new text",
    "forget": "forget a fact, by its ID",
    "review": "decide about the facts that wait for you",
    "accept": "accept a proposed fact, by its ID",
    "reject": "reject a proposed fact, by its ID",
    "trace": "the text that a fact was taken from, by its ID",
    "restore": "undo what corrected or forgot a fact, by its ID",
    "page": "the page of this session; `page edit` opens it, `page clear` empties it",
}
_NEED_WORDS = {"search": "words", "show": "an ID", "add": "a text", "edit": "an ID and a text",
               "forget": "an ID", "restore": "an ID", "accept": "an ID", "reject": "an ID",
               "trace": "an ID"}  # fmt: skip


async def manage_memory(context: SlashContext, words: str) -> SlashResult:
    """Do what the first word names."""
    name, _, rest = words.strip().partition(" ")
    rest = rest.strip()
    if name not in ("", *_OFFERS):
        raise UsageError(f"/memory has no {name[:40]!r}.", f"There are: {', '.join(_OFFERS)}.")
    if (name in _NEED_WORDS and not rest) or (name == "edit" and " " not in rest):
        raise UsageError(f"/memory {name} needs {_NEED_WORDS[name]}.", "/memory list shows the ids.")
    chat = _MemoryChat(context)
    if name == "edit":
        await chat.edit(*rest.split(" ", 1))
    elif name in _NEED_WORDS:
        with_words: dict[str, Callable[[str], Awaitable[None]]] = {
            "search": chat.search, "show": chat.show, "add": chat.add, "forget": chat.forget,
            "accept": chat.accept, "reject": chat.reject, "trace": chat.trace, "restore": chat.restore,
        }  # fmt: skip
        await with_words[name](rest)
    elif name == "review":
        await chat.review()
    elif name == "page":
        await _manage_page(context, rest)
    else:
        await chat.list()
    return DONE


async def manage_memory_in_editor(context: EditorContext, words: str) -> str:
    """Return the answer of an editor: the facts, those that wait, or a decision about one of these."""
    name, _, rest = words.strip().partition(" ")
    if name not in ("", *_EDITOR_WORK):
        raise UsageError(
            f"/memory has no {name[:40]!r} here.", "There are: list, search, review, accept, reject."
        )
    if name in _NEED_WORDS and not rest.strip():
        raise UsageError(f"/memory {name} needs {_NEED_WORDS[name]}.", "/memory review shows the ids.")
    memories = _open_memories(context)
    work = partial(_EDITOR_WORK[name or "list"], memories, rest.strip())
    return "\n".join(map(plain, await context.runtime.store.database.offload(work)))


def list_memory_choices(context: SlashContext | None) -> Iterator[SlashOffer]:
    yield from (SlashOffer(name, meaning) for name, meaning in _OFFERS.items())


async def _manage_page(context: SlashContext, words: str) -> None:
    """Show the page of the session; with `edit` open it in the editor, with `clear` empty it."""
    page = context.session.state.page or ""
    match words:
        case "" if page:
            size = f"{len(page.encode()):,} of {MOST_PAGE_BYTES:,} bytes:"
            tell(context, size, *plain(page).split("\n"))
        case "":
            tell(context, *_NO_PAGE)
        case "edit":
            await _change_page(context, words, await edit_in_editor(page, ".md"))
        case "clear":
            await _change_page(context, words, "")
        case _:
            raise UsageError(f"/memory page has no {words[:40]!r}.", "There are: edit, clear.")


async def _change_page(context: SlashContext, verb: str, text: str) -> None:
    session = context.session
    if text.strip() == (session.state.page or ""):
        tell(context, "The page is unchanged.")
        return
    session.change_page(text)
    done = "The page is changed" if session.state.page else "The page is empty now"
    await context.follow(
        session.note(f"/memory page {verb}", f"{done}; the model reads it with its next call.")
    )


def _open_memories(context: SlashContext | EditorContext) -> Memories:
    cwd, runtime = Path(context.session.settings.cwd), context.runtime
    scopes = find_scopes(cwd, context.session.settings.user)
    mask = masker_for(runtime.env, cwd).text
    return Memories(open_facts(runtime.store), scopes, mask, whoami(runtime.env))


def _list(memories: Memories, _: str) -> list[str]:
    return [*list_rows(memories.list_facts(limit=_MOST_LISTED))] or ["Nothing is remembered here."]


def _search(memories: Memories, text: str) -> list[str]:
    hits = memories.search(text, limit=MOST_FOUND)
    return [*list_rows(hit.fact for hit in hits)] or ["No fact matches."]


def _list_waiting(memories: Memories, _: str) -> list[str]:
    lines = [line for one in memories.list_proposals() for line in describe(memories, one)]
    return [*lines, "Decide: /memory accept ID, /memory reject ID"] if lines else ["No fact waits for you."]


def _accept(memories: Memories, fact_id: str) -> list[str]:
    return [*describe_acceptance(memories.accept(memories.find(fact_id).id), SLASH_COMMAND)]


def _reject(memories: Memories, fact_id: str) -> list[str]:
    (rejected,) = memories.reject([memories.find(fact_id).id])
    return [f"Rejected. Undo it with: /memory restore {shorten_id(rejected.id)}"]


_EDITOR_WORK: dict[str, Callable[[Memories, str], list[str]]] = {
    "list": _list, "search": _search, "review": _list_waiting, "accept": _accept, "reject": _reject,
}  # fmt: skip


class _MemoryChat:
    """The memory of the session that is open in a chat."""

    def __init__(self, context: SlashContext) -> None:
        self._context = context
        self._memories = _open_memories(context)

    async def list(self) -> None:
        found = await self._offload(lambda: self._memories.list_facts(limit=_MOST_LISTED + 1))
        lines = [*list_rows(found[:_MOST_LISTED])]
        more = ["/memory search WORDS finds older ones."] if len(found) > _MOST_LISTED else []
        tell(self._context, *(lines or ["Nothing is remembered here. Add a fact: /memory add TEXT"]), *more)

    async def search(self, text: str) -> None:
        hits = await self._offload(lambda: self._memories.search(text, limit=MOST_FOUND))
        tell(self._context, *(list_rows(hit.fact for hit in hits) if hits else ["No fact matches."]))

    async def show(self, fact_id: str) -> None:
        def look() -> list[str]:
            memories = self._memories
            fact = memories.find(fact_id)
            every = memories.list_derived(fact)
            derived = [*filter(memories.holds, every)]
            history = memories.facts.history(fact.id)
            return [*describe_fact(fact, history, derived, len(every) - len(derived))]

        tell(self._context, *await self._offload(look))

    async def add(self, text: str) -> None:
        kind, _, rest = text.partition(" ")
        is_for_user = kind == "user" and bool(rest.strip())
        scope = self._memories.scopes.user if is_for_user else self._memories.scopes.project
        added = await self._offload(lambda: self._memories.add(rest if is_for_user else text, scope))
        tell(self._context, *describe_addition(added, scope, SLASH_COMMAND), *list_rows([added.fact]))

    async def edit(self, fact_id: str, text: str) -> None:
        memories = self._memories
        correction = await self._offload(lambda: memories.correct(memories.find(fact_id).id, text))
        tell(self._context, *describe_correction(correction, SLASH_COMMAND))

    async def forget(self, fact_id: str) -> None:
        """Show what goes along, ask for the key, and forget it."""
        memories, context = self._memories, self._context
        cascade = await self._offload(lambda: memories.facts.preview_forget(memories.find(fact_id).id))
        tell(context, *describe_cascade(cascade))
        answer = await context.wait(
            OneKey("Forget this? [y/n] ", "yn", safe="n").ask(), context.questions.leave
        )
        if answer.key != "y":
            tell(context, "Nothing was forgotten.")
            return
        await self._offload(lambda: memories.forget(cascade.fact.id, expected=cascade.ids))
        tell(context, f"Forgotten. Undo it with: /memory restore {shorten_id(cascade.fact.id)}")

    async def review(self) -> None:
        """Show each proposal, and ask for a key or another text."""
        memories, context = self._memories, self._context
        waiting = await self._offload(memories.list_proposals)
        if not waiting:
            tell(context, "No fact waits for you.")
        for number, proposal in enumerate(waiting, 1):
            lines = await self._offload(lambda proposal=proposal: describe(memories, proposal))
            tell(context, f"{number} of {len(waiting)}", *lines)
            question = OneKey("Keep this fact? [y/n/e/s] ", "ynes", text_means="keep this text", safe="s")
            answer = await context.wait(question.ask(), context.questions.leave)
            text = answer.text.strip()
            if answer.key == "e":
                asking = context.questions.line("Keep instead: ", proposal.text)
                text = (await context.wait(asking, context.questions.leave) or "").strip()
            if answer.key == "y" or text:
                accepted = await self._offload(lambda one=proposal, text=text: memories.accept(one.id, text))
                tell(context, *describe_acceptance(accepted, SLASH_COMMAND))
            elif answer.key == "n":
                await self.reject(proposal.id)
            elif not answer.key:  # the person left the question
                return

    async def accept(self, fact_id: str) -> None:
        tell(self._context, *await self._offload(lambda: _accept(self._memories, fact_id)))

    async def reject(self, fact_id: str) -> None:
        tell(self._context, *await self._offload(lambda: _reject(self._memories, fact_id)))

    async def trace(self, fact_id: str) -> None:
        memories, store = self._memories, self._context.runtime.store
        lines = await self._offload(lambda: [*describe_trace(memories, store, memories.find(fact_id))])
        tell(self._context, *lines)

    async def restore(self, fact_id: str) -> None:
        memories = self._memories
        reversal = await self._offload(lambda: memories.restore(memories.find(fact_id).id))
        tell(self._context, *describe_reversal(reversal))

    async def _offload(self, work: Callable[[], ResultT]) -> ResultT:
        return await self._context.runtime.store.database.offload(work)
