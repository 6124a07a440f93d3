"""Runs a batch of calls. Each runs between its `started` record and its `finished` record."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from ....state.application import ApplicationState
from ....state.calls import NO_FILE_CHANGES, FileChanges, PendingCall, update_recovery
from ....state.conversation.attachments import AttachedFile
from ....state.conversation.messages import Text, ToolResult, encodable
from ....state.errors import SandburError
from ....state.process.cancellation import task_group, wait_until_done
from ....state.process.crashpoints import reach
from ...masking.secret_contents import drop_secret_contents
from ...ports import (
    BadArguments,
    CallSuspended,
    KeptResults,
    Masker,
    NestedCalls,
    Ports,
    Prepared,
    ToolContext,
    ToolOutcome,
    Verdict,
    Verifiable,
    implements,
)
from ...ports.events import ToolFinished, ToolOutput, ToolStarted
from ..model_call import reads
from ..plan.approved import find_plan_terms, mask_plan
from ..plan.notebook import Notebook, mask_change
from ..session_page import find_page
from ..user_code import log_user_failure, read_text
from .start_check import OTHER_FILE, CheckedCall, ask_again, check_before_start, fits_approval
from .tool_results import (
    clear,
    clear_once_committed,
    edit_note,
    limit_outcome,
    most_bytes,
    refusal,
    result,
    scratch_of,
    temp_of,
)
from .whole_output import mask_whole_output

ResultT = TypeVar("ResultT")
NO_RESULTS: Mapping[int, ToolResult] = MappingProxyType({})


class ReadyCall(NamedTuple):
    """An approved call and its index among the pending calls."""

    offset: int
    call: PendingCall


class SuspendedCall(NamedTuple):
    """A call that runs again once a person has decided about the calls that it waits for."""

    waits_for: tuple[PendingCall, ...]
    call: PendingCall


class NestsCalls(NestedCalls, Protocol):
    """The nested calls of one call, with the comments of hooks on them."""

    comments: list[str]


class ToolRunner:
    """Runs the calls of one round and collects the results by the index of the call."""

    def __init__(
        self,
        state: ApplicationState,
        ports: Ports,
        nest: Callable[[PendingCall], NestsCalls] | None = None,
        known: Mapping[int, ToolResult] = NO_RESULTS,
    ) -> None:
        """`nest` creates the object with which the tool of a call makes nested calls; None if tools can make
        none. `known` has the results of the round that were recorded before, by the index of the call.
        """
        self.results: dict[int, ToolResult] = {}
        self.asked: dict[int, PendingCall] = {}
        """The calls that need a new decision, by index. None of them has an outcome."""
        self.waiting: dict[int, SuspendedCall] = {}
        """Calls that wait for the decision about another call, by index."""
        self.error: SandburError | None = None
        """Why a call cannot go on in this run; it stays open, like every call that was not started."""
        self.denied: list[PendingCall] = []
        self._state = state
        self._ports = ports
        self._nest = nest
        self._known = known
        self._slots = asyncio.Semaphore(ports.calls.max_concurrent_reads)
        self._running = 0

    async def run(self, batch: Sequence[ReadyCall]) -> None:
        """Run the calls concurrently and emit their events. This function returns when all of them have
        ended.
        """
        running = asyncio.ensure_future(self._run_all(batch))
        if cancelled := await wait_until_done(running, running.cancel):
            # A result that could not be stored is queued. The end of the run tries again, and reports the
            # problem.
            raise cancelled
        running.result()

    async def _run_all(self, batch: Sequence[ReadyCall]) -> None:
        async with task_group() as group:
            self._running = len(batch)
            for ready in batch:
                group.create_task(self._run_one(*ready))

    async def _run_one(self, offset: int, call: PendingCall) -> None:
        async with self._slot_of(call):
            looked = await check_before_start(call, self._state, self._ports)
            if looked.call.decision == "undecided":
                self._ask(offset, looked.call)
            elif (answer := refusal(looked.call)) is not None:
                await self._refuse(offset, looked.call, answer)
            else:
                await self._run_approved(offset, call, looked)

    def _slot_of(self, call: PendingCall) -> AbstractAsyncContextManager[None]:
        return nullcontext() if runs_concurrently(call, self._ports) else self._slots

    def _ask(self, offset: int, call: PendingCall) -> None:
        self._running -= 1
        self.asked[offset] = call

    async def _refuse(self, offset: int, call: PendingCall, answer: ToolResult) -> None:
        self._running -= 1
        self.denied += [call] if call.decision == "denied" else []
        self.results[offset] = answer
        await record_refusal(self._ports, answer, self._state.find_step_id(call.call_id))

    async def _run_approved(self, offset: int, call: PendingCall, looked: CheckedCall) -> None:
        self._ports.masker.learn(call.arguments)
        masked = self._ports.masker.stream()

        def emit(chunk: str) -> None:
            if text := masked.feed(chunk):
                self._ports.emit(ToolOutput(call.call_id, text))

        arguments, nested = looked.arguments, None if self._nest is None else self._nest(call)
        context = await self._make_context(call, looked, emit, nested)
        ready = await catch_failures(call, lambda: self._prepare(call, arguments, context))
        if not fits_approval(looked, ready, self._ports.toolbox[call.tool]):
            self._ask(offset, ask_again(call, looked.seen, OTHER_FILE))
            return
        note = await self._record_start(call, ready)
        self._ports.emit(ToolStarted(call.call_id, call.tool, self._state.find_step_id(call.call_id)))
        began = time.monotonic()
        try:
            outcome = await self._act(call, arguments, ready, context)
            if tail := masked.end():
                self._ports.emit(ToolOutput(call.call_id, tail))
            reach("tool_ran")
        except CallSuspended as suspended:
            self._running -= 1
            self.error = self.error or suspended.error
            return
        except asyncio.CancelledError as cancelled:
            if self._ports.toolbox[call.tool].traits.is_resumable:
                raise
            outcome = add_note(_describe_interruption(cancelled, time.monotonic() - began), note)
            outcome = add_note(outcome, _describe_nested(nested))
            await self._record(offset, call, outcome, began, flush=True)
            raise
        if outcome.asks:
            self._ask(offset, await self._ask_after_run(call, arguments, outcome.asks))
        elif outcome.waits_for:
            await self._wait(offset, call, outcome.waits_for)
        else:
            await self._finish_with_comments(offset, call, outcome, began, (note, nested))

    async def _make_context(
        self, call: PendingCall, looked: CheckedCall, emit: Callable[[str], None], nested: NestsCalls | None
    ) -> ToolContext:
        context = replace(
            make_context(self._ports, call, emit),
            reach=self._ports.places.scope(looked.leads),
            results=self._bind_kept_results(),
            is_walled=looked.is_walled,
            in_sandbox=looked.in_sandbox,
        )
        if nested is not None:
            own = self._ports.calls.sub_agents
            decided, notebook = self._list_decided(call), Notebook(self._state)
            page = find_page(self._state, {**self._known, **self.results})
            context = replace(
                context, calls=nested, sub_agents=own, decided=decided, notebook=notebook, page=page
            )
        if self._ports.toolbox[call.tool].traits.writes_files:
            context = replace(context, known=await self._ports.journal.load_known_files())
        return context

    async def _finish_with_comments(
        self,
        offset: int,
        call: PendingCall,
        outcome: ToolOutcome,
        began: float,
        made: tuple[str, NestsCalls | None],
    ) -> None:
        """Record an outcome with a note about its files, and with what hooks say about its nested calls."""
        note, nested = made
        comments = () if nested is None else nested.comments
        for comment in (note, *comments):
            outcome = add_note(outcome, comment)
        await self._finish(offset, call, outcome, began)

    async def _wait(self, offset: int, call: PendingCall, waits_for: tuple[PendingCall, ...]) -> None:
        """Keep a call that waits for decisions about others: it starts again then, as after a crash."""
        self._running -= 1
        recorded = await self._ports.journal.load_calls([call.call_id])
        starts = recorded[call.call_id].starts
        self.waiting[offset] = SuspendedCall(
            waits_for, update_recovery(call, starts=starts, settled_as="rerun")
        )

    async def _ask_after_run(self, call: PendingCall, arguments: Any, why: str) -> PendingCall:
        """Return a read call that needs a permission after its start, as undecided.

        The start of the call is on disk, its end is not. If the call is approved, it starts again as after a
        crash.
        """
        asked = ask_again(call, None, self._ports.masker.text(encodable(why)))
        tool = self._ports.toolbox[call.tool]
        binding = self._ports.fingerprinter.fingerprint(asked, tool, arguments, self._ports.places.cwd)
        recorded = await self._ports.journal.load_calls([call.call_id])
        starts = recorded[call.call_id].starts
        asked = asked.model_copy(update={"binding": binding, "kind": "approval"})
        return update_recovery(asked, starts=starts, settled_as="rerun")

    async def _finish(self, offset: int, call: PendingCall, outcome: ToolOutcome, began: float) -> None:
        """Record an outcome, then let hooks comment on it. The comment is committed with the step.

        The outcome is recorded first, so that a kill during the hooks does not make it unknown.
        """
        # No step follows soon that would commit the result of a nested call.
        is_nested = bool(call.parent_call_id) and call.effect != "read"
        advice, is_alone = self._ports.hooks, self._running == 1 and not is_nested
        if advice is None:
            await self._record(offset, call, outcome, began, flush=not is_alone)
            return
        flush = advice.comments_results or not is_alone
        answer = await self._record_outcome(call, outcome, began, flush)
        try:
            more = await advice.after_call(call, outcome, int((time.monotonic() - began) * 1000))
        except asyncio.CancelledError:
            self._end(offset, answer)
            raise
        comment = {"content": encodable(f"{answer.content}\n{more}")} if more else {}
        self._end(offset, answer.model_copy(update=comment))

    def _list_decided(self, call: PendingCall) -> tuple[PendingCall, ...]:
        """Return the calls of the sub-agent of this call that the person has decided about."""
        pending = self._state.pending_tool_calls
        return tuple(one for one in pending if one.sub_agent and one.parent_call_id == call.call_id)

    def _bind_kept_results(self) -> KeptResults:
        limit_bytes = most_bytes(self._ports.calls.max_result_tokens, self._state.tokens_per_byte)
        return KeptResults(self._ports.journal.load_kept_result, limit_bytes)

    async def _prepare(
        self, call: PendingCall, arguments: Any, context: ToolContext
    ) -> Prepared | ToolOutcome | None:
        tool = self._ports.toolbox[call.tool]
        if not implements(tool, Verifiable):
            return None
        return await tool.prepare(arguments, context)

    async def _record_start(self, call: PendingCall, ready: Prepared | ToolOutcome | None) -> str:
        """Commit the start of a call. Return a note about file contents that are not stored."""
        # Files of an earlier start must not be mistaken for files of this start.
        clear(scratch_of(self._ports, call.call_id))
        if not isinstance(ready, Prepared):
            await self._ports.journal.record_start(call)
            return ""
        kept, note = await drop_secret_contents(ready.changes, ready.pre_images, self._ports.masker)
        await self._ports.journal.record_start(call, ready.changes, kept)
        return note

    async def _act(
        self, call: PendingCall, arguments: Any, ready: Prepared | ToolOutcome | None, context: ToolContext
    ) -> ToolOutcome:
        if isinstance(ready, ToolOutcome):
            return ready
        tool = self._ports.toolbox[call.tool]

        def judge(other: Any) -> Verdict:
            plan = find_plan_terms(self._state, self._ports)
            return self._ports.gate.judge(tool, other, self._state.execution_mode, plan=plan)

        ready_context = replace(context, prepared=ready, judge=judge)
        wrap = self._ports.calls.wrap
        if wrap is not None:
            return await catch_failures(call, lambda: wrap(tool, arguments, ready_context))
        return await catch_failures(call, lambda: tool.run(arguments, ready_context))

    async def _record(
        self, offset: int, call: PendingCall, outcome: ToolOutcome, began: float, flush: bool
    ) -> None:
        self._end(offset, await self._record_outcome(call, outcome, began, flush))

    async def _record_outcome(
        self, call: PendingCall, outcome: ToolOutcome, began: float, flush: bool
    ) -> ToolResult:
        duration_ms = int((time.monotonic() - began) * 1000)
        limit_bytes = most_bytes(self._ports.calls.max_result_tokens, self._state.tokens_per_byte)
        before = edit_note(call)
        return await record_outcome(self._ports, call, outcome, before, duration_ms, flush, limit_bytes)

    def _end(self, offset: int, answer: ToolResult) -> None:
        self._running -= 1
        self.results[offset] = answer
        self._ports.emit(ToolFinished.of(answer, self._state.find_step_id(answer.call_id)))


def runs_concurrently(call: PendingCall, ports: Ports) -> bool:
    """Return whether adjacent calls of the tool of this call run at the same time."""
    tool = ports.toolbox.get(call.tool)
    return tool is not None and tool.traits.runs_concurrently


def make_context(ports: Ports, call: PendingCall, emit: Callable[[str], None]) -> ToolContext:
    return ToolContext(
        call_id=call.call_id,
        cwd=ports.places.cwd,
        emit=emit,
        session_id=ports.session_id,
        variables=ports.calls.variables,
        idempotency_key=f"{ports.session_id}:{call.call_id}",
        scope=ports.calls.shared,
        written=call.arguments,
        scratch=scratch_of(ports, call.call_id),
        temp=temp_of(ports),
        cache=ports.places.cache,
        private=ports.places.private,
        masker=ports.masker,
        withheld=ports.calls.withheld,
        allowed_by=call.decided_by,
        user_input=ports.calls.user_input,
        shows=lambda file: reads(ports.model, file),
        inputs=ports.inputs,
        # Middleware itself reads and replaces the bytes.
        takes_file=ports.calls.wrap is None and ports.places.scratch is not None,
    )


async def record_refusal(ports: Ports, answer: ToolResult, step_id: str | None) -> None:
    """Record the result of a call that did not run and emit `ToolFinished`."""
    clear_once_committed(ports, answer.call_id)
    await ports.journal.record_result(answer, flush=False)
    ports.emit(ToolFinished.of(answer, step_id))


async def record_outcome(
    ports: Ports,
    call: PendingCall,
    outcome: ToolOutcome,
    before: str,
    duration_ms: int | None,
    flush: bool,
    limit_bytes: int = 0,
) -> ToolResult:
    """Record an outcome in the journal with secrets masked. The scratch folder is removed after the commit.

    A result larger than `limit_bytes` (0: no limit) is shortened to its beginning and its end.
    """
    changes, kept = outcome.changed
    note = ""
    if kept:
        kept, note = await drop_secret_contents(changes, kept, ports.masker)
    scratch = scratch_of(ports, call.call_id) or ports.places.cwd
    outcome = await _without_secrets(add_note(outcome, note), ports.masker, scratch)
    if not ports.turn.is_workflow:
        outcome = limit_outcome(outcome, call.call_id, limit_bytes, ports.toolbox)
    if call.parent_call_id:
        # The tool that requested the call continues. Only the result of that tool changes the turn.
        outcome = replace(
            outcome, ends_run=None, equips=None, hand_off=None, plan=None, plan_change=None, page=None
        )
    content = before + outcome.content
    changes_of_state = (outcome.usage, outcome.hand_off, outcome.plan, outcome.plan_change, outcome.page)
    brought = (outcome.blocks, outcome.ends_run, outcome.equips, *changes_of_state)
    answer = result(call, outcome.outcome, content, duration_ms, *brought)
    if (whole := outcome.output_file or outcome.full_output) is not None:
        await ports.journal.store_output(call.call_id, whole)
    clear_once_committed(ports, call.call_id)
    await ports.journal.record_result(answer, flush, changes, kept, seen=outcome.seen)
    return answer


async def _without_secrets(outcome: ToolOutcome, masker: Masker, scratch: Path) -> ToolOutcome:
    """Mask the texts of an outcome. Images and documents are not searched for secrets."""
    for text in (outcome.content, *(block.text for block in outcome.blocks if isinstance(block, Text))):
        masker.learn(text)
    if outcome.output_file is not None or outcome.full_output is not None:
        outcome = await asyncio.to_thread(mask_whole_output, outcome, masker, scratch)
    final_text = outcome.ends_run
    return replace(
        outcome,
        content=masker.text(outcome.content),
        blocks=tuple(_mask_block(block, masker) for block in outcome.blocks),
        ends_run=None if final_text is None else masker.text(final_text),
        plan=mask_plan(outcome.plan, masker.text),
        plan_change=outcome.plan_change and mask_change(outcome.plan_change, masker.text),
        page=outcome.page and outcome.page.model_copy(update={"text": masker.text(outcome.page.text)}),
    )


def _mask_block(block: Text | AttachedFile, masker: Masker) -> Text | AttachedFile:
    if isinstance(block, Text):
        return Text(text=encodable(masker.text(block.text)))
    if block.url and masker.text(block.url) != block.url:
        # No provider could use an address in which a part is masked.
        return Text(text=f"{masker.text(block.label)[:-1]}: not passed on. Its address contains a secret.]")
    return block


def add_note(outcome: ToolOutcome, note: str) -> ToolOutcome:
    """Append a sentence to the content, unless the outcome is an error."""
    if not note or outcome.outcome == "error":
        return outcome
    return replace(outcome, content=f"{outcome.content}\n{note}")


async def catch_failures(call: PendingCall, work: Callable[[], Awaitable[ResultT]]) -> ResultT | ToolOutcome:
    """Await the work of a tool. An exception becomes an error outcome that the model reads."""
    try:
        return await work()
    except BadArguments as error:
        return ToolOutcome("error", str(error))
    except CallSuspended:
        raise
    except Exception as error:
        where = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        if not isinstance(error, SandburError):
            log_user_failure(call.tool, error, logging.INFO)
        return ToolOutcome("error", f"{call.tool} failed{where}: {type(error).__name__}: {read_text(error)}")


def _describe_nested(nested: NestedCalls | None) -> str:
    """Return a note about the nested calls of an interrupted tool; empty if there are none."""
    made = "" if nested is None else nested.describe()
    return f"It had made these calls:\n{made}" if made else ""


def _describe_interruption(cancelled: asyncio.CancelledError, seconds: float) -> ToolOutcome:
    partial = cancelled.args[0] if cancelled.args else ""
    known = next(
        (argument for argument in cancelled.args if isinstance(argument, FileChanges)), NO_FILE_CHANGES
    )
    return ToolOutcome(
        "interrupted",
        f"Interrupted after {seconds:.1f} s and stopped; a part of it may have taken effect."
        f" Output so far:\n{partial or '(none)'}",
        changed=known,
    )
