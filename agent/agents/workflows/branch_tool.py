"""The tool that starts the branches of a workflow, and ends those that are not needed any more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ....actions.ports import CallSuspended, ToolContext, ToolOutcome, ToolTraits
from ....actions.ports.events import RunFinished
from ....actions.tools.builtin import BuiltinTool
from ....state.application import Usage
from ....state.calls import Effect
from ....state.conversation.messages import UserContent
from ....state.errors import SandburError, WorkflowFailed
from ....state.process.cancellation import wait_until_done
from ...session.session import Session
from ..agents_runtime import SubAgentsOfSession
from ..task import ChildTask, child_session_id, count_usage
from .branch_report import BranchReport, make_report
from .logic import WorkflowLogic
from .turn import BranchArguments, find_turn, make_child_result, read_report

NAME = "run_branch"
_MOST_DESCRIPTION_CHARS = 60
_ENDED = "the end of the workflow that started it"


class BranchTool(BuiltinTool[BranchArguments]):
    effect: Effect = "idempotent"
    traits = ToolTraits(
        subject="branch",
        asks="never",
        keeps_mode=True,
        runs_concurrently=True,
        is_resumable=True,
        repeats=True,
    )

    def __init__(self, logic: WorkflowLogic) -> None:
        super().__init__(NAME, "Start an agent of the workflow.", BranchArguments)
        self._logic = logic
        self._rounds: dict[str, Round] = {}
        """The session of a workflow -> its branches that run now."""

    def paths(self, arguments: BranchArguments) -> Sequence[str]:
        return ()

    async def run(self, arguments: BranchArguments, context: ToolContext) -> ToolOutcome:
        own = context.sub_agents
        if not isinstance(own, SubAgentsOfSession) or own.session is None:
            return ToolOutcome("error", "Agents of a workflow start only in a session that runs.")
        round_ = self._rounds.setdefault(own.session.id, Round(self._logic))
        round_.join()
        try:
            try:
                self._logic.find_member(arguments)
                await round_.take_earlier_results(own.session)
            except SandburError as error:
                raise CallSuspended(error) from None
            return await _RunningBranch(self._logic, round_, arguments, context.call_id).run(own, context)
        finally:
            round_.leave()
            if round_.is_empty:
                self._rounds.pop(own.session.id, None)

    def describe_stop(self, session_id: str, call_id: str) -> str:
        child_id = child_session_id(session_id, call_id)
        return BranchReport(status="interrupted", session_id=child_id).model_dump_json()


class Round:
    """The branches of one reply that run at the same time."""

    def __init__(self, logic: WorkflowLogic) -> None:
        self.is_decided = False
        """Whether the branches that still run are no longer needed."""
        self.error: SandburError | None = None
        """The failure of a branch, which ends the run; the other branches go on in the next one."""
        self.running: set[_RunningBranch] = set()
        self._is_enough = logic.watch()
        self._find_member = logic.find_member
        self._active = 0
        """Branches that work or wait for their turn."""
        self._joined = 0
        self._has_settled = asyncio.Event()
        self._reading = asyncio.Lock()
        self._has_read = False

    @property
    def is_over(self) -> bool:
        return self.is_decided or self.error is not None

    @property
    def is_empty(self) -> bool:
        return not self._joined

    def join(self) -> None:
        self._joined += 1
        self._active += 1

    def leave(self) -> None:
        self._joined -= 1
        self._active -= 1
        self._check_settled()

    async def hold(self) -> None:
        """Wait until no other branch works, or the branch is not needed any more."""
        self._active -= 1
        self._check_settled()
        try:
            await self._has_settled.wait()
        finally:
            self._active += 1

    async def take_earlier_results(self, session: Session) -> None:
        """Take the results of this round that an earlier run has recorded."""
        async with self._reading:
            if self._has_read:
                return
            self._has_read = True
            calls = session.state.pending_tool_calls
            if len(calls) < 2:
                return
            recorded = await session.ports.journal.load_calls(call.call_id for call in calls)
            for call in calls:
                known = recorded.get(call.call_id)
                if call.sub_agent is None and known is not None and known.result is not None:
                    arguments = BranchArguments.model_validate_json(call.arguments)
                    report = read_report(known.result)
                    if await self.takes(arguments, report) or report.ends_round:
                        self.end(None)

    async def takes(self, arguments: BranchArguments, report: BranchReport) -> bool:
        """Take the result of a branch; return whether the other branches are not needed because of it."""
        if self.is_over:
            return False
        result = make_child_result(report, arguments, self._find_member(arguments), None)
        is_enough = report.is_escalated or await self._is_enough(result)
        return is_enough and not self.is_over

    def end(self, error: SandburError | None) -> None:
        """Stop the branches that have not ended: they are not needed, or `error` ends the run."""
        if self.is_over:
            return
        self.is_decided, self.error = error is None, error
        for branch in tuple(self.running):
            branch.stop()
        self._check_settled()

    def _check_settled(self) -> None:
        if self.is_over or self._active <= 0:
            self._has_settled.set()


class _RunningBranch:
    """One call. Implements `agent.agents.task.BranchCall`."""

    def __init__(self, logic: WorkflowLogic, round_: Round, arguments: BranchArguments, call_id: str) -> None:
        self._logic = logic
        self._round = round_
        self._arguments = arguments
        self._call_id = call_id
        self._child: Session | None = None
        """The session of the agent once it runs."""
        self._work: asyncio.Future[ToolOutcome] | None = None
        self._stopping: asyncio.Future[None] | None = None
        self._has_reported = False

    @property
    def index(self) -> int:
        return self._arguments.index

    @property
    def iteration(self) -> int | None:
        return self._arguments.iteration or None

    async def run(self, agents: SubAgentsOfSession, context: ToolContext) -> ToolOutcome:
        """Run the agent to its end, until a person has to decide, or until it is stopped."""
        assert agents.session is not None, "a call runs in an open session"
        if self._round.is_over:
            return self._make_stopped("")
        member = self._logic.find_member(self._arguments)
        task = ChildTask(
            prompt=self._find_prompt(agents.session),
            description=(self._arguments.input.splitlines() or [""])[0][:_MOST_DESCRIPTION_CHARS],
            agent=member.agent.name,
            agents={member.agent.name: member.agent},
            branch=self,
        )
        self._work = asyncio.ensure_future(agents.run(task, context))
        self._round.running.add(self)
        try:
            if cancelled := await wait_until_done(self._work, self._work.cancel):
                raise cancelled
        finally:
            self._round.running.discard(self)
        return await self._conclude(self._work)

    async def _conclude(self, work: asyncio.Future[ToolOutcome]) -> ToolOutcome:
        if work.cancelled():
            return self._make_stopped("")
        outcome = work.result()
        if outcome.waits_for:
            await self._round.hold()
            return self._make_stopped(self._child_id) if self._round.is_decided else outcome
        if not self._has_reported:
            return await self._take_failure(outcome.content)
        return outcome

    def _find_prompt(self, session: Session) -> UserContent:
        if not self._arguments.takes_message:
            return self._arguments.input
        turn = find_turn(session.state.chat_history, ())
        assert turn is not None, "a workflow that makes calls has a message"
        return turn.content

    def follow(self, child: Session) -> None:
        self._child = child
        if self._round.is_over:
            self.stop()

    def stop(self) -> None:
        """Interrupt the agent if it runs; otherwise it does not begin."""
        if self._has_reported:
            return
        if self._child is not None:
            self._stopping = asyncio.ensure_future(self._child.interrupt(_ENDED))
        elif self._work is not None:
            self._work.cancel()

    async def report(self, child: Session, end: RunFinished) -> ToolOutcome:
        self._has_reported = True
        if end.status == "interrupted":
            if not self._round.is_over:
                raise CallSuspended(SandburError("A sub-agent was interrupted.", "Resume to go on."))
            return self._make_stopped(child.id, count_usage(child, self._call_id))
        made = make_report(child, end)
        if not made.is_answer and not self._logic.keeps_failure(self._arguments):
            keeps_error = end.status == "rate_limited" or child.settings.is_repetition
            raise self._fail(child.error if keeps_error else None, made.error)
        if await self._has_ended_round(made):
            made = made.model_copy(update={"ends_round": True})
        usage = count_usage(child, self._call_id)
        return ToolOutcome("ok" if made.is_answer else "error", made.model_dump_json(), usage=usage)

    async def _take_failure(self, why: str) -> ToolOutcome:
        """Return the outcome of an agent that could not start."""
        if not self._logic.keeps_failure(self._arguments):
            raise self._fail(None, why)
        made = BranchReport(status="error", error_code="usage", error=why)
        await self._has_ended_round(made)
        return ToolOutcome("error", made.model_dump_json())

    async def _has_ended_round(self, made: BranchReport) -> bool:
        """Take a result. Return whether it ends the round, and end it then."""
        try:
            is_enough = await self._round.takes(self._arguments, made)
        except SandburError as error:
            self._round.end(error)
            raise CallSuspended(error) from None
        if is_enough:
            self._round.end(None)
        return is_enough

    def _fail(self, error: SandburError | None, why: str) -> CallSuspended:
        """End the round with the failure of the agent, and return the exception that ends the run."""
        failed = error or WorkflowFailed(
            f"The agent {self._arguments.branch} failed: {why}", "Resume to go on with it."
        )
        self._round.end(failed)
        return CallSuspended(failed)

    @property
    def _child_id(self) -> str:
        return "" if self._child is None else self._child.id

    def _make_stopped(self, child_id: str, usage: Usage | None = None) -> ToolOutcome:
        """Return the outcome of a branch that is not needed. Raises `CallSuspended` if another one failed."""
        if self._round.error is not None:
            raise CallSuspended(self._round.error)
        made = BranchReport(status="interrupted", session_id=child_id)
        return ToolOutcome("interrupted", made.model_dump_json(), usage=usage)
