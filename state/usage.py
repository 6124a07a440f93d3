"""What model calls consumed."""

from state.record import Record


class Usage(Record):
    """Token and cost totals; None means unknown, and anything plus unknown is unknown."""

    llm_calls: int = 0
    input_tokens: int | None = 0
    """All input tokens, cached ones included."""
    output_tokens: int | None = 0
    cache_read_tokens: int | None = 0
    cache_write_tokens: int | None = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            llm_calls=self.llm_calls + other.llm_calls,
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cache_read_tokens=_sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens=_sum(self.cache_write_tokens, other.cache_write_tokens),
            cost_usd=None
            if self.cost_usd is None or other.cost_usd is None
            else self.cost_usd + other.cost_usd,
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right
