"""What a person asks of one run on the command line or in Python; None or empty means: not said."""

from dataclasses import dataclass
from pathlib import Path

from state.application import ExecutionMode


@dataclass(frozen=True, slots=True)
class RunOptions:
    model: str | None = None
    """`provider/model`."""
    fallback_models: tuple[str, ...] = ()
    mode: ExecutionMode | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    cwd: Path | None = None
    add_dirs: tuple[Path, ...] = ()
    max_turns: int | None = None
    """Model calls of one run."""
    max_budget_usd: float | None = None
    timeout_s: float | None = None
    store: str | None = None
