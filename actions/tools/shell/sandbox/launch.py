"""What the supervisor of a command is given to start it in a sandbox."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Launch:
    """What a supervisor needs to start one command in a sandbox."""

    words: tuple[str, ...] = ()
    """In front of the command."""
    orders: int = -1
    """An open file of orders to the child of the supervisor; -1: there are none."""
    descriptors: tuple[int, ...] = ()
    """Open files that go along."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


NO_SANDBOX = Launch()
