"""The inputs that a program passes to one run and that no store can keep: dependencies and functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...state.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ...state.application import PlanTerms
    from ...state.calls import CallDecision, PendingCall
    from ..turn.output.format import OutputFormat
    from .model import Model

Overrides = Mapping[Callable[..., Any], Callable[..., Any]]
"""Maps a provider to the provider that replaces it."""
NO_OVERRIDES: Overrides = MappingProxyType({})

ValidateAnswer = Callable[[str, Any], Awaitable[str]]
"""A function that takes an answer as text and as JSON value. It returns why the answer is refused, or an
empty text.
"""
DecideCalls = Callable[["Sequence[PendingCall]"], Awaitable["Sequence[CallDecision]"]]
"""Asks about calls of a sub-agent while others beside it run. It returns no decision about a call that is to
wait, and is cancelled as soon as no other one runs.
"""


@dataclass(slots=True)
class RunInputs:
    """The inputs of the current run of a session. Every part of the session holds the same object."""

    deps: Any = None
    """The value of `RunContext.deps`; None if the program passed no dependencies."""
    overrides: Overrides = field(default_factory=lambda: NO_OVERRIDES)
    model: Model | None = None
    """The model that replaces the session's model; None if the run names no model."""
    output: OutputFormat | None = None
    """The output format of this run, with the checks of its Python type; None for the format of the session.
    """
    validate: ValidateAnswer | None = None
    """Checks an answer that has the right format; None if there is no further check."""
    decide: DecideCalls | None = None
    """Asks about calls of sub-agents during the run; None if no question is asked before its end."""

    plan_terms: PlanTerms | None = None
    """What the session may do that works as a sub-agent on a step of an approved plan; None for others."""

    def clear(self, deps: Any) -> None:
        """Forget the inputs of an ended run. `deps` are the dependencies of the session."""
        self.deps, self.model, self.output, self.validate, self.decide = deps, None, None, None, None
        self.plan_terms = None
