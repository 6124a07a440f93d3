"""Compares the decisions of other models at the requests of past sessions. No tool runs."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from .....actions.ports import Model, ModelEvent, ModelRequest, Reply
from .....state.conversation.messages import Message, Text
from .....state.errors import UsageError, WrongType
from .....state.lazy_dataclass import dataclass
from .....state.store.store import Store
from ....config.settings import Settings
from ....history.reports.read_report import read_account
from ....history.reports.run_report import facts_of
from ....runtime.agent_definition import Definition
from ....runtime.version import VERSION
from ....runtime.wiring import connect_models
from ....sdk.agent import Agent
from ....sdk.arguments import forbid_loop
from .. import evaluations_folder
from ..contender import Contender, SessionOpener, open_store
from ..measures.result import EvaluationResult, EvaluationRun
from ..runner import OnReport
from ..runs.records import read_record
from ..suites.recorded import find_sessions, shorten_id
from .recorded_requests import ModelDecision, RecordedRequest, collect_requests, compare_decisions

_SPACE = uuid.UUID("0a1c9a0e-58b7-5d7e-8a53-6a0f2b3f9d11")
_SUITE = "decisions"


class AskingModel:
    """A model that is asked a recorded request instead of the one of its session. The reply is its decision
    as a text, so that no tool is called."""

    context_window = 1_000_000

    def __init__(self, real: Model, request: ModelRequest) -> None:
        self.name = real.name
        self._real, self._request = real, request

    async def aclose(self) -> None:
        """Do nothing: the real model is shared."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in self._real.stream(self._request):
            if isinstance(event, Reply):
                decided = ModelDecision.of(event.message)
                text = decided.model_copy(update={"sandbur_version": VERSION}).model_dump_json()
                message = Message(role="assistant", origin="model", blocks=(Text(text=text),))
                yield Reply(message, "stop", event.usage, event.discarded)


class ModelQuestion(NamedTuple):
    """A recorded request that a model is asked."""

    asked: RecordedRequest
    model: str
    session_id: str
    """The session that records the answer."""

    @property
    def task(self) -> str:
        return f"{shorten_id(self.asked.session_id)} step {self.asked.seq}"

    @property
    def label(self) -> str:
        return f"{self.task} · {self.model}"


@dataclass(frozen=True, slots=True)
class DecisionPlan:
    """Which sessions and models are compared."""

    sessions: tuple[str, ...]
    """Ids or tags."""
    models: Mapping[str, Model | None]
    """`provider/model` -> an object in place of the model of this name; None: it is connected."""
    agent: Definition | None = None
    """The agent with the tools of the sessions; None: that of each session."""
    parallel: int = 2
    budget_usd: float | None = None
    name: str = ""
    """Another name asks again."""


