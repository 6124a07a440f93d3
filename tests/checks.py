"""Runs the checks and the tests, for `tests/run`, which has made the environment.

    tests/run             all checks and tests; of long lists of cases a third, another one at each commit
    tests/run quick       the checks, types of changed files, and unit tests that start no command
    tests/run core        the checks of quick, and the tests of what is there without any extension
    tests/run wing NAME   the checks of quick, and the tests of one extension
    tests/run PATH...     the checks of quick, and these tests with all their cases, or options of pytest
    tests/run all         all checks and tests, and all cases

In CI all cases run after a change of the store, the journal, the gate or the supervisor (RISKY in
tests/checks.py). SANDBUR_CHECK_JOBS is how many processes run tests. `tests/matrix` kills at every point, and
at more moments.
"""

import json
import os
import re
import signal
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from selection import ROOT, TESTS, UnknownWord, list_core, list_files, list_wing

PYTHON = sys.executable
VENV = Path(PYTHON).parent.parent
FAILURES = ".pytest_cache/first_failures.json"
"""What each failed test showed."""
RISKY = (
    "state/store/", "state/databases/", "state/process/", "agent/policy/", "actions/turn/calls/",
    "actions/tools/shell/", "tests/support/crash/",
)  # fmt: skip
"""Store, journal, gate and supervisor: a change there runs every case in CI."""
PROOFS = re.compile(
    r"test_(crash_matrix|function_recovery|journal_prefixes|power_loss|rivals|network_loss|[a-z_]*kills)\.py"
)
"""A failure of what proves that nothing is lost and nothing runs twice stands: it is not tried again."""
TYPED = ("agent/", "actions/", "state/", "ui/", ".ci/", "sandbur.py", "hatch_build.py")
PARTS = 3


@dataclass(frozen=True)
class Run:
    """What a line of words asks for."""

    files: Sequence[str]
    """Files and folders of tests, or what is passed on to pytest."""
    is_whole: bool = False
    """True with the checks that take minutes: all types, other Pythons, a bare machine."""
    is_sampled: bool = True
    is_quick: bool = False

    @property
    def is_by_file(self) -> bool:
        return not any("::" in word or word.startswith("-") for word in self.files)


def read_words(words: Sequence[str]) -> Run:
    """Return what the words ask for; raise UnknownWord if they ask for nothing that is there."""
    match [*words]:
        case []:
            return Run(["tests"], is_whole=True, is_sampled=not must_run_all_cases())
        case ["all"]:
            return Run(["tests"], is_whole=True, is_sampled=False)
        case ["quick" | "--quick"]:
            return Run(["tests/unit"], is_quick=True)
        case ["core"]:
            return Run([str(file) for file in list_core()])
        case ["wing", name]:
            return Run([str(file) for file in list_wing(name)])
    paths = takewhile(lambda word: not word.startswith("-"), words)
    for word in paths:
        if not Path(word.partition("::")[0]).exists():
            raise UnknownWord(f"There is no {word}: neither a path nor quick, core, wing NAME or all.")
    return Run(words, is_sampled=False)


def git(*words: str) -> str:
    """Return what git prints, or nothing where there is no git or no such commit."""
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def list_changed() -> list[str] | None:
    """Return the files that differ from what has landed: origin/main, or else the commit before."""
    head, landed = git("rev-parse", "HEAD"), git("merge-base", "HEAD", "origin/main")
    base = landed if landed not in ("", head) else git("rev-parse", "--verify", "HEAD~1")
    if not base:
        return None
    names = (git("diff", "--name-only", base), git("ls-files", "--others", "--exclude-standard"))
    return sorted({name for text in names for name in text.splitlines()})


def must_run_all_cases() -> bool:
    """In CI return True for a change of what keeps data, judges calls or watches commands."""
    if not os.environ.get("CI"):
        return False
    changed = list_changed()
    return changed is None or any(name.startswith(RISKY) for name in changed)


def choose_part() -> int:
    """Return the number of the third that this commit runs: three consecutive commits run all of them."""
    if git("rev-parse", "--is-shallow-repository") == "false":
        return int(git("rev-list", "--count", "--first-parent", "HEAD") or 0) % PARTS + 1
    text = git("rev-parse", "HEAD") or Path("CHANGELOG.md").read_text("utf-8")
    return zlib.crc32(text.encode()) % PARTS + 1


