"""The program that speaks with Ray: its words are ADDRESS NAMESPACE CPUS.

It is a process of its own, because Ray ends every process that is connected to a cluster when its head dies.
Its first line tells whether it is connected. Then each line of stdin is a request, and the next line of
stdout its answer, all in JSON. For an empty address a cluster is started that ends with this program.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, cast

import ray as _untyped_ray
from ray.exceptions import AuthenticationError, GetTimeoutError, RayError

from .ray_connection import WRONG_TOKEN
from .worker_actor import WorkerActor

ray = cast("Any", _untyped_ray)
_ANSWER_S = 5.0
_CPUS_OF_WORKER = 1
_SHARE_OF_LABEL = 0.001
"""A label is a resource of a machine, which any number of workers share."""
_REFUSALS = (ValueError, TypeError)
"""What Ray raises for a request that it does not accept, while the cluster is well."""
_FAILURES = (RayError, RuntimeError, OSError)


def connect(address: str, namespace: str, cpus: int) -> dict[str, Any]:
    """Connect to a cluster, or start one; return its address."""
    options = {"namespace": namespace, "log_to_driver": False, "logging_level": "error"}
    if address:
        _require_token(address)
    else:
        options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "num_cpus": cpus}
    context = ray.init(address=address or "local", **options)
    return {"address": context.address_info["gcs_address"]}


def _require_token(address: str) -> None:
    """Raise `AuthenticationError` if the head refuses the token, which `ray.init` finds out after 20 s."""
    # The client is not a public name of Ray, so that another version may have another one.
    with suppress(ImportError, AttributeError, TypeError, RuntimeError):
        client = import_module("ray._raylet").GcsClient(address=address)
        client.internal_kv_get(b"session_name", b"session", timeout=_ANSWER_S)


def start(name: str, order: Mapping[str, Any]) -> None:
    """Create the actor of this name unless it is there."""
    options = {
        "num_cpus": _CPUS_OF_WORKER,
        "resources": dict.fromkeys(order["labels"], _SHARE_OF_LABEL),
        "max_restarts": -1,
        "scheduling_strategy": "SPREAD",
    }
    actor = ray.remote(**options)(WorkerActor)
    actor.options(name=name, lifetime="detached", get_if_exists=True).remote(order)


def list_all() -> dict[str, Any]:
    """Return the state of every actor by its name, and the machines of the cluster with their resources."""
    asked: dict[str, Any] = {}
    for name in ray.util.list_named_actors():
        with suppress(ValueError):  # it has ended since it was listed
            asked[name] = ray.get_actor(name).describe.remote()
    if asked:
        ray.wait([*asked.values()], num_returns=len(asked), timeout=_ANSWER_S)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    return {
        "actors": {name: _read(answer) for name, answer in asked.items()},
        "hosts": sorted({node["NodeManagerHostname"] for node in nodes}),
        "resources": sorted({name for node in nodes for name in node["Resources"]}),
    }


def _read(answer: Any) -> dict[str, Any]:
    try:
        return ray.get(answer, timeout=0)
    except GetTimeoutError:
        return {"state": "starting"}
    except RayError:
        return {"state": "restarting"}


def drain(name: str) -> None:
    """Let the worker of an actor hand its sessions back and end."""
    with suppress(ValueError):  # it has ended
        ray.get_actor(name).drain.remote()


def remove(name: str) -> None:
    """End an actor for good."""
    with suppress(ValueError):  # it has ended
        ray.kill(ray.get_actor(name), no_restart=True)


REQUESTS: Mapping[str, Callable[..., Any]] = {
    "start": start, "list": list_all, "drain": drain, "remove": remove
}  # fmt: skip


def answer_requests(lines: Iterator[str], write: Callable[[str], object]) -> None:
    """Answer each request until there are no more.

    `refused` is the reason why Ray does not accept a request, `error` is what failed in the cluster.
    """
    for line in lines:
        request = json.loads(line)
        try:
            value = REQUESTS[request.pop("do")](**request)
            write(json.dumps({"value": value}))
        except _REFUSALS as error:
            write(json.dumps({"refused": _describe(error)}))
        except _FAILURES as error:
            write(json.dumps({"error": _describe(error)}))


def _describe(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:400]


def _take_stdout() -> Callable[[str], object]:
    """Return what writes answers. Everything else that is printed, also by Ray, goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return lambda line: answers.write(f"{line}\n")


def main() -> int:
    write = _take_stdout()
    address, namespace, cpus = sys.argv[1:]
    try:
        write(json.dumps({"value": connect(address, namespace, int(cpus))}))
    except AuthenticationError:
        write(json.dumps({"error": WRONG_TOKEN}))
        return 1
    except (*_REFUSALS, *_FAILURES) as error:
        write(json.dumps({"error": _describe(error)}))
        return 1
    answer_requests(iter(sys.stdin.readline, ""), write)
    ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
