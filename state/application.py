"""The complete working state of a session, field by field."""

from __future__ import annotations

from functools import partial
from operator import is_, not_
from typing import Any, Literal, NamedTuple

from pydantic import Field

from .calls import PendingCall
from .conversation.approved_plan import ApprovedPlan, PlanBudget
from .conversation.messages import NO_EQUIPMENT, Equipment, HandOff, Record
from .conversation.plan_notebook import NO_FACTS, PastPlan, PlanChange, PlanFacts
from .conversation.plan_notebook import StepStatus as StepStatus
from .conversation.transcript import Transcript
from .conversation.usage import Usage as Usage

TOKENS_PER_BYTE = 0.25
"""The estimate until a provider has reported how many tokens a request had."""


class VibeStep(Record):
    step_id: str
    """The number of the step: "1", "2", ... in the order of the plan. A revised plan continues the
    numbers.
    """
    description: str
    status: StepStatus = "pending"
    chat_history: Transcript = Field(default_factory=Transcript)
    """The messages of this step. After the end of the step, it only refers to the store."""
    analysis: str = ""
    """How the step ended, as the model describes it."""
    expects: str = Field(default="", exclude_if=not_)
    """The result that shows that the step is done; empty if the plan does not say."""
    allows: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Allow rules that hold until the step has ended, if a person approved the plan."""
    after: tuple[str, ...] | None = Field(default=None, exclude_if=partial(is_, None))
    """The ids of the earlier steps that have to end before this one begins; None: all earlier steps."""
    call_id: str = Field(default="", exclude_if=not_)
    """The call that started the sub-agent of the step; empty if the session itself works on the step."""
    budget: PlanBudget | None = Field(default=None, exclude_if=partial(is_, None))
    """The most that the work of the step may use, if the approved plan says so."""

    @property
    def has_ended(self) -> bool:
        return self.status in ("completed", "failed", "skipped", "abandoned")

    def skip(self) -> VibeStep:
        """Return the step as one that does not start."""
        return self.model_copy(update={"status": "skipped"})


class PlanUsage(Record):
    """What the work of an approved plan used, counted for its budgets."""

    plan: Usage = Usage()
    """The usage since the plan began, or since a person agreed to go on after its budget was used up."""
    step: Usage = Usage()
    """The same for the present step of the plan."""

    def add(self, used: Usage) -> PlanUsage:
        return PlanUsage(plan=self.plan + used, step=self.step + used)


class PlanTerms(NamedTuple):
    """What an approved plan allows at the moment."""

    digest: str
    rules: tuple[str, ...]
    """Allow rules, those of the steps that have not ended."""


WorkflowMode = Literal["chat", "ops", "vibe"]
Phase = Literal["idle", "planning", "working", "answering"]
ExecutionMode = Literal["interactive", "plan", "auto-edit", "yolo"]

ASKED_ONCE_MORE, ENDED_BY_TOOL, COMPRESSED_WHEN_ASKED, RUN_BY_PERSON, NOTICES_CYCLES = 2, 3, 4, 5, 6
NESTS_CALLS, RUN_BY_FLOW, HANDS_OFF, PLANNED_BY_CALL, RUNS_PARALLEL_STEPS, SKIPS_STEPS = 7, 8, 9, 10, 11, 12
NOTES_PLANS, KEEPS_PAGE = 13, 14
GRAPH_VERSION = 14
"""The version of the graph. Each version adds a behaviour:

* 2: a call that needs a second approval goes from `execute_tools` back to `human_confirm`.
* 3: a tool ends the run, from `execute_tools` to `prompt`; or `router` asks for another answer.
* 4: a person requests a compression, from `prompt` to `context_compressor` and back.
* 5: a person runs a command, from `prompt` to `execute_tools` or `human_confirm`, and back.
* 6: repeated calls are also found in cycles, and by the time between them.
* 7: a call of a running tool waits for a decision together with the call of that tool.
* 8: a flow answers a message, runs a call or begins a plan, from `prompt`.
* 9: the agent that has the conversation answers a message, from `prompt`.
* 10: a call whose plan a person approved begins that plan, from `execute_tools` to `vibe_step_executor`.
* 11: steps of a plan run as sub-agents, from `vibe_step_executor` to `execute_tools` and `step_summarizer`.
* 12: a person takes steps out of a plan.
* 13: earlier plans are kept; a call ends the plan in the middle of a step, from `execute_tools` to `router`;
   a person begins a saved plan, from `prompt` to `vibe_step_executor`.
