"""What a program hands to one run and no store can keep: dependencies and functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..turn.output.format import OutputFormat
    from .model import Model

Overrides = Mapping[Callable[..., Any], Callable[..., Any]]
"""Provider -> the provider that replaces it."""
NO_OVERRIDES: Overrides = MappingProxyType({})

ValidateAnswer = Callable[[str, Any], Awaitable[str]]
"""Takes an answer as text and as JSON value; returns why it is refused, empty if it is not."""


@dataclass(slots=True)
class RunInputs:
    """The inputs of the current run of a session; every part of the session holds the same object."""

    deps: Any = None
    """What `RunContext.deps` returns; None: the program passed none."""
    overrides: Overrides = field(default_factory=lambda: NO_OVERRIDES)
    model: Model | None = None
    """An object to use in place of the session's model; None: the run names none."""
    output: OutputFormat | None = None
    """The output format of this run with the checks of its Python type; None: as the session has it."""
    validate: ValidateAnswer | None = None
    """Checks an answer that has the right format; None: nothing else is checked."""

    def clear(self, deps: Any) -> None:
        """Forget the inputs of a run that ended; `deps` are those of the session."""
        self.deps, self.model, self.output, self.validate = deps, None, None, None