class DecisionRunner:
    """Carries out a plan in an open store. Each question is a session: a killed evaluation goes on."""

    def __init__(
        self, plan: DecisionPlan, settings: Settings, store: Store, env: Mapping[str, str], report: OnReport
    ) -> None:
        self._plan, self._settings, self._report = plan, settings, report
        self._store, self._env = store, env
        self._opener = SessionOpener(store, env, "off")
        self._questions: list[ModelQuestion] = []
        self._ended: dict[str, EvaluationRun] = {}
        self._open: dict[str, str] = {}
        self._notices: list[str] = []
        self._spent = 0.0

    async def run(self) -> EvaluationResult:
        """Ask what has no answer yet, and return all. Raises `UsageError` without a recorded request."""
        session_ids = await self._store.database.offload(
            lambda: find_sessions(self._store, self._plan.sessions)
        )
        for session_id in session_ids:
            found, notices = await collect_requests(self._store, session_id, self._env, self._plan.agent)
            self._notices += notices
            self._questions += [
                self._make_question(one, model) for one in found for model in self._plan.models
            ]
        if not self._questions:
            raise UsageError(" ".join(("The sessions have no request to ask.", *self._notices)))
        await asyncio.to_thread(self._read_ended)
        if self._ended:
            self._report(f"{len(self._ended)} of {len(self._questions)} questions have answers already.")
        limit = asyncio.Semaphore(self._plan.parallel)
        waiting = [one for one in self._questions if one.session_id not in self._ended]
        await asyncio.gather(*(self._ask_limited(one, limit) for one in waiting))
        return self.result()

    def result(self) -> EvaluationResult:
        """Return the questions that have been answered so far."""
        return EvaluationResult(
            _SUITE,
            tuple(dict.fromkeys(one.task for one in self._questions)),
            tuple(self._plan.models),
            1,
            tuple(self._ended[one.session_id] for one in self._questions if one.session_id in self._ended),
            {
                one.label: self._open.get(one.session_id, "it was not asked")
                for one in self._questions
                if one.session_id not in self._ended
            },
            tuple(self._notices),
        )

    def _make_question(self, asked: RecordedRequest, model: str) -> ModelQuestion:
        key = "\0".join((self._plan.name, asked.session_id, str(asked.seq), asked.digest, model))
        return ModelQuestion(asked, model, str(uuid.uuid5(_SPACE, key)))

    def _read_ended(self) -> None:
        for one in self._questions:
            if (text := read_record(self._store, one.session_id)) is not None:
                self._keep(one, ModelDecision.model_validate_json(text))

    def _keep(self, question: ModelQuestion, decision: ModelDecision) -> EvaluationRun:
        """Compare an answer with the recorded decision; what it used is in its session."""
        account = read_account(self._store, question.session_id)
        usage, recorded = account.standing.usage, question.asked.decision
        agreement = compare_decisions(recorded, decision)
        ended = EvaluationRun(
            task=question.task,
            contender=question.model,
            repeat=1,
            session_id=question.session_id,
            status="done",
            reward=float(agreement.is_same),
            result=decision.summary,
            check="" if agreement.is_same else f"recorded: {recorded.summary}",
            cost_usd=usage.cost_usd,
            input_tokens=usage.input_tokens or 0,
            output_tokens=usage.output_tokens or 0,
            turns=usage.llm_calls,
            seconds=facts_of(account).active_ms / 1000,
            own=dict(agreement.metrics),
            sandbur_version=decision.sandbur_version,
        )
        self._ended[question.session_id] = ended
        self._spent += usage.cost_usd or 0.0
        return ended

    async def _ask_limited(self, question: ModelQuestion, limit: asyncio.Semaphore) -> None:
        async with limit:
            budget = self._plan.budget_usd
            if budget is not None and self._spent >= budget:
                self._open[question.session_id] = f"the budget of {budget:g} USD is spent"
                return
            self._open[question.session_id] = "it was interrupted"
            if why := await self._ask(question):
                self._open[question.session_id] = why
                self._report(f"{question.label} has no answer: {why}")
                return
            text = await asyncio.to_thread(read_record, self._store, question.session_id)
            if text is not None:
                self._report(self._keep(question, ModelDecision.model_validate_json(text)))

    async def _ask(self, question: ModelQuestion) -> str:
        """Ask a model, or go on with a question; return why there is no answer, empty if there is one."""
        settings = self._store.index.settings(question.asked.session_id)
        chosen = settings.model_copy(update={"model": question.model, "fallback_models": ()})
        given = self._plan.models[question.model]
        real = given or connect_models(self._settings, chosen, self._env)
        folder = evaluations_folder(self._settings.home) / _SUITE
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tags = "evaluation", _SUITE, question.model
        definition = Definition(instructions="", has_builtin_tools=False, has_planning=False)
        contender = Contender(question.model, definition=definition, is_of_program=True)
        asking = AskingModel(real, question.asked.request)
        title = f"What {question.model} decides at step {question.asked.seq} of {question.asked.session_id}"
        try:
            async with self._opener.open_session(
                contender, question.session_id, folder, None, asking, tags
            ) as session:
                result = await session.run(None if session.history else title)
        finally:
            if given is None:
                await real.aclose()
        if result.error is not None:
            return result.error.message
        return "" if result.text else f"its status is {result.status}"


class DecisionEvaluator:
    """Asks models what past sessions asked their model, and compares the decisions. No tool runs.

    Args:
        sessions: Ids or tags of past sessions.
        models: The models: `provider/model`, or name -> object.
        agent: The agent with the tools of the sessions; None: that of each session, if it can be loaded.
        parallel: How many questions are open at once.
        store: As for `Agent`; None: the store of the command.
        budget_usd: Nothing more is asked when this is spent.
        name: Another name asks again.
        env: The environment variables to use instead of those of the process.
    """

    def __init__(
        self,
        sessions: Sequence[str],
        models: Sequence[str] | Mapping[str, Model],
        *,
        agent: Agent[Any] | None = None,
        parallel: int = 2,
        store: str | None = None,
        budget_usd: float | None = None,
        name: str = "",
        env: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(sessions, str) or isinstance(models, str) or not sessions or not models:
            raise WrongType(
                "DecisionEvaluator takes a list of sessions and one of models, at least one each."
            )
        if parallel < 1:
            raise UsageError(f"DecisionEvaluator: parallel={parallel} is at least 1.")
        given = dict(models) if isinstance(models, Mapping) else dict.fromkeys(models)
        definition = None if agent is None else agent.definition
        self._plan = DecisionPlan(tuple(sessions), given, definition, parallel, budget_usd, name)
        self._env = os.environ if env is None else env
        self._overrides = {} if store is None else {"store": store}

    async def run(self) -> EvaluationResult:
        """Ask what has no answer yet, and return the result; raises `SandburError`."""
        with open_store(self._overrides, self._env) as (settings, store):
            return await DecisionRunner(self._plan, settings, store, self._env, lambda _: None).run()

    def run_sync(self) -> EvaluationResult:
        """Do the same as `run` without an event loop; raises `UsageError` if one is running."""
        forbid_loop()
        return asyncio.run(self.run())
