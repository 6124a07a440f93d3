"""The sandbox that bubblewrap provides: separate namespaces for files, processes and the network."""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from .plan import SandboxPlan

_NOTHING = "/dev/null"
_ROOT_KEEPS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETGID", "SETUID")


def bubblewrap() -> str | None:
    """Return the path of bubblewrap, or None. It must be installed for the whole machine or have an absolute
    path.
    """
    found = shutil.which("bwrap")
    return os.path.realpath(found) if found is not None and os.path.isabs(found) else None  # noqa: PTH117


def arguments(plan: SandboxPlan, cwd: Path, filter_descriptor: int) -> bytes:
    """Return the arguments in the format of `--args`."""
    words = [*_namespaces(plan), *_mounts(plan), "--chdir", str(cwd), "--seccomp", str(filter_descriptor)]
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def wall_arguments(visible: Iterable[str], hidden: Iterable[str], cwd: Path, filter_descriptor: int) -> bytes:
    """Return the arguments for a view that contains only the `visible` places, read-only and without the
    `hidden` ones.
    """
    words = ["--unshare-pid", "--unshare-ipc", "--unshare-cgroup-try", "--unshare-net"]
    words += ["--tmpfs", "/tmp"]
    if os.geteuid() == 0:
        words += ["--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE"]
    for path in sorted(visible):
        if os.path.islink(path):  # noqa: PTH114
            words += ["--symlink", os.readlink(path), path]  # noqa: PTH115
        elif path not in ("/proc", "/sys"):
            words += ["--ro-bind-try", path, path]
    words += ["--dev", "/dev", "--proc", "/proc", "--ro-bind-try", "/sys", "/sys"]
    sealed = ["--remount-ro", "/proc"] if os.geteuid() == 0 else []
    for path in sorted(hidden):
        if os.path.isdir(path):  # noqa: PTH112
            words += ["--tmpfs", path]
            sealed += ["--remount-ro", path]
        else:
            words += ["--ro-bind", _NOTHING, path]
    words += ["--remount-ro", "/", *sealed, "--chdir", str(cwd)]
    words += ["--seccomp", str(filter_descriptor)]
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _namespaces(plan: SandboxPlan) -> Iterator[str]:
    yield from ("--unshare-pid", "--unshare-ipc", "--unshare-cgroup-try")
    # With a proxy, the network namespace exists already, so that the proxy outside can listen in it.
    if not plan.has_network and not plan.has_proxy:
        yield "--unshare-net"
    if os.geteuid() == 0:
        yield from ("--cap-drop", "ALL")
        for name in _ROOT_KEEPS:
            yield from ("--cap-add", f"CAP_{name}")


def _mounts(plan: SandboxPlan) -> Iterator[str]:
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    # Kernel settings belong to root, who can write them even without capabilities.
    sealed = ["--remount-ro", "/proc"] if os.geteuid() == 0 else []
    for path, access, source in plan.mounts:
        if access == "write":
            yield from ("--bind", str(source or path), str(path))
        elif access == "read":
            yield from ("--ro-bind", str(source or path), str(path))
        elif path.is_dir():
            yield from ("--tmpfs", str(path))
            sealed += ["--remount-ro", str(path)]
        else:
            yield from ("--ro-bind", _NOTHING, str(path))
    yield from sealed
