"""One thing that `sandbur doctor` found, and the line that puts it right."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Literal["good", "note", "bad"]
    name: str
    detail: str
    fix: str = ""
    """A command line, or else what to do; empty: nothing is wrong."""
