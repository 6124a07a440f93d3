"""Runs of an agent in a copy of its folder: `Agent.try_`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from typing_extensions import TypeForm, Unpack

from ....actions.ports.events import RunFinished, ToolFinished
from ....state.conversation.messages import UserContent
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ...extensions.extension import load
from ..checks import require_count, require_parts
from ..session import opened_session
from .request import NewRunArguments
from .result import OutputT, RunResult

if TYPE_CHECKING:
    from ..agent import Agent

_RUN_TRIAL = ".agent.review.trials.agent_trial:run_trial"
OwnT = TypeVar("OwnT")


@dataclass(frozen=True, slots=True)
class TrialChange:
    """A file that a trial added, changed or removed."""

    path: Path
    """The absolute path of the original."""
    kind: Literal["added", "changed", "removed"]
    diff: str
    """A unified diff, or one line about a change that is not one of text."""


class AgentTrial(Generic[OutputT]):
    """A run in a copy of the folder. The copy stays until `drop`, or until its session is deleted."""

    def __init__(
        self,
        agent: Agent[Any],
        result: RunResult[OutputT],
        difference: Sequence[TrialChange],
        apply_tool: str,
        remove: Callable[[], None],
    ) -> None:
        """`agent` is the agent in the original folder, `apply_tool` the tool that applies a trial."""
        self._agent = agent
        self._apply_tool = apply_tool
        self._remove = remove
        self.id = result.session_id
        """The id of the trial, for `sandbur try`; also that of its session."""
        self.result = result
        """The result of the run in the copy."""
        self.difference = tuple(difference)
        """The changed files when the run had ended."""

    async def apply(self, *, merge: bool = False, skip_conflicts: bool = False) -> str:
        """Write the changes to the original folder, as one recorded call; return what was done.

        A file that another program changed meanwhile is a conflict. Nothing is written then, unless `merge`
        joins the changes or `skip_conflicts` leaves such files out. The rules of the agent hold. Raises
        `UsageError` if something was not written; the message says what.
        """
        arguments = {"trial": self.id, "merge": merge, "skip_conflicts": skip_conflicts}
        result: ToolFinished | None = None
        end: RunFinished | None = None
        async with self._agent.session() as session:
            run = opened_session(session).run_tool(
                self._apply_tool, json.dumps(arguments), f"Apply trial {self.id}"
            )
            async for event in run:
                result = event if isinstance(event, ToolFinished) else result
                end = event if isinstance(event, RunFinished) else end
        if end is not None and end.status == "needs_approval":
            reason = end.pending[0].reason if end.pending else ""
            raise UsageError(
                f"The apply needs an approval: {reason}.", f"Approve it: agent.approve({end.session_id!r})"
            )
        if result is None or result.outcome != "ok":
            why = "" if end is None or end.error is None else end.error.message
            raise UsageError(result.content if result is not None else f"Nothing was written. {why}".strip())
        return result.content

    async def drop(self) -> None:
        """Remove the copy with its changes; raises `UsageError` if a process works in it."""
        await asyncio.to_thread(self._remove)


class RunsTrials(Generic[OutputT]):
    """A base class for agents that can run in a copy of their folder."""

    _arguments: Mapping[str, Any]
    """The arguments of the agent by name."""

    @overload
    async def try_(
        self,
        message: UserContent,
        *,
        output: None = None,
        max_copy_mb: int | None = None,
        **options: Unpack[NewRunArguments],
    ) -> AgentTrial[OutputT]: ...
    @overload
    async def try_(
        self,
        message: UserContent,
        *,
        output: TypeForm[OwnT],
        max_copy_mb: int | None = None,
        **options: Unpack[NewRunArguments],
    ) -> AgentTrial[OwnT]: ...
    async def try_(
        self,
        message: UserContent,
        *,
        output: TypeForm[Any] | None = None,
        max_copy_mb: int | None = None,
        **options: Unpack[NewRunArguments],
    ) -> AgentTrial[Any]:
        """Run a task as `run` does, but in a copy of the agent's folder; return the trial with the result.

        The folder does not change until `AgentTrial.apply`. Requests and services are real. The copy shares
        blocks with the folder where the file system can do that; otherwise it may take `max_copy_mb`, by
        default the setting `trial_copy_mb`. Raises `UsageError` if no copy can be made: then nothing runs.
        """
        env: Mapping[str, str] | None = self._arguments["env"]
        if max_copy_mb is not None:
            require_count("max_copy_mb", max_copy_mb)
        require_parts(message)
        run = load(_RUN_TRIAL)
        made: AgentTrial[Any] = await run(
            self, os.environ if env is None else env, message, output, max_copy_mb, options
        )
        return made
