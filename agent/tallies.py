"""Sums of what model calls, runs and tools took."""

from collections import Counter
from dataclasses import dataclass, field

from state.usage import Usage


@dataclass(slots=True)
class Tally:
    """Model calls of one model, project, day, or of all."""

    sessions: int = 0
    calls: int = 0
    failed_calls: int = 0
    retries: int = 0
    """Tries again and stand-ins for a model that did not answer."""
    input_tokens: int = 0
    """Cached ones included."""
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    known_cost_usd: float = 0.0
    unknown_costs: int = 0
    """Usages whose cost is not known; then the cost is at least the known one."""
    unknown_tokens: int = 0
    model_ms: int = 0
    tool_ms: int = 0

    def add_usage(self, usage: Usage) -> None:
        self.calls += usage.llm_calls
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.cache_read_tokens += usage.cache_read_tokens or 0
        self.cache_write_tokens += usage.cache_write_tokens or 0
        self.known_cost_usd += usage.cost_usd or 0.0
        self.unknown_costs += usage.cost_usd is None
        self.unknown_tokens += None in (usage.input_tokens, usage.output_tokens)

    @property
    def cost_usd(self) -> float | None:
        """None if any part of it is unknown."""
        return None if self.unknown_costs else self.known_cost_usd

    @property
    def cache_hit_rate(self) -> float | None:
        """The share of the input that came from the provider's cache; None without input."""
        return self.cache_read_tokens / self.input_tokens if self.input_tokens else None


@dataclass(slots=True)
class RunTally:
    began: int = 0
    running: int = 0
    died: int = 0
    """Ended by the death of their process."""
    duration_ms: int = 0
    ended: Counter[str] = field(default_factory=Counter[str])
    """By status."""

    def end(self, status: str, duration_ms: int) -> None:
        self.ended[status] += 1
        self.duration_ms += duration_ms


@dataclass(slots=True)
class ToolTally:
    outcomes: Counter[str] = field(default_factory=Counter[str])
    duration_ms: int = 0

    @property
    def calls(self) -> int:
        return self.outcomes.total()
