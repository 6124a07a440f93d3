"""The questions about the calls of a session, and text that was typed at one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ....agent.session.session import Session
from ....state.calls import CallDecision, PendingCall
from .questions import CommandTyped, Questions

if TYPE_CHECKING:
    from .approvals import Approvals
    from .settling import Settling


class _Dialogues(NamedTuple):
    """The dialogues of one session."""

    approvals: Approvals
    during_run: Approvals
    """Approvals while other sub-agents run: no rule is added and no call is edited."""
    settling: Settling


class DecisionDesk:
    """Asks what has to be decided before the run of a session goes on."""

    def __init__(self, questions: Questions, env: Mapping[str, str]) -> None:
        self._questions = questions
        self._env = env
        self._session: Session | None = None
        self._draft = ""
        """Text that was typed at a question and is not used yet."""

    async def ask(self, session: Session) -> list[CallDecision] | None:
        """Ask about the waiting calls: first about unknown outcomes, then for approvals.

        Return None if a question is left open; raises `CommandTyped`.
        """
        if session is not self._session:
            self._session, self._dialogues = session, self._make_dialogues(session)
        waiting = session.state.calls_to_decide
        unknown = [call for call in waiting if call.kind == "outcome_unknown"]
        dialogues = self._dialogues
        decisions = await (dialogues.settling.ask(unknown) if unknown else dialogues.approvals.ask(waiting))
        if decisions is not None:
            self._draft = next(
                (one.reason or one.result for one in decisions if one.reason or one.result), ""
            )
        return decisions

    async def ask_during_run(self, session: Session, calls: Sequence[PendingCall]) -> list[CallDecision]:
        """Ask about calls of a sub-agent while others beside it run; return no decision if a question is left
        open.

        It is cancelled when the others have ended: then the run ends, and `ask` asks again.
        """
        lines = self._questions.renderer.lines
        approvals = self._make_dialogues(session).during_run
        self._questions.is_during_run = True
        try:
            while True:
                try:
                    return await approvals.ask(calls) or []
                except CommandTyped:
                    lines(
                        [
                            (
                                "yellow",
                                "  Commands wait until the run has ended; Esc leaves this open.",
                            )
                        ]
                    )
        except asyncio.CancelledError:
            lines([("dim", "  The run ends here; the question comes again.")])
            raise
        finally:
            self._questions.is_during_run = False

    def _make_dialogues(self, session: Session) -> _Dialogues:
        # The first question loads the rules of the gate, which a chat without questions never needs.
        from . import always, approvals, settling

        questions, cwd, waiting = self._questions, session.settings.cwd, session.waiting
        rules = always.Always(questions, waiting, Path(cwd), self._env)
        return _Dialogues(
            approvals.Approvals(questions, rules, cwd, waiting.describe),
            approvals.Approvals(questions, None, cwd, waiting.describe),
            settling.Settling(questions, cwd, waiting.inspect),
        )

    def keep_reason(self, decisions: Iterable[CallDecision]) -> None:
        """Keep the text of the decisions until it is certain that they count."""
        texts = (one.reason or one.result for one in decisions)
        self._draft = next(filter(None, texts), "")

    def keep_draft(self) -> None:
        """Keep the text of the open question, which another process has answered."""
        self._draft = self._questions.draft

    def take_draft(self) -> str:
        """Return the text that is not used yet, and forget it."""
        draft, self._draft = self._draft, ""
        return draft
