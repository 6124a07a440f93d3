"""The policy of the machine: rules that deny or ask, and a required sandbox, which nothing else lifts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

MACHINE_FOLDER = "/etc/sandbur"


class MachinePolicy(NamedTuple):
    """What the policy files of this machine demand together."""

    files: tuple[Path, ...] = ()
    deny: tuple[tuple[str, str], ...] = ()
    """Pairs of a rule and the file that contains it."""
    ask: tuple[tuple[str, str], ...] = ()
    sandbox_file: str = ""
    """The first file that requires a sandbox; empty if none does."""

    def describe(self) -> Iterator[tuple[str, str]]:
        """Yield each file, and what it demands, as a clause."""
        for file in map(str, self.files):
            parts = [
                f"{count} {kind} rule{'' if count == 1 else 's'}"
                for kind, rules in (("deny", self.deny), ("ask", self.ask))
                if (count := sum(source == file for _, source in rules))
            ]
            parts += ["a sandbox is required"] if file == self.sandbox_file else []
            yield file, ", ".join(parts) or "it demands nothing"


NO_POLICY = MachinePolicy()
