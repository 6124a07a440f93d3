"""Chooses the sandbox of a session, tests whether it works on this machine, and prepares each command
for it.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Literal

from .....state.errors import SandboxMissing
from .....state.lazy_dataclass import dataclass
from .....state.process.temporaries import make_prefix
from .....state.session import SandboxWish
from ....workspace.paths import make_private
from ....workspace.protected.place_finder import PlaceFinder, read_link_version
from .bubblewrap import arguments, bubblewrap
from .landlock import SandboxOrder, has_landlock, order_network, orders
from .launch import Launch, open_file, spell
from .plan import TEMP, ResourceLimits, SandboxPlan, environment_of, plan_for
from .proxy import ADDRESS, PORT, AllowedDomains, serve
from .seatbelt import profile, seatbelt
from .seccomp import filter_program, is_known_machine

SandboxKind = Literal["bubblewrap", "landlock", "seatbelt"]
EVERYWHERE = "*"
"""The domain that means the machine's own network without limits."""
_INSIDE = str(Path(__file__).with_name("inside"))
_TRIAL = f"import sys; sys.path.insert(0, {_INSIDE!r}); import enter; enter.main(sys.argv[1:])"
_TRIAL_S = 20
_RLIMITS = {"cpu": 0, "file": 1, "memory": 2, "processes": 6}
"""The numbers of the resource limits on Linux: CPU, FSIZE, DATA, NPROC."""
_LEAST_MEMORY = 2_000_000_000
_OWN_FOLDERS = 2
"""The number of folders around a persistent `/tmp`. They are created with it, and removed with it if
empty.
"""
_CLOCK_NS = 100_000_000
"""The clock of file times is coarser than the clock of programs, by this time in nanoseconds at most."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """The places that the commands of a session use."""

    roots: tuple[Path, ...]
    home: Path
    """The home folder whose secrets are hidden."""
    private: tuple[Path, ...] = ()
    """The data of Sandbur, which is hidden."""
    own_settings: tuple[Path, ...] = ()
    """The setting files of Sandbur, which are always read-only."""
    temp: Path | None = None
    """The persistent folder that commands see as `/tmp`; None for a temporary folder."""


class Sandbox:
    """A sandbox that works on this machine. `close` removes its `/tmp`, except a persistent one that is not
    empty.
    """

    def __init__(
        self,
        kind: SandboxKind,
        place: Workplace,
        domains: Sequence[str] = (),
        limits: ResourceLimits | None = None,
    ) -> None:
        self.kind: SandboxKind = kind
        self._place = place
        self._domains = tuple(domains)
        self._limits = limits or ResourceLimits()
        self._finder = PlaceFinder()
        self._own_temp = None
        if place.temp is None:
            self._own_temp = tempfile.TemporaryDirectory(
                prefix=make_prefix("sandbox"), ignore_cleanup_errors=True
            )
        self._temp = place.temp or Path(self._own_temp.name if self._own_temp is not None else "")

    def close(self) -> None:
        if self._own_temp is not None:
            self._own_temp.cleanup()
            return
        for place in (self._place.home, *self._place.private, *self._place.roots):
            # A workspace in `/tmp` is mounted there. Its mount point belongs to no user.
            if place.is_relative_to(TEMP):
                _remove_empty(self._temp / place.relative_to(TEMP), len(place.relative_to(TEMP).parts))
        _remove_empty(self._temp, _OWN_FOLDERS + 1)

    @property
    def has_network(self) -> bool:
        return bool(self._domains)

    @property
    def status(self) -> str:
        """Return the kind and the network of the sandbox in a few words."""
        if EVERYWHERE in self._domains:
            return f"{self.kind}, network on"
        return f"{self.kind}, network {', '.join(self._domains) if self._domains else 'off'}"

    def plan(self, is_approved: bool = False) -> SandboxPlan:
        if self._own_temp is None:
            make_private(self._temp)
        network = "all" if EVERYWHERE in self._domains else "proxy" if self._domains else "none"
        return plan_for(
            self._place.roots,
            self._place.home,
            self._temp,
            self._place.private,
            self._place.own_settings,
            network,
            self._limits,
            self._finder,
            is_approved,
        )

    @asynccontextmanager
    async def launch(self, cwd: Path, is_approved: bool = False) -> AsyncGenerator[Launch]:
        """Prepare one command that runs in `cwd`. `is_approved`: a person or a rule allowed it."""
        plan = await asyncio.to_thread(self.plan, is_approved)
        async with AsyncExitStack() as stack:
            handing = -1
            if plan.has_proxy:
                handing = await stack.enter_async_context(serve(AllowedDomains(self._domains)))
            yield stack.enter_context(self._prepare(plan, cwd, handing))

    def trouble(self) -> str:
        """Run a test program that does nothing. Return its error, or an empty text."""
        plan = self.plan()
        with self._prepare(plan, Path("/"), -1) as launch:
            words = (*launch.words, "/bin/sh", "-c", ":")
            if launch.orders >= 0:
                words = (sys.executable, "-I", "-S", "-c", _TRIAL, str(launch.orders), *words)
            try:
                trial = subprocess.run(
                    words,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    pass_fds=launch.descriptors,
                    timeout=_TRIAL_S,
                )
            except (OSError, subprocess.SubprocessError) as error:
                return str(error)
        return trial.stderr.decode(errors="replace").strip() or "it ends at once" if trial.returncode else ""

    @contextmanager
    def _prepare(self, plan: SandboxPlan, cwd: Path, handing: int) -> Generator[Launch]:
        environment = environment_of(plan, ADDRESS)
        if self.kind == "seatbelt":
            words = (str(seatbelt()), "-p", profile(plan))
            yield Launch(words, environment={**environment, "TMPDIR": str(self._temp)})
            return
        with open_file(filter_program()) as program:
            if self.kind == "bubblewrap":
                with (
                    open_file(arguments(plan, cwd, program)) as arguments_file,
                    open_file(spell(self._make_first_orders(plan, handing))) as steps,
                ):
                    words = (str(bubblewrap()), "--args", str(arguments_file), "--")
                    yield Launch(words, steps, _open((steps, arguments_file, program, handing)), environment)
                return
            every = [*self._make_first_orders(plan, handing), *orders(plan, cwd, program)]
            with open_file(spell(every)) as steps:
                yield Launch((), steps, _open((steps, program, handing)), environment)

    def _make_first_orders(self, plan: SandboxPlan, handing: int) -> Iterator[SandboxOrder]:
        """Yield the orders with which both kinds on Linux begin."""
        yield from _list_guard_orders(plan)
        yield "first-to-go", "1000"
        for name, most in _make_limits(plan.limits).items():
            yield "limit", f"{_RLIMITS[name]} {most}"
        if plan.has_proxy or (self.kind == "landlock" and not plan.has_network):
            yield from order_network(f"{PORT} {handing}" if handing >= 0 else "")


def open_sandbox(
    wish: SandboxWish, place: Workplace, domains: Sequence[str] = ()
) -> tuple[Sandbox | None, str]:
    """Return a working sandbox. If there is none, return None and the reason; for `required` an error is
    raised instead.

    Raises `SandboxMissing`.
    """
    if wish == "off":
        return None, ""
    problems: list[str] = []
    for kind, problem in _kinds():
        if problem:
            problems.append(f"{kind}: {problem}")
            continue
        sandbox = Sandbox(kind, place, domains)
        trouble = sandbox.trouble()
        if trouble or place.temp is not None:
            # A session without commands leaves no files.
            sandbox.close()
        if not trouble:
            return sandbox, ""
        problems.append(f"{kind}: {_one_line(trouble)}")
    why = "; ".join(problems)
    if wish == "required":
        raise SandboxMissing(
            f"There is no sandbox here ({why}).", "Install bubblewrap, or run without --sandbox required."
        )
    return None, f"There is no sandbox here, so commands run without one ({why})."


@cache
def sandbox_kind() -> SandboxKind | None:
    """Return the best kind that works on this machine, or None. Each kind is tested once."""
    return next((kind for kind, trouble in what_works(Workplace((), Path.home())) if not trouble), None)


def what_works(place: Workplace) -> Iterator[tuple[SandboxKind, str]]:
    """Test each kind, and yield it with the reason why it does not work, which is empty if it works."""
    for kind, problem in _kinds():
        trouble = problem
        if not trouble:
            sandbox = Sandbox(kind, place)
            trouble = _one_line(sandbox.trouble())
            sandbox.close()
        yield kind, trouble


def _kinds() -> Iterable[tuple[SandboxKind, str]]:
    """Yield the possible kinds, the best first, each with the known missing part."""
    if sys.platform == "darwin":
        yield "seatbelt", "" if seatbelt() else "sandbox-exec is missing"
        return
    machine = "" if is_known_machine() else "no system call filter for this machine"
    yield "bubblewrap", machine or ("" if bubblewrap() else "bwrap is not installed")
    yield "landlock", machine or ("" if has_landlock() else "this kernel does not offer it")


def _remove_empty(folder: Path, count: int) -> None:
    """Remove up to `count` folders, from this one upwards, as long as they are empty."""
    with suppress(OSError):
        for one in (folder, *folder.parents[: count - 1]):
            one.rmdir()


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _make_limits(limits: ResourceLimits) -> Mapping[str, int]:
    return {
        "cpu": limits.cpu_s,
        "file": limits.file_bytes,
        "memory": limits.memory_bytes or max(_count_memory_bytes() * 3 // 4, _LEAST_MEMORY),
        "processes": limits.processes + _count_tasks(),
    }


def _count_memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _count_tasks() -> int:
    """Return the number of threads on the machine. The kernel limits the threads of a user, which cannot be
    more.
    """
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


def _list_guard_orders(plan: SandboxPlan) -> Iterator[SandboxOrder]:
    """Yield the orders that tell the supervisor which forbidden files it must move away."""
    yield from (("absent", str(path)) for path in plan.absent)
    yield from (("guard", str(root)) for root in plan.roots)
    yield "guard-since", str(time.time_ns() - _CLOCK_NS)
    yield from (("kept", f"{read_link_version(path)} {path}") for path in plan.kept)
    if plan.is_approved:
        yield "is-approved", ""


def _open(descriptors: Iterable[int]) -> tuple[int, ...]:
    return tuple(one for one in descriptors if one >= 0)
