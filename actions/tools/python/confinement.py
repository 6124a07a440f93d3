"""The sandbox for code of a model: the code can only read Python itself, and can write only in one folder.

It is narrower than the sandbox of commands: no file of the workspace or of the home folder, no network, no
second process. The program inside installs the last filter itself, because that filter forbids to start it.
"""

import os
import sys
import sysconfig
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from ....state.lazy_dataclass import dataclass
from ..shell.sandbox.bubblewrap import bubblewrap
from ..shell.sandbox.inside.confine import READ, RUN, SEE, WRITE_DEVICE, new_ruleset, version
from ..shell.sandbox.launch import Launch, open_file, spell
from ..shell.sandbox.seccomp import filter_program
from ..shell.sandbox.wall import WallKind

PYTHON = os.path.realpath(sys.executable)
"""The real path of the interpreter. A link in a virtual environment would need further folders."""
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/nix/store", "/gnu/store")
_DATA = ("/usr/share/zoneinfo", "/etc/localtime")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_WRITE = ~0
_CPU, _FILE, _ADDRESS_SPACE, _CORE = 0, 1, 9, 4
"""The numbers of these resource limits on Linux."""
_READS_AS_ROOT = "1"


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """The limits of one piece of code."""

    timeout_s: float = 60
    """The time of the code itself in seconds, without the time of its calls."""
    cpu_s: int = 60
    memory_bytes: int = 1 << 30
    """The size of the address space in bytes."""
    file_bytes: int = 50_000_000
    """The size of one file in bytes."""
    max_output_bytes: int = 5_000_000
    """The size of the printed text in bytes."""


@cache
def _python_places() -> tuple[str, ...]:
    """Return the paths of the interpreter, its library and its shared object."""
    paths = sysconfig.get_paths()
    shared = Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib")
    objects = (str(path) for path in shared.glob("libpython*"))
    places = (PYTHON, paths["stdlib"], paths["platstdlib"], *objects)
    return tuple(dict.fromkeys(os.path.realpath(place) for place in places if os.path.lexists(place)))


@contextmanager
def confine_code(
    kind: WallKind, folder: Path, limits: CodeLimits, files: tuple[int, ...]
) -> Generator[Launch]:
    """Prepare to start one program that may write in `folder` and gets these open files. Raises `OSError`."""
    environment = {"HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    environment |= {"PYTHONUNBUFFERED": "", "PYTHONDONTWRITEBYTECODE": "1"}
    with ExitStack() as stack:
        program = stack.enter_context(
            open_file(filter_program(looks_only=kind == "landlock", knows_scopes=version() >= 6))
        )
        steps = [("limit", f"{resource} {most}") for resource, most in _list_limits(limits)]
        if kind == "bubblewrap":
            arguments = stack.enter_context(open_file(_bubblewrap_arguments(folder, program)))
            orders = stack.enter_context(open_file(spell(steps)))
            words = (str(bubblewrap()), "--args", str(arguments), "--")
            yield Launch(words, orders, (orders, arguments, program, *files), environment)
            return
        ruleset = new_ruleset((os.fsencode(path), rights) for path, rights in _list_rights(folder))
        stack.callback(os.close, ruleset)
        steps += [("drop-powers", _READS_AS_ROOT)] if os.geteuid() == 0 else []
        steps += [("restrict-to", str(ruleset)), ("filter", str(program))]
        orders = stack.enter_context(open_file(spell(steps)))
        yield Launch((), orders, (orders, program, ruleset, *files), environment)


def _list_limits(limits: CodeLimits) -> Iterator[tuple[int, int]]:
    yield _CPU, limits.cpu_s
    yield _FILE, limits.file_bytes
    yield _ADDRESS_SPACE, limits.memory_bytes
    yield _CORE, 0


def _list_rights(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield each path that the code can use, with its rights in Landlock."""
    for place in (*_python_places(), *_LIBRARIES):
        yield place, SEE | READ | RUN
    for place in _DATA:
        yield place, SEE | READ
    for device in _DEVICES:
        yield device, WRITE_DEVICE
    yield str(folder), _WRITE


def _bubblewrap_arguments(folder: Path, filter_descriptor: int) -> bytes:
    words = ["--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-cgroup-try", "--die-with-parent"]
    if os.geteuid() == 0:
        words += ["--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE"]
    for place in sorted((*_python_places(), *_LIBRARIES, *_DATA)):
        if os.path.islink(place):  # noqa: PTH114
            words += ["--symlink", os.readlink(place), place]  # noqa: PTH115
        else:
            words += ["--ro-bind-try", place, place]
    words += [
        "--dev",
        "/dev",
        "--bind",
        str(folder),
        str(folder),
        "--remount-ro",
        "/dev",
        "--remount-ro",
        "/",
    ]
    words += ["--chdir", str(folder), "--seccomp", str(filter_descriptor)]
    return b"".join(os.fsencode(word) + b"\0" for word in words)
