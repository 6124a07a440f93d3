"""Starts a program for which folders are copies: in new namespaces, over the same paths.

This is a program of its own (`python -I launch.py ORDER PROGRAM ARGUMENT...`), because only a process with
one thread can enter a user namespace. It imports nothing of Sandbur. ORDER is a JSON object, see
`namespace.py`. If a step fails, it prints one line and exits with `FAILED`.
"""

import ctypes
import errno
import fcntl
import json
import os
import signal
import sys
import time
from typing import Any

FAILED = 121
"""The exit code if the program was not started."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_PR_SET_PDEATHSIG = 1
_PATIENCE_S = 10.0
_PAUSE_S = 0.02


def main(words: list[str]) -> None:
    order = json.loads(words[0])
    try:
        if order["parent"]:
            _end_with_parent(order["parent"])
        if order["lock"]:
            _lock(order["lock"])
            _wait_for_earlier(f"{order['lock']}.inside")
        if order["mounts"]:
            _mount_all(order)
        os.chdir(order["cwd"])
        os.execvp(words[1], words[1:])
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        os.write(2, f"{error.strerror or error}{where}\n".encode(errors="replace"))
        os._exit(FAILED)


def _mount_all(order: Any) -> None:
    _enter_namespaces()
    _call("mount", None, b"/", None, _MS_REC | _MS_SLAVE, None)
    for kind, *paths in order["mounts"]:
        _MOUNTS[kind](order["name"], *paths)
    # The mounts of an outer namespace cannot be removed in an inner one, not even by root.
    _enter_namespaces()
    if order["lock"]:
        _write(f"{order['lock']}.inside", os.readlink("/proc/self/ns/mnt"))  # noqa: PTH115


def _end_with_parent(parent: int) -> None:
    """Let the kernel send SIGTERM when the parent process dies."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(FAILED)


def _lock(path: str) -> None:
    """Lock a file until the program ends, which inherits the open file."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(0, "another process works in this copy") from None
    os.set_inheritable(lock, True)


def _wait_for_earlier(path: str) -> None:
    """Wait until the processes of a killed program have left the copy: two mounts must not share a layer."""
    try:
        with open(path) as file:  # noqa: PTH123 -- pathlib costs start-up time
            namespace = file.read()
    except FileNotFoundError:
        return
    latest = time.monotonic() + _PATIENCE_S
    while left := _find_inside(namespace):
        if time.monotonic() > latest:
            raise OSError(0, f"process {left} of an earlier run still uses this copy; end it first")
        time.sleep(_PAUSE_S)


def _find_inside(namespace: str) -> str:
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            try:
                if os.readlink(f"/proc/{entry}/ns/mnt") == namespace:  # noqa: PTH115
                    return entry
            except OSError:
                continue
    return ""


def _enter_namespaces() -> None:
    """Enter a new user and mount namespace in which every user and group keeps its number."""
    # In a new namespace without a map every number is that of the user nobody.
    user, group = os.geteuid(), os.getegid()
    maps = {name: _keep_numbers(name) for name in ("uid_map", "gid_map")}
    asking, asked = os.pipe()
    answered, answering = os.pipe()
    process = os.getpid()
    helper = os.fork()
    if not helper:
        # Only a process of the old namespace may map more than one user, and only as root.
        os.close(asked)
        os._exit(_map_from_outside(asking, answering, process, maps))
    os.close(answering)
    try:
        _call("unshare", _NEW_USERS | _NEW_MOUNTS)
        os.write(asked, b"x")
        is_mapped = os.read(answered, 1) == b"y"
    finally:
        os.close(asked)
        os.close(asking)
        os.close(answered)
        os.waitpid(helper, 0)
    if not is_mapped:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")


def _keep_numbers(name: str) -> str:
    with open(f"/proc/self/{name}") as file:  # noqa: PTH123
        rows = [line.split() for line in file]
    return "".join(f"{first} {first} {count}\n" for first, _, count in rows)


def _map_from_outside(asking: int, answering: int, process: int, maps: dict[str, str]) -> int:
    try:
        if os.read(asking, 1):
            for name, text in maps.items():
                _write(f"/proc/{process}/{name}", text)
            os.write(answering, b"y")
    except OSError:
        return 1
    return 0


def _mount_overlay(name: str, folder: str, upper: str, work: str, *between: str) -> None:
    # Descriptors instead of paths: `:`, `,` and `\` have a meaning in the options.
    lower = ":".join(map(_open, (*between, folder)))
    over, side = _open(upper), _open(work)
    options = f"userxattr,lowerdir={lower},upperdir={over},workdir={side}"
    _call("mount", name.encode(), os.fsencode(folder), b"overlay", 0, options.encode())


def _mount_folder(_name: str, folder: str, copy: str) -> None:
    _call("mount", os.fsencode(copy), os.fsencode(folder), None, _MS_BIND, None)


_MOUNTS = {"overlay": _mount_overlay, "bind": _mount_folder}


def _open(path: str) -> str:
    return f"/proc/self/fd/{os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)}"


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123
        file.write(text)


def _call(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments):
        number = ctypes.get_errno()
        # For `unshare`, "no space" means that the number of namespaces is limited, often to zero.
        is_limit = name == "unshare" and number == errno.ENOSPC
        raise OSError(number, f"{name}: {'the limit is reached' if is_limit else os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1:])
