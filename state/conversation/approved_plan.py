"""A plan as a person approves it: the steps, and what each step may do without a further question."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from operator import not_

from pydantic import Field

from .content import Record


class ApprovedStep(Record):
    description: str
    expects: str = Field(default="", exclude_if=not_)
    """The result that shows that the step is done."""
    allows: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Allow rules that hold until the step has ended."""


class ApprovedPlan(Record):
    text: str
    """The Markdown that the person approved."""
    goal: str
    expects: str = Field(default="", exclude_if=not_)
    """The result that shows that the goal is reached."""
    steps: tuple[ApprovedStep, ...]

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the plan. Plans that differ in anything have different digests."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(content.encode()).hexdigest()
