"""The flags and the actions of `sandbur fleet`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import ClassVar

from .....agent.fleet.cluster.scaling import Bounds
from .....state.errors import ConfigError, UsageError
from .....state.process.installation import make_install_command
from .....state.store.sessions.lanes import check_labels
from ....cli.argument_types import amount, count, names, one_of, position
from ....cli.grammar import Action, ActionCommand, flag, switch, word

_RESOURCES = ("CPU", "GPU", "memory", "object_store_memory")
"""Resources that Ray counts by itself."""
_OF_CLUSTER = ("--name", "--address")


class FleetCommand(ActionCommand):
    ACTIONS: ClassVar[Mapping[str, Action]] = {
        "up": Action("", "keep as many workers on a Ray cluster as the sessions need",
                     (*_OF_CLUSTER, "--agent", "--min", "--max", "--idle", "--concurrency", "--labels"), (
            ("sandbur fleet up --agent support.bot:agent --max 8", "on this machine, without a cluster"),
            ("sandbur fleet up --address 10.0.0.5:6379 --agent a:b --min 2 --max 20", "on a Ray cluster"),
        ), home="run_fleet.bring_up"),
        "status": Action("", "the workers, by the store and by Ray", (*_OF_CLUSTER, "--json"),
                         home="run_fleet.show_status"),
        "drain": Action("", "hand every session back and keep the actors; `fleet up` goes on", _OF_CLUSTER,
                        home="run_fleet.drain"),
        "down": Action("", "hand every session back and end the fleet", _OF_CLUSTER,
                       home="run_fleet.bring_down"),
    }  # fmt: skip
    action: str = word("|".join(ACTIONS), "what to do", type=one_of(tuple(ACTIONS)))
    fleet: str = flag("--name", "the name of the fleet (default: sandbur)", "sandbur", metavar="NAME")
    address: str = flag(
        "--address", "the Ray cluster; default: that of this machine, or one that ends with `up`", "",
        metavar="HOST:PORT",
    )  # fmt: skip
    agents: tuple[str, ...] = flag(
        "--agent", "up: run the sessions of this agent; may be repeated", (), action="append",
        metavar="MODULE:NAME|FILE",
    )  # fmt: skip
    least: int = flag("--min", "up: the least workers (default 1)", 1, type=position, metavar="N")
    most: int = flag("--max", "up: the most workers (default 4)", 4, type=count, metavar="N")
    idle_s: float = flag("--idle", "up: seconds without a session after which a worker beyond the least ends"
                         " (default 60)", 60.0, type=amount, metavar="SECONDS")  # fmt: skip
    concurrency: int = flag("--concurrency", "up: the sessions of a worker at once (default 4)", 4,
                            type=count, metavar="N")  # fmt: skip
    labels: tuple[str, ...] = flag(
        "--labels", "up: labels of the workers; their machines need Ray resources of these names",
        (), type=names, metavar="A,B",
    )  # fmt: skip
    json: bool = switch("--json", "status: as JSON")

    @property
    def bounds(self) -> Bounds:
        """How many workers there may be; raises `UsageError` for numbers that contradict each other."""
        return Bounds(self.least, self.most, self.concurrency, self.idle_s)

    def check(self) -> None:
        """Raise `UsageError` for a wrong value, and `ConfigError` without Ray."""
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", self.fleet):
            raise UsageError(
                f"--name: {self.fleet[:60]!r} cannot be the name of a fleet.",
                "Use up to 40 letters, digits and any of _ . -",
            )
        if self.action == "up":
            if not self.agents:
                raise UsageError("`sandbur fleet up` needs --agent.", "Name one: --agent support.bot:agent")
            check_labels(self.labels)
            if machines := [label for label in self.labels if label.startswith("host:")]:
                raise UsageError(
                    f"--labels: {machines[0]} is a label that each worker has by itself.",
                    "Name what machines of the cluster have as a resource.",
                )
            if resources := [label for label in self.labels if label in _RESOURCES]:
                raise UsageError(
                    f"--labels: {resources[0]} is a resource of Ray, not a label.",
                    f"Choose another name: ray start --resources '{{\"my-{resources[0].lower()}\": 1}}'",
                )
            self.bounds  # noqa: B018
        if find_spec("ray") is None:
            raise ConfigError(
                "A fleet needs Ray, which is not installed.", f"Install it: {make_install_command('ray')}"
            )
