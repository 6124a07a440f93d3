"""The connection to a Ray cluster, by a program of its own that may end with the cluster."""

from __future__ import annotations

import asyncio
import io
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from ....state.errors import SandburError
from ..worker_process import WorkerOrder

_CONNECT_S = 120.0
"""The time limit for a connection: to start a cluster on a busy machine takes this long."""
_ANSWER_S = 30.0
_END_S = 20.0
_PROBE_S = 3.0
_TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""The variables with the token of a cluster; Ray prefers the first."""
WRONG_TOKEN = "it refuses the token"
_NOT_CONNECTED = "Failed to connect"
"""The start of Ray's message about a refused token; the message does not name the token."""
_MOST_BYTES = 4 * 1024 * 1024


class ClusterLost(SandburError):
    """The cluster does not answer: it cannot be reached, or its head has died."""


class ClusterRefused(SandburError):
    """A request failed, but the cluster is there, and what it runs goes on."""


class ActorState(NamedTuple):
    """The worker of one actor."""

    state: str
    """`running`, `pausing`, `draining` or `drained`; `starting` or `restarting` if the actor has not
    answered."""
    host: str = ""
    pid: int = 0
    actor_pid: int = 0
    restarts: int = 0
    problem: str = ""


class ClusterState(NamedTuple):
    """The actors of a fleet by their names, and the machines of the cluster."""

    actors: Mapping[str, ActorState]
    hosts: tuple[str, ...]
    resources: frozenset[str]


def make_ray_environment(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the variables for Ray: token authentication is on, and usage is not reported.

    Without a token of the person there is one in the data folder, which is made when it is first needed.
    """
    found = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", **env}
    has_token = env.get("RAY_AUTH_TOKEN") or env.get("RAY_AUTH_TOKEN_PATH")
    if has_token or Path(env.get("HOME", "/"), ".ray", "auth_token").exists():
        return found
    path = home / "ray-token"
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    return {**found, "RAY_AUTH_TOKEN_PATH": str(path)}


async def answers(address: str) -> bool:
    """Return whether something listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(host, int(port))
    except (OSError, ValueError):
        return False
    writer.close()
    return True


async def find_local_cluster(folder: Path) -> str:
    """Return the address of a cluster that `ray start` began on this machine; empty if there is none.

    `folder` is that for temporary files, where Ray has one of its own.
    """
    with suppress(OSError):
        address = (folder / "ray" / "ray_current_cluster").read_text("utf-8").strip()
        if await answers(address):  # Ray leaves the file of a head that was killed
            return address
    return ""


class RayConnection:
    """Asks the program that speaks with Ray. A request that is not answered in time ends the program."""

    def __init__(self, address: str, namespace: str, env: Mapping[str, str], cpus: int = 1) -> None:
        """Without an address, a cluster with so many `cpus` is started, which ends with the connection."""
        self._words = (address, namespace, str(cpus))
        self._env = dict(env)
        self._process: asyncio.subprocess.Process | None = None
        self._errors: IO[bytes] = io.BytesIO()
        self.address = address
        self.is_started_here = not address
        """Whether the cluster ends with this connection."""

    @property
    def is_open(self) -> bool:
        return self._process is not None

    async def open(self) -> None:
        """Connect. Raises `ClusterLost` with the reason."""
        if self._words[0] and not await answers(self._words[0]):
            raise ClusterLost(f"No Ray head answers at {self._words[0]}.", "Start a head: ray start --head")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the connection
        module = f"{__name__.rpartition('.')[0]}.ray_program"
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *self._words,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=self._errors, env=self._env, start_new_session=True, limit=_MOST_BYTES,
        )  # fmt: skip
        answer = await self._receive(_CONNECT_S)
        if "error" in answer:
            await self.aclose()
            raise self._make_connect_error(answer["error"])
        self.address = answer["value"]["address"]

    async def list_actors(self) -> ClusterState:
        found = await self._ask("list")
        actors = {name: ActorState(**state) for name, state in sorted(found["actors"].items())}
        return ClusterState(actors, tuple(found["hosts"]), frozenset(found["resources"]))

    async def start_actor(self, name: str, order: WorkerOrder) -> None:
        await self._ask("start", name=name, order=order.dump())

    async def drain_actor(self, name: str) -> None:
        await self._ask("drain", name=name)

    async def remove_actor(self, name: str) -> None:
        await self._ask("remove", name=name)

    async def aclose(self) -> None:
        """Disconnect; a cluster that was started here ends."""
        process, self._process = self._process, None
        self._errors.close()
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_END_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _ask(self, request: str, **arguments: Any) -> Any:
        if self._process is None:
            raise ClusterLost("Ray is not connected.")
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps({'do': request, **arguments})}\n".encode())
        with suppress(ConnectionError):
            await self._process.stdin.drain()
        answer = await self._receive(_ANSWER_S)
        if "refused" in answer:
            raise ClusterRefused(f"Ray refused a request: {answer['refused']}")
        if "error" in answer:
            # A cluster that was started here, and all that it runs, would end with the connection. Ray ends
            # the program if the head dies.
            kind = ClusterRefused if self.is_started_here else ClusterLost
            raise kind(f"Ray could not answer a request: {answer['error']}")
        return answer["value"]

    async def _receive(self, timeout_s: float) -> dict[str, Any]:
        """Return the next answer of the program: a `value`, or why there is none."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        line = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                line = await process.stdout.readline()
        if not line:
            self._process = None
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise ClusterLost(f"Ray does not answer. {self._read_last_error()}".strip())
        return json.loads(line)

    def _make_connect_error(self, reason: str) -> ClusterLost:
        """Return the error for a cluster that listens, but does not let this program in."""
        if not self._words[0]:
            return ClusterLost(f"No Ray cluster could be started: {reason}")
        used = next((name for name in _TOKENS if self._env.get(name)), "~/.ray/auth_token")
        begins = "The" if reason == WRONG_TOKEN else "Probably the"
        hint = (
            f"{begins} token of {used} is not that of the cluster: set RAY_AUTH_TOKEN or"
            " RAY_AUTH_TOKEN_PATH to the one that `ray start` had."
        )
        message = f"Ray does not let this program in: {reason.removesuffix('.')}."
        return ClusterLost(message, hint if reason.startswith((_NOT_CONNECTED, WRONG_TOKEN)) else "")

    def _read_last_error(self) -> str:
        """Return the last line that the program printed."""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")[:400]
