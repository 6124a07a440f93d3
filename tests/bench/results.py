"""What workloads found, recorded in `results.json` with the state of the machine; a page is made from it."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from bench.figures import Figure
from pydantic import BaseModel, ConfigDict

RESULTS = Path(__file__).with_name("results.json")


class Conditions(BaseModel):
    """When and on what something was measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    date: str
    commit: str
    """With `+` where files of the checkout differ from it."""
    python: str
    processors: int
    load: float
    """The processes that wanted a processor when the run began, as a mean of one minute."""

    @classmethod
    def read(cls) -> Self:
        """Return those of now."""
        here = Path(__file__).parent
        commit, changes = (
            subprocess.run(
                ["git", *words], cwd=here, capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (("rev-parse", "--short=8", "HEAD"), ("status", "--porcelain", "-uno", ":/:**/*.py"))
        )
        return cls(
            date=datetime.now(UTC).date().isoformat(),
            commit=commit + "+" * bool(changes),
            python=f"{platform.python_implementation()} {platform.python_version()}",
            processors=len(os.sched_getaffinity(0)),
            load=round(os.getloadavg()[0], 1),
        )


class Recorded(BaseModel):
    """What one workload found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    conditions: Conditions
    number: int
    figures: tuple[Figure, ...]
    has_failed: bool = False


class Results(BaseModel):
    """Workload -> what it found when it ran last."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workloads: dict[str, Recorded] = {}

    @classmethod
    def read(cls, path: Path = RESULTS) -> Self:
        return cls.model_validate_json(path.read_bytes()) if path.exists() else cls()

    def replace(self, found: dict[str, Recorded]) -> Self:
        """Return these with what some workloads found now; all others stay as they are."""
        rounded = {
            name: one.model_copy(update={"figures": tuple(map(_round, one.figures))})
            for name, one in found.items()
        }
        return type(self)(workloads=dict(sorted({**self.workloads, **rounded}.items())))

    def write(self, path: Path = RESULTS) -> None:
        path.write_text(self.model_dump_json(indent=1, exclude_defaults=True) + "\n")


def _round(figure: Figure) -> Figure:
    return figure.model_copy(update={"value": float(f"{figure.value:.4g}")})
