"""What model calls used: tokens and cost."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, sub
from typing import Any

from .content import Record


class Usage(Record):
    """Token and cost totals; None means unknown, and a sum with an unknown value is unknown.

    For an interrupted answer, the tokens are those that the provider had reported, and the cost is unknown.
    """

    llm_calls: int = 0
    input_tokens: int | None = 0
    """All input tokens, cached ones included."""
    output_tokens: int | None = 0
    cache_read_tokens: int | None = 0
    cache_write_tokens: int | None = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        return self._combine(other, add)

    def __sub__(self, other: Usage) -> Usage:
        return self._combine(other, sub)

    def count_unknown_as_zero(self) -> Usage:
        return Usage.model_validate({name: value or 0 for name, value in self.model_dump().items()})

    def _combine(self, other: Usage, operation: Callable[[Any, Any], Any]) -> Usage:
        values: dict[str, Any] = {}
        for name in Usage.model_fields:
            own, given = getattr(self, name), getattr(other, name)
            values[name] = None if own is None or given is None else operation(own, given)
        return Usage.model_validate(values)
