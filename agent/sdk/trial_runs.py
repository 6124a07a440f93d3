"""Runs of an agent in a copy of its folder: `Agent.try_`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from typing_extensions import TypeForm, Unpack

from ...state.conversation.messages import UserContent
from ..extensions.extension import load
from .runs.request import NewRunArguments
from .runs.result import OutputT

if TYPE_CHECKING:
    from ..trials.agent_trial import AgentTrial

_RUN_TRIAL = ".agent.trials.agent_trial:run_trial"
OwnT = TypeVar("OwnT")


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
        run = load(_RUN_TRIAL)
        made: AgentTrial[Any] = await run(
            self, os.environ if env is None else env, message, output, max_copy_mb, options
        )
        return made
