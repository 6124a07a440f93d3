"""The further model calls of a step: judge the results, then more calls or the end of the step."""

from actions.model_call import REPLIED_FIELDS, overflow
from actions.ports import Ports
from actions.step_turn import STEP_READS, STEP_WRITES, take_turn
from actions.stream import AppState, Stream, done, graph_action, show


@graph_action(
    reads=[*STEP_READS, "active_step_id"],
    writes=[*STEP_WRITES, *REPLIED_FIELDS],
)
async def vibe_result_analyzer(state: AppState, ports: Ports) -> Stream:
    """Show the model the newest results of the active step."""
    before = state.data
    step = before.active_step
    assert step is not None
    async for item in take_turn(before, ports, step):
        if isinstance(item, dict):
            yield done(state, **item)
            return
        yield show(item)
    yield done(state, **overflow(before, "vibe_result_analyzer"))