class Beside:
    """A check that runs beside the tests; what it prints is shown when it has ended."""

    running: list["Beside"] = []  # noqa: RUF012 -- all of them, ended by `stop`

    def __init__(self, name: str, *words: str, nice: int = 0, trouble: str) -> None:
        self._log, self._trouble = VENV / f"{name}.log", trouble
        words = ("nice", "-n", str(nice), *words) if nice else words
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(words, stdout=out, stderr=out, start_new_session=True)
        self.running.append(self)

    def passed(self) -> bool:
        """Wait for its end, show what it printed, and return True if nothing is wrong."""
        code = self._process.wait()
        print(self._log.read_text("utf-8", "replace"), end="")
        if code:
            print(f"{self._trouble}, see above.", flush=True)
        return code == 0

    def stop(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)


def begin_checks(run: Run) -> None:
    bin = VENV / "bin"
    Beside("lint", f"{bin}/ruff", "check", ".", trouble="Ruff found something")
    Beside("format", f"{bin}/ruff", "format", "--check", ".", trouble="The format is wrong")
    Beside("unused", PYTHON, "tests/unused_code.py", nice=5, trouble="Nothing uses some code")
    changed = None if run.is_whole else list_changed()
    typed = [
        name
        for name in changed or ()
        if name.endswith(".py") and name.startswith(TYPED) and "/public/" not in name and Path(name).exists()
    ]
    if changed is None or typed:
        # The tests come first, types take what they leave of the processors.
        words = (f"{bin}/pyright", "--pythonpath", PYTHON, *typed)
        Beside("types", *words, nice=10, trouble="The types are wrong")
    if run.is_whole:
        other = "With another Python some tests failed"
        Beside("other_pythons", "tests/other_pythons", str(VENV), "2", nice=10, trouble=other)
        python = os.environ.get("PYTHON") or "python3"
        bare = "install.sh failed on a machine with nothing but Python"
        Beside("bare_machine", "tests/bare_machine", python, nice=10, trouble=bare)


def pytest(*words: str) -> int:
    return subprocess.run([PYTHON, "-m", "pytest", *words], check=False).returncode


def run_tests(run: Run) -> int:
    """Run the tests in several processes, then those that need the whole machine; return pytest's code."""
    # Many tests wait for processes, disks and screens, so a few more run at once than there are processors.
    jobs = int(os.environ.get("SANDBUR_CHECK_JOBS") or (os.cpu_count() or 2) + 2)
    # With `=`: pytest takes a file that is there for a path of tests, and then loads no conftest.
    words = [f"--keep-failures={FAILURES}"]
    if run.is_sampled:
        words.append(f"--sample={choose_part()}/{PARTS}")
    if run.is_quick:
        words.append("--quick")
    if not run.is_by_file:
        return pytest("--numprocesses", str(jobs), "--dist", "loadfile", *words, *run.files)
    files = list_files(*(Path(word).resolve() for word in run.files))
    alone = [str(file) for file in files if "pytest.mark.alone" in file.read_text("utf-8")]
    by_file = ("--by-file", "--dist", "load", "--maxschedchunk", "1", "-o", "console_output_style=classic")
    jobs = max(1, min(jobs, len(files)))
    status = pytest("--numprocesses", str(jobs), *by_file, *words, "-m", "not alone", *run.files)
    if alone and not run.is_quick:
        code = pytest("-m", "alone", f"--keep-failures={FAILURES}", "--keep-more", *alone)
        status = status or (0 if code == 5 else code)  # 5: no such test
    return status


def try_again() -> int:
    """Run a few failed tests once more, alone: a machine may have been too busy. Return pytest's code.

    Those that pass then are reported as flaky, with what they showed before.
    """
    failed = json.loads(Path(FAILURES).read_text("utf-8"))
    if not 0 < len(failed) <= 5 or any("::" not in name or PROOFS.search(name) for name in failed):
        return 1
    print("Once more, one after the other: what failed.", flush=True)
    return pytest(f"--retry-of={FAILURES}", *failed)


def main(words: Sequence[str]) -> int:
    if {"-h", "--help"} & set(words):
        print(__doc__, end="")
        return 0
    try:
        run = read_words(words)
    except UnknownWord as error:
        print(error, file=sys.stderr)
        return 2
    Path(".pytest_cache").mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        begin_checks(run)
        status = run_tests(run)
        if status == 1:
            status = try_again()
        passed = [check.passed() for check in Beside.running]
    except KeyboardInterrupt:
        return 130
    finally:
        for check in Beside.running:
            check.stop()
    return status or int(not all(passed))


if __name__ == "__main__":
    os.chdir(ROOT)
    assert TESTS.is_dir()
    sys.exit(main(sys.argv[1:]))
