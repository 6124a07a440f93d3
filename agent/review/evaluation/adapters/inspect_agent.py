"""Runs a Sandbur agent in an inspect evaluation: as an agent and as a solver of inspect."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inspect_ai._control.eval_state import stable_task_id_for_eval
from inspect_ai.agent import Agent as InspectedAgent
from inspect_ai.agent import AgentState, as_solver
from inspect_ai.agent import agent as register_agent
from inspect_ai.log._samples import sample_active
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, ModelOutput, get_model
from inspect_ai.solver import Solver, solver
from inspect_ai.util import sandbox as find_sandbox
from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

from .....actions.workspace.copies.folder_copy import remove_tree
from .....state.conversation.messages import Message
from .....state.errors import SandburError, UsageError
from .....state.lazy_dataclass import dataclass
from .....state.session import SandboxWish
from .....state.store.store import Store
from ....config.settings import Settings
from ....sdk.agent import Agent
from ....sdk.loading import open_agent
from ....sdk.runs.result import RunResult
from ....sdk.session import AgentSession
from .. import evaluations_folder
from ..contender import Contender, SessionOpener, open_store
from ..plan import PlannedRun
from ..runs.run_place import RunPlace
from ..runs.turns import decide_all, run_turns
from ..suites.task import Task
from .inspect_model import InspectModel, to_inspect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_SPACE = uuid.UUID("d0a3f8a2-6b6f-5c54-9d0e-3a8f0c6f1b77")


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """What `sandbur_agent` and the others take besides the agent."""

    store: str | None
    sandbox: SandboxWish
    timeout_s: float | None


@register_agent
def sandbur_agent(
    agent: Agent[Any] | str | None = None,
    store: str | None = None,
    sandbox: SandboxWish = "auto",
    timeout_s: float | None = None,
) -> InspectedAgent:
    """Return an agent of inspect that runs an agent of Sandbur, with the model of the evaluation.

    The tools are those of the Sandbur agent, and they really run: in a folder of the sample on this machine.
    If the sample has the sandbox `local`, the folder begins with its files, and what the agent wrote is
    copied back for the scorer. Each sample is a session, so that `inspect eval-retry` goes on where a killed
    evaluation was. Nobody is there to answer: calls run in the mode `yolo`, and one that asks is denied.

    Args:
        agent: A `sandbur.Agent`, or `MODULE:NAME`, or the path of an agent file. None: the agent of the
            command, with the settings of the user.
        store: As for `sandbur.Agent`; None: the store of the command.
        sandbox: Whether commands run in a sandbox of Sandbur: `auto`, `required` or `off`.
        timeout_s: The time limit of a run in seconds.
    """
    contender, options = make_contender(agent), SampleOptions(store, sandbox, timeout_s)

    async def execute(state: AgentState) -> AgentState:
        async with open_sample(options) as sample:
            sample.make_workspace()
            folder = find_local_folder()
            if folder is not None and not sample.is_known:
                mirror(folder, sample.workspace)
            history, message = split_messages(state.messages)
            try:
                await sample.solve(state, contender, message, history)
            finally:
                if folder is not None:
                    mirror(sample.workspace, folder)
        return state

    return execute


@solver
def sandbur_solver(
    agent: Agent[Any] | str | None = None,
    store: str | None = None,
    sandbox: SandboxWish = "auto",
    timeout_s: float | None = None,
) -> Solver:
    """Return the same as `sandbur_agent` as a solver of inspect."""
    return as_solver(sandbur_agent(agent, store, sandbox, timeout_s))


def make_contender(agent: Agent[Any] | str | None) -> Contender:
    """Return the agent that a program passes or names; raises `UsageError` for a name that is wrong."""
    if agent is None:
        return Contender("sandbur")
    found = open_agent(agent, Path.cwd()) if isinstance(agent, str) else agent
    return Contender(found.name or "sandbur", definition=found.definition, is_of_program=True)


class Sample:
    """One sample of an evaluation: its session, and the folder in which the agent works."""

    def __init__(self, settings: Settings, store: Store, options: SampleOptions) -> None:
        self.session_id = make_session_id()
        self.folder = evaluations_folder(settings.home) / self.session_id
        self.workspace = self.folder / "app"
        self.is_known = store.index.exists(self.session_id)
        """Whether an earlier try of the evaluation began the session."""
        self.settings, self.store = settings, store
        self._opener = SessionOpener(store, os.environ, options.sandbox)
        self._timeout_s = options.timeout_s

    def make_workspace(self) -> None:
        self.workspace.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def solve(
        self, state: AgentState, contender: Contender, message: str, history: Sequence[Message] = ()
    ) -> None:
        """Run the session, or go on with it, and add the conversation to the state of the sample.

        Raises what stopped a request of inspect, such as a limit of the sample, or `SandburError`.
        """
        async with self._open_session(contender, self.session_id) as (session, model):
            try:
                _require_end(await _run_to_end(session, message, history), model)
            finally:
                _add_messages(state, session.history[len(history) + 1 :], model.name)

    async def solve_task(self, state: AgentState, planned: PlannedRun, place: RunPlace) -> None:
        """Run the sessions of a task, or go on with them. The state gets the conversation of the last one.

        Raises the same as `solve`.
        """
        task, contender = planned.task, planned.contender
        for session_id, earlier in zip(planned.earlier_ids, task.earlier, strict=True):
            async with self._open_session(contender, session_id, task) as (session, model):
                _require_end(await run_turns(session, earlier.turns), model)
        messages = (*map(place.translate, task.turns), place.instruction)
        async with self._open_session(contender, self.session_id, task) as (session, model):
            try:
                _require_end(await run_turns(session, messages, task.interrupt_at_call), model)
            finally:
                state.messages = []
                _add_messages(state, session.history, model.name)

    @asynccontextmanager
    async def _open_session(
        self, contender: Contender, session_id: str, task: Task | None = None
    ) -> AsyncGenerator[tuple[AgentSession[Any], InspectModel]]:
        """Open a session of the sample with the model of the evaluation."""
        model = InspectModel(get_model())
        parent = None if session_id == self.session_id else self.session_id
        async with self._opener.open_session(
            contender, session_id, self.workspace, self._timeout_s, model, ("inspect",), parent, task
        ) as session:
            yield session, model


@asynccontextmanager
async def open_sample(options: SampleOptions) -> AsyncGenerator[Sample]:
    """Open the store for one sample."""
    overrides = {} if options.store is None else {"store": options.store}
    with open_store(overrides, os.environ) as (settings, store):
        yield Sample(settings, store, options)


def make_session_id() -> str:
    """Return the id of the session of the current sample, the same in each try of an evaluation."""
    active = sample_active()
    if active is None:
        return str(uuid.uuid4())
    key = (stable_task_id_for_eval(active.eval_id), str(active.sample.id), str(active.epoch))
    return str(uuid.uuid5(_SPACE, "\0".join(key)))


def split_messages(messages: Sequence[ChatMessage]) -> tuple[list[Message], str]:
    """Return the messages before the last one of the user, and the text of that; raises `UsageError`."""
    made: list[Message] = []
    make: dict[str, Callable[[str], Message]] = {
        "user": Message.user,
        "assistant": Message.assistant,
        "system": Message.system,
    }
    for message in messages:
        if message.role not in make:
            raise UsageError(f"The sample begins with a message of the role {message.role}.")
        made.append(make[message.role](message.text))
    if not messages or not isinstance(messages[-1], ChatMessageUser):
        raise UsageError("The last message of the sample is not one of the user.", "End `input` with one.")
    return made[:-1], messages[-1].text


async def _run_to_end(
    session: AgentSession[Any], message: str, history: Sequence[Message]
) -> RunResult[Any] | None:
    """Run a session that may have begun before, and decide what asks a person."""
    result = None
    if not session.pending:
        is_new = not session.history
        if is_new and history:
            session.load(history)
        result = await session.run(message if is_new else None)
    return await decide_all(session, result)


def _require_end(result: RunResult[Any] | None, model: InspectModel) -> None:
    """Raise what stopped a run: an error of inspect, or else `SandburError`."""
    if model.failure is not None and (result is None or result.status == "error"):
        raise model.failure
    if result is not None and result.error is not None:
        raise SandburError(result.error.message, result.hint)


def _add_messages(state: AgentState, messages: Sequence[Message], model: str) -> None:
    made = [each for message in messages for each in to_inspect(message, model)]
    state.messages += made
    answers = [each for each in made if isinstance(each, ChatMessageAssistant)]
    if answers:
        state.output = ModelOutput.from_message(answers[-1])


def find_local_folder() -> Path | None:
    """Return the folder of the sample's sandbox if that is `local`; None for others."""
    try:
        return Path(find_sandbox().as_type(LocalSandboxEnvironment).directory.name)
    except (ProcessLookupError, TypeError):
        return None


def mirror(source: Path, target: Path) -> None:
    """Make the content of a folder the same as that of another one."""
    for entry in target.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(entry)
        else:
            entry.unlink()
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
