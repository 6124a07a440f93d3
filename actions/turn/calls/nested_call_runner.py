"""Makes the calls that the tool of a running call requests. Each is judged, recorded and run like any other
call.
"""

from ....state.application import ApplicationState
from ....state.calls import NestedCall, PendingCall, digest_request, nested_call_id
from ....state.conversation.messages import ToolResult, ToolUse, encodable
from ....state.process.crashpoints import reach
from ...masking.references import mask_call_fields
from ...ports import NestedCallsDiffer, NestedCallWaits, Ports
from ...ports.events import ToolRequested
from .proposals import propose_nested
from .tool_results import describe_nested_call, find_settled_result, list_nested_calls, refusal
from .tool_runner import ReadyCall, ToolRunner, record_refusal

_OTHER = (
    "It ran again from its beginning, and now call {number} is another one than before: {tool} with"
    " {arguments}. It ended here, and nothing ran twice."
)
_FEWER = "It ran again from its beginning, and now made only {made} of its calls. Nothing ran twice."
_DONE = " Before, it had made these calls:\n{calls}\nWrite code for what is left to do."


class NestedCallRunner:
    """Implements `NestedCalls` for one running call."""

    def __init__(self, parent: PendingCall, state: ApplicationState, ports: Ports) -> None:
        self.comments: list[str] = []
        """Comments of hooks on the results. The tool does not get them, because no record contains them."""
        self._parent = parent
        self._state = state
        self._ports = ports
        self._recorded: dict[str, NestedCall] = {}
        self._recorded_calls = ""
        self._number = 0
        self._made: list[str] = []

    async def begin(self) -> None:
        journal, parent = self._ports.journal, self._parent.call_id
        nested = await journal.load_nested_calls(parent)
        self._recorded = {one.call.call_id: one for one in nested}
        self._recorded_calls = await list_nested_calls(journal, parent) if nested else ""
        self._number = 0
        self._made.clear()

    async def request(self, tool: str, arguments: str) -> ToolResult:
        self._number += 1
        call_id = nested_call_id(self._parent.call_id, self._number)
        fields = mask_call_fields(encodable(arguments), self._ports.masker)
        use = ToolUse(call_id=call_id, tool=tool, **fields)
        requested = digest_request(tool, use.arguments)
        known, answer = self._recorded.get(call_id), None
        if known is not None:
            if known.requested != requested:
                raise NestedCallsDiffer(self._describe_other(use))
            answer = await self._find_result(known.call)
        if answer is None:
            call = known.call if known is not None else await self._propose(use, requested)
            answer = await self._run(call)
        self._made.append(describe_nested_call(self._number, use.tool, use.arguments, answer.outcome))
        return answer

    def finish(self) -> None:
        if self._number < len(self._recorded):
            raise NestedCallsDiffer(_FEWER.format(made=self._number) + self._describe_recorded())

    def describe(self) -> str:
        return "\n".join(self._made)

    async def _find_result(self, call: PendingCall) -> ToolResult | None:
        """Return the recorded result, or a result that says that the outcome is unknown. Return None if the
        call never ran.
        """
        recorded = (await self._ports.journal.load_calls([call.call_id])).get(call.call_id)
        answer = find_settled_result(call, recorded)
        if answer is not None and recorded is not None and recorded.result is None:
            await record_refusal(self._ports, answer, self._state.active_step_id)
        return answer

    async def _propose(self, use: ToolUse, requested: str) -> PendingCall:
        call = await propose_nested(use, self._ports, self._state, self._number)
        await self._ports.journal.record_nested_proposal(NestedCall(call=call, requested=requested))
        return call

    async def _run(self, call: PendingCall) -> ToolResult:
        """Run a proposed call, after judging it again."""
        step_id = self._state.active_step_id
        self._ports.emit(ToolRequested(call.call_id, call.tool, call.arguments, step_id))
        if call.decision == "undecided":
            raise NestedCallWaits(call)
        if (answer := refusal(call)) is not None:
            await record_refusal(self._ports, answer, step_id)
            return answer
        reach("nested_proposed")
        runner = ToolRunner(self._state, self._ports)
        await runner.run([ReadyCall(0, call)])
        if (asked := runner.asked.get(0)) is not None:
            await self._ports.journal.record_decision(asked, by="")
            raise NestedCallWaits(asked)
        reach("nested_finished")
        return await self._without_comment(runner.results[0])

    async def _without_comment(self, answer: ToolResult) -> ToolResult:
        """Return the result in its recorded form, so that another run of the tool gets the same result."""
        recorded = (await self._ports.journal.load_calls([answer.call_id]))[answer.call_id].result
        if recorded is None or recorded == answer:
            return answer
        if comment := answer.content.removeprefix(recorded.content).strip():
            self.comments.append(comment)
        return recorded

    def _describe_other(self, use: ToolUse) -> str:
        difference = _OTHER.format(number=self._number, tool=use.tool, arguments=use.arguments[:200])
        return difference + self._describe_recorded()

    def _describe_recorded(self) -> str:
        return _DONE.format(calls=self._recorded_calls)
