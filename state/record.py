"""The rule for everything that is stored: frozen, closed, and shared instead of copied."""

from typing import Self

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """An immutable value with a fixed set of fields; Burr's deep copies of it cost nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __deepcopy__(self, memo: dict[int, object] | None = None) -> Self:
        return self
