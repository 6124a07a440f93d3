"""The actor of Ray that keeps one worker running on the machine where Ray has placed it.

This module does not import Ray, which wraps the class when a fleet begins. Nothing of a session is here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..worker_process import WorkerProcess, load_order


class WorkerActor:
    """Starts a worker with the actor, and answers what the worker does.

    When Ray starts the actor again, whatever ended it, there is a new worker. The one before has noticed the
    end of its stdin, and has handed its sessions back.
    """

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._process = WorkerProcess(load_order(order))
        self._process.start()

    def describe(self) -> dict[str, Any]:
        """Return the state of the worker as JSON."""
        process = self._process
        return {
            "host": os.uname().nodename,
            "actor_pid": os.getpid(),
            "pid": process.pid,
            "state": process.state,
            "restarts": process.restarts,
            "problem": process.problem,
        }

    def drain(self) -> dict[str, Any]:
        """Let the worker hand its sessions back and end."""
        self._process.drain()
        return self.describe()

    def resume(self) -> dict[str, Any]:
        """Start a worker again that was drained."""
        if self._process.state == "drained":
            self._process.start()
        return self.describe()