* 14: a session keeps a page that its model has in view after every compression.
"""


class InboxTaken(Record):
    """For each kind of inbox message, the number of the newest message that is in a history."""

    steer: int = 0
    queue: int = 0
    observe: int = Field(default=0, exclude_if=lambda number: not number)

    @property
    def newest(self) -> int:
        return max(self.steer, self.queue, self.observe)

    @property
    def oldest(self) -> int:
        return min(self.steer, self.queue, self.observe)


NOTHING_TAKEN = InboxTaken()


class OutputSchema(Record):
    """The JSON Schema of the answers of a session or a run."""

    name: str
    json_schema: dict[str, Any]
    """The schema in the form in which it was passed."""
    strict: bool = True
    """Whether the provider should enforce the schema strictly, if it can."""


class RunOptions(Record):
    """The options that a program sets for one run instead of the session's settings. A resume keeps them."""

    model: str = Field(default="", exclude_if=lambda name: not name)
    """The model of this run as `provider/model`; empty for the model of the session."""
    tool_choice: str = Field(default="", exclude_if=lambda choice: not choice)
    """`required`, `none` or the name of a tool; empty if the model chooses."""
    output: OutputSchema | None = Field(default=None, exclude_if=lambda schema: schema is None)
    """The format of the answer of this run; None for the format of the session."""
    is_text: bool = Field(default=False, exclude_if=lambda is_so: not is_so)
    """True if the answer is a text although the answers of the session have a format."""
    task: str = Field(default="", exclude_if=lambda task: not task)
    """In the session of a sub-agent: the id of the call of its parent that asked for this run. In the session
    of a participant of a hub: the turn."""
    used_before: Usage | None = Field(default=None, exclude_if=lambda usage: usage is None)
    """In the session of a sub-agent: its usage before the call of its parent; None if that call began it."""
    step: str = Field(default="", exclude_if=not_)
    """In the session of a sub-agent that works on a step of its parent's plan: what the step is to do."""
    instructions: str = Field(default="", exclude_if=lambda text: not text)
    """The instructions for this run. In its history they precede the person's message."""


NO_OPTIONS = RunOptions()

FlowKind = Literal[
    "reply", "tool", "agent", "command", "instructions", "plan", "skill", "skill_agent", "refused", "hand_off"
]
"""What a match does. `reply`: it answers; `tool`: it runs a call and answers with the result; `agent`,
`skill_agent`: it starts a sub-agent and answers with its answer; `command`: it runs a slash command;
`instructions`, `skill`: the model reads a text with the message; `plan`: the steps are fixed; `refused`: a
`/flow` command that starts nothing; `hand_off`: the agent that has the conversation answers."""


class FlowMatch(Record):
    """The flow, or the skill, that a message of the person started before any model was asked."""

    name: str
    kind: FlowKind
    why: str
    """The trigger that matched, as a clause for people."""
    values: dict[str, str] = Field(default_factory=dict[str, str], exclude_if=lambda values: not values)
    """The parts of the message that templates use, by name or number."""
    target: str = Field(default="", exclude_if=lambda name: not name)
    """The tool or the slash command; empty for other kinds."""
    answer: str = Field(default="", exclude_if=lambda text: not text)
    """The template of the answer; for a tool, empty means the result itself."""
    on_failure: Literal["reply", "model"] = Field(default="reply", exclude_if=lambda way: way == "reply")
    """What follows a call that failed: an answer that says so, or the model takes over."""
    failure: str = Field(default="", exclude_if=lambda text: not text)
    """The template of the answer after a failure; empty: a sentence with the error."""

    @property
    def starts_agent(self) -> bool:
        return self.kind in ("agent", "skill_agent")

    @property
    def is_command(self) -> bool:
        """True if it answers as a command does: with a notice, and with nothing in the history."""
        return self.kind in ("command", "refused")


