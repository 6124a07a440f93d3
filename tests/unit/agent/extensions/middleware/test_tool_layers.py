"""Middleware around tool calls: what runs is what was approved, and what it did stays on record."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session
from support.stores.histories import results

from sandbur.actions.ports import NO_FILE_CHANGES, FileChanges, ToolContext, ToolOutcome
from sandbur.actions.ports.events import Notice
from sandbur.agent.extensions.middleware.middleware import Middleware, ToolCallRequest
from sandbur.state.calls import FileChange
from sandbur.state.store.store import Store

Wrap = Callable[[ToolCallRequest, Any], Any]


class Wrapping(Middleware):
    name = "wrapping"

    def __init__(self, wrap: Wrap, priority: int = 500) -> None:
        self._wrap = wrap
        self.priority = priority

    def wrap_tool_call(self, call: ToolCallRequest, next: Any) -> Any:
        return self._wrap(call, next)


async def twice(call: ToolCallRequest, next: Any) -> ToolOutcome:
    await next(call)
    return await next(call)


async def never(call: ToolCallRequest, next: Any) -> ToolOutcome:
    return Middleware.outcome("from a cache")


async def raises_before(call: ToolCallRequest, next: Any) -> ToolOutcome:
    raise ValueError("no")


async def raises_after(call: ToolCallRequest, next: Any) -> ToolOutcome:
    await next(call)
    raise ValueError("no")


async def returns_nothing(call: ToolCallRequest, next: Any) -> Any:
    await next(call)


async def passes_another(call: ToolCallRequest, next: Any) -> ToolOutcome:
    other = ToolCallRequest(Recorder(), "other", call.context)
    return await next(other)


async def changes_arguments(call: ToolCallRequest, next: Any) -> ToolOutcome:
    arguments: Any = call.arguments
    arguments["text"] = "other"
    return await next(call)


async def run(store: Store, tool: Recorder, *wraps: Wrap) -> tuple[list[Any], list[str]]:
    """Return the results of one call of `tool`, and what the person was told."""
    session = await open_session(
        store, ScriptedModel(act("a"), "done"), tool, middleware=[Wrapping(wrap) for wrap in wraps]
    )
    events, end = await collect(session.send("go"))
    assert end.result == "done"
    return results(session.state.chat_history), [one.message for one in events if isinstance(one, Notice)]


AGAIN = "The middleware wrapping would run act twice for one call, but a second run is not harmless."
FAILED = "The middleware wrapping failed in wrap_tool_call: ValueError: no."
CHANGED = (
    "The middleware wrapping failed in wrap_tool_call: TypeError: 'mappingproxy' object does not support item"
    " assignment."
)


@pytest.mark.parametrize(
    ("wrap", "result", "ran"),
    [
        (never, ("ok", "from a cache"), []),
        (raises_before, ("error", f"{FAILED} The call did not run."), []),
        (raises_after, ("ok", f"did a\n({FAILED})"), ["a"]),
        (
            returns_nothing,
            (
                "ok",
                "did a\n(The middleware wrapping returned NoneType from wrap_tool_call, not a ToolOutcome.)",
            ),
            ["a"],
        ),
        (
            passes_another,
            (
                "error",
                "The middleware wrapping passed on another call than the one that it was given: only the"
                " approved call may run. The call did not run.",
            ),
            [],
        ),
        (changes_arguments, ("error", f"{CHANGED} The call did not run."), []),
        (twice, ("ok", f"did a\n({AGAIN})"), ["a"]),
    ],
)
async def test_what_a_middleware_does_wrong_is_one_sentence_that_names_it(
    store: Store, wrap: Wrap, result: tuple[str, str], ran: list[str]
) -> None:
    tool = Recorder()
    found, _ = await run(store, tool, wrap)
    assert (found, tool.done) == ([result], ran)


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_what_may_run_twice_runs_twice_and_the_person_is_told(store: Store, effect: Any) -> None:
    tool = Recorder(effect=effect)
    found, told = await run(store, tool, twice)
    assert (found, tool.done) == ([("ok", "did a")], ["a", "a"])
    assert told == ["The middleware wrapping runs act again (c1_0)."]


async def test_an_exception_of_the_tool_passes_through_the_layers(store: Store) -> None:
    seen: list[str] = []

    async def watch(call: ToolCallRequest, next: Any) -> ToolOutcome:
        try:
            return await next(call)
        except RuntimeError as error:
            seen.append(str(error))
            raise

    async def fail(text: str) -> None:
        raise RuntimeError("broken")

    found, _ = await run(store, Recorder(work=fail), watch, watch)
    assert (found, seen) == ([("error", "act failed: RuntimeError: broken")], ["broken", "broken"])


CHANGE = FileChange(path="/x", before=None, before_mode=None, after="ab")


class Changing(Recorder):
    """Says that it changed a file, or, if it is stopped, that it did until then."""

    def __init__(self, wait_s: float = 0) -> None:
        super().__init__()
        self._wait_s = wait_s

    async def run(self, arguments: str, context: ToolContext) -> ToolOutcome:
        changed = FileChanges((CHANGE,), {})
        try:
            await asyncio.sleep(self._wait_s)
        except asyncio.CancelledError:
            raise asyncio.CancelledError("half of it", changed) from None
        return ToolOutcome("ok", "did", changed=changed, seen={"/x": "v1"})


async def test_what_a_call_did_to_files_is_recorded_whatever_is_returned(store: Store) -> None:
    async def another(call: ToolCallRequest, next: Any) -> ToolOutcome:
        outcome = await next(call)
        assert outcome.changed is not NO_FILE_CHANGES
        return Middleware.outcome("nothing to see")

    found, _ = await run(store, Changing(), another)
    assert found == [("ok", "nothing to see")]
    assert [row[0] for row in store.database.query("SELECT path FROM files")] == ["/x"]


async def test_what_a_stopped_call_did_to_files_is_recorded(store: Store) -> None:
    async def impatient(call: ToolCallRequest, next: Any) -> ToolOutcome:
        try:
            async with asyncio.timeout(0.05):
                return await next(call)
        except TimeoutError:
            return Middleware.outcome("too slow", "timeout")

    found, _ = await run(store, Changing(wait_s=30), impatient)
    assert found == [("timeout", "too slow")]
    assert [row[0] for row in store.database.query("SELECT path FROM files")] == ["/x"]


async def test_what_a_middleware_gives_back_is_masked(store: Store, tmp_path: Path) -> None:
    async def leak(call: ToolCallRequest, next: Any) -> ToolOutcome:
        return Middleware.outcome("password: tr0ub4dor-and-3")

    look = [("list_directory", {"path": "."})]
    env = {"DB_PASSWORD": "tr0ub4dor-and-3"}
    session = await open_real(
        store, ScriptedModel(look, "done"), tmp_path, env=env, middleware=[Wrapping(leak)]
    )
    await collect(session.send("go"))
    assert results(session.state.chat_history) == [("ok", "password: [masked value of DB_PASSWORD]")]


async def test_a_call_that_was_denied_never_reaches_a_middleware(store: Store) -> None:
    seen: list[str] = []

    async def watch(call: ToolCallRequest, next: Any) -> ToolOutcome:
        seen.append(call.call_id)
        return await next(call)

    model = ScriptedModel(act("forbidden", "a"), "done")
    session = await open_session(store, model, Recorder(), middleware=[Wrapping(watch)])
    await collect(session.send("go"))
    assert seen == ["c1_1"]


async def test_a_call_whose_process_died_inside_a_middleware_is_settled_by_its_effect(store: Store) -> None:
    """The start is on disk before the outermost layer, so that the layers are no hole in the journal."""
    rows: list[str] = []

    async def look(call: ToolCallRequest, next: Any) -> ToolOutcome:
        found = store.database.query("SELECT move FROM calls WHERE call_id = ? ORDER BY n", (call.call_id,))
        rows.extend(row[0] for row in found)
        return await next(call)

    await run(store, Recorder(), look)
    assert rows == ["proposed", "started"]
