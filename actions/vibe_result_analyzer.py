"""Makes the further model calls of a plan step: the model judges results, then makes calls or ends
the step.
"""

from ..state.application import ApplicationState
from .ports import Ports
from .turn.burr_action import Changes, graph_action
from .turn.model_call import REPLY_FIELDS, CutReply, KeptReply
from .turn.plan.step_turn import STEP_READS, STEP_WRITES, take_turn


@graph_action(
    reads=[*STEP_READS, "active_step_id"],
    writes=[*STEP_WRITES, *REPLY_FIELDS],
    asks_model="turn",
    proposes_calls=True,
    stop_note="It stopped while the model was looking at results.",
)
async def vibe_result_analyzer(
    state: ApplicationState, ports: Ports, cut: CutReply = (), kept: KeptReply = None
) -> Changes:
    """Let the model read the newest results of the active step."""
    step = state.active_step
    assert step is not None
    return await take_turn(state, ports, step, "vibe_result_analyzer", cut, kept)