class ApplicationState(Record):
    chat_history: Transcript = Field(default_factory=Transcript)
    """The global history: the messages that the person sees, and the notes of the runtime to the model."""
    user_input: str = ""
    """The newest message or command of the person."""
    workflow_mode: WorkflowMode = "chat"
    execution_mode: ExecutionMode = "interactive"
    current_goal: str | None = None
    vibe_plan: tuple[VibeStep, ...] = ()
    active_step_id: str | None = None
    """The step that the session itself works on, or that has ended and is to be closed."""
    parallel_steps: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The ids of the steps that run, or ran last, side by side as sub-agents; empty if the newest step ran in
    the session itself.
    """
    pending_tool_calls: tuple[PendingCall, ...] = ()
    exit_chat: bool = False

    phase: Phase = "idle"
    """The state of the work on `current_goal`."""
    turn_open: bool = False
    """Whether a person's message is not answered yet."""
    last_round_denied: bool = False
    """Whether a person or a rule denied a call in the last tool round of the turn."""
    replans: int = 0
    """The number of revisions of the current plan."""
    overflow_from: str | None = None
    """The action whose next request does not fit into the context window; None if there is none."""
    return_to: str | None = None
    """The action that follows the compression; None if there is no compression."""
    bad_rounds: int = 0
    """The number of consecutive rounds in which no call of the model was usable."""
    rejected_answers: int = Field(default=0, exclude_if=lambda count: count == 0)
    """The number of consecutive rejected answers of the turn: they had no valid format, or called no done
    tool.
    """
    compressions: int = 0
    """The number of compressions since the last model reply. More than one means that the first was not
    enough.
    """
    tokens_per_byte: float = TOKENS_PER_BYTE
    """The ratio of tokens to bytes, estimated from the provider's usage reports."""
    usage: Usage = Usage()
    """The usage of the whole session."""
    turn_usage: Usage = Usage()
    """The usage since the person's last message."""
    note: str = ""
    """A note of the runtime for the model, sent after the results of the pending calls."""
    equipment: Equipment = Field(default=NO_EQUIPMENT, exclude_if=lambda found: found == NO_EQUIPMENT)
    """The tools that the session offers to the model in addition to its first ones."""
    inbox_taken: InboxTaken = Field(default=NOTHING_TAKEN, exclude_if=lambda taken: taken == NOTHING_TAKEN)
    run_options: RunOptions = Field(default=NO_OPTIONS, exclude_if=lambda options: options == NO_OPTIONS)
    flow: FlowMatch | None = Field(default=None, exclude_if=lambda match: match is None)
    """What the newest message started before any model was asked; None: nothing."""
    hand_off: HandOff | None = Field(default=None, exclude_if=lambda found: found is None)
    """The other agent that has the conversation; None: the agent of the session itself has it."""
    hub_position: int = Field(default=0, exclude_if=lambda number: not number)
    """The number of the newest message of its hub that the history holds; 0: none."""
    approved_plan: ApprovedPlan | None = Field(default=None, exclude_if=partial(is_, None))
    """The plan as a person approved it, with what it allows; None if no plan is approved."""
    plan_usage: PlanUsage | None = Field(default=None, exclude_if=partial(is_, None))
    """What is counted for the budgets of the approved plan; None if it has none."""
    earlier_plan: ApprovedPlan | None = Field(default=None, exclude_if=partial(is_, None))
    """The last approved plan that is over. It allows nothing; a new plan is compared with it."""
    plan_facts: PlanFacts = Field(default=NO_FACTS, exclude_if=lambda facts: facts == NO_FACTS)
    """What is known about the current plan beside `current_goal` and `vibe_plan`."""
    past_plans: tuple[PastPlan, ...] = Field(default=(), exclude_if=not_)
    """The earlier plans of the session, the newest last; at most `MOST_PAST_PLANS`."""
    plan_change: PlanChange | None = Field(default=None, exclude_if=partial(is_, None))
    """How the newest message or command of the person changed the plan; None: it did not."""
    page: str | None = Field(default=None, exclude_if=partial(is_, None))
    """A text that the model has in view in every request, whatever is compressed. Empty: it was cleared;
    None: there never was one.
    """
    graph_version: int = GRAPH_VERSION

    @property
    def plan_terms(self) -> PlanTerms | None:
        """Return what the approved plan allows now; None if the session has no approved plan.

        That is what its present step may do, or the next one between two steps. The plan allows nothing when
        the phase is not `working`, and nothing to the session itself while its steps run as sub-agents.
        """
        if self.approved_plan is None:
            return None
        step = self.present_step
        is_open = self.phase == "working" and step is not None and not step.has_ended
        return PlanTerms(self.approved_plan.digest, step.allows if is_open and step is not None else ())

    def find_step_of_call(self, call_id: str) -> VibeStep | None:
        """Return the step whose sub-agent the call started; None if the call started none for a step."""
        return next((step for step in self.vibe_plan if step.call_id and step.call_id == call_id), None)

    def find_step_id(self, call_id: str) -> str | None:
        """Return the id of the step that a call belongs to; None if it belongs to no step."""
        step = self.find_step_of_call(call_id)
        return self.active_step_id if step is None else step.step_id

    def find_terms_of_call(self, call_id: str) -> PlanTerms | None:
        """Return what the sub-agent that works on a step may do; None without an approved plan or a step."""
        step = self.find_step_of_call(call_id)
        if self.approved_plan is None or step is None:
            return None
        is_open = self.phase == "working" and step.status == "in_progress"
        return PlanTerms(self.approved_plan.digest, step.allows if is_open else ())

    @property
    def open_parallel_steps(self) -> tuple[VibeStep, ...]:
        """Return the steps that run side by side until all of them are closed, in the order of the plan."""
        steps = tuple(step for step in self.vibe_plan if step.step_id in self.parallel_steps)
        are_ended = self.active_step_id in self.parallel_steps
        return steps if are_ended or any(step.status == "in_progress" for step in steps) else ()

    @property
    def present_step(self) -> VibeStep | None:
        """Return the step that is worked on, or the next one between two steps; None if there is none."""
        pending = (step for step in self.vibe_plan if step.status == "pending")
        return self.active_step or (None if self.open_parallel_steps else next(pending, None))

    @property
    def mode_of_sub_agents(self) -> ExecutionMode:
        """Return the freest mode for sub-agents. An approved plan binds only those that work on a step of it,
        so that auto-edit mode would let the others do more than their parent.
        """
        is_bound = self.plan_terms is not None and self.execution_mode == "auto-edit"
        return "interactive" if is_bound else self.execution_mode

    @property
    def active_step(self) -> VibeStep | None:
        return next((s for s in self.vibe_plan if s.step_id == self.active_step_id), None)

    def add_usage(self, used: Usage) -> dict[str, Any]:
        """Return the state changes that add what a model call or a sub-agent used."""
        counted = {} if self.plan_usage is None else {"plan_usage": self.plan_usage.add(used)}
        return {"usage": self.usage + used, "turn_usage": self.turn_usage + used, **counted}

    @property
    def active_history(self) -> Transcript:
        """Return the history that receives model replies and tool results."""
        step = self.active_step
        return self.chat_history if step is None else step.chat_history

    def replace_history(self, history: Transcript) -> dict[str, Any]:
        """Return the state changes that replace the active history."""
        step = self.active_step
        if step is None:
            return {"chat_history": history}
        changed = step.model_copy(update={"chat_history": history})
        return {"vibe_plan": tuple(changed if one is step else one for one in self.vibe_plan)}

    @property
    def calls_to_decide(self) -> tuple[PendingCall, ...]:
        """Return the calls that wait for a decision of a person."""
        return tuple(call for call in self.pending_tool_calls if call.decision == "undecided")
