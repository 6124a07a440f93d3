"""Changes the core on purpose, and tells which tests notice: .venv/bin/python tests/mutation_sample.py --help

Each mutant is one small error in a copy of the sources: a commit that is not made, a condition that is turned
round, a lock that is not taken. The unit tests that name the changed module run first, then those that kill
processes. A mutant that every test survives shows what no test proves.
"""

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = (
    "state/store/*.py",
    "state/process/*.py",
    "agent/policy/*.py",
    "agent/session/*.py",
    "actions/execute_tools.py",
)
CRASH = (
    "tests/crash/storage/test_journal_prefixes.py",
    "tests/crash/test_end_to_end.py",
    "tests/crash/test_rivals.py",
    "tests/crash/test_signals.py",
    "tests/crash/kills",
)
"""Tests that start, kill and resume processes; they run if no unit test notices a mutant."""
SHORT = {
    "sync",
    "fsync",
    "fdatasync",
    "flush",
    "commit",
    "renew",
    "release",
    "check",
    "beat",
    "close",
    "append",
}
"""Calls with these words in their name are dropped."""
TURNED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py)(?:::(\S+))?", re.M)


@dataclass(frozen=True, slots=True)
class Mutant:
    path: str
    line: int
    kind: str
    begin: int
    end: int
    text: str
    """What replaces the bytes from `begin` to `end` of the file."""

    def apply(self, source: bytes) -> bytes:
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def describe(self, source: bytes) -> str:
        was = " ".join(source[self.begin : self.end].decode().split())
        return f"{self.path}:{self.line} {self.kind}: {was[:70]} -> {self.text}"


class Mutants(ast.NodeVisitor):
    """Collects the mutants of one module."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._source = source
        self._depth = 0
        self.found: list[Mutant] = []
        self.visit(ast.parse(source))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._depth += 1
        for statement in node.body:
            self.visit(statement)
        self._depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        left, right = node.left, node.comparators[0]
        begin = self._end(left)
        end = self._at(right.lineno, right.col_offset)
        # Parentheses around an operand are in between, too.
        between = self._source[begin:end].decode()
        word = re.search(r"[<>=!]=?|is not|not in|is|in", between)
        if word is not None and len(node.ops) == 1:
            turned = between[: word.start()] + TURNED[type(node.ops[0])] + between[word.end() :]
            self._add("turned comparison", node, begin, end, turned)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace("dropped not", node, f"({ast.unparse(node.operand)})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        rest = ast.BoolOp(node.op, node.values[1:]) if len(node.values) > 2 else node.values[1]
        self._replace("dropped condition", node, f"({ast.unparse(rest)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self._replace("off by one", node, str(node.value + 1))
        elif type(node.value) is bool:
            self._replace("turned truth", node, str(not node.value))

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func).rsplit(".", 1)[-1]
            if set(name.split("_")) & SHORT:
                self._replace("dropped call", node, "pass")
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.body[-1], ast.Raise | ast.Return) and not node.orelse:
            self._replace("skipped check", node.test, "False")
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            if "lock" in ast.unparse(item.context_expr).lower() and item.optional_vars is None:
                self._replace("dropped lock", item.context_expr, "__import__('contextlib').nullcontext()")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.Call | ast.Name | ast.BoolOp | ast.Compare):
            self._replace("returned nothing", node.value, "None")
        self.generic_visit(node)

    def _replace(self, kind: str, node: ast.expr | ast.stmt, text: str) -> None:
        self._add(kind, node, self._at(node.lineno, node.col_offset), self._end(node), text)

    def _add(self, kind: str, node: ast.expr | ast.stmt, begin: int, end: int, text: str) -> None:
        if self._depth:  # what stands outside of functions is data
            self.found.append(Mutant(self._path, node.lineno, kind, begin, end, text))

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def choose(mutants: Iterable[Mutant], number: int, seed: int) -> list[Mutant]:
    """Choose mutants, of each kind and of each module nearly as many."""
    chance = random.Random(seed)
    kinds: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        kinds.setdefault(mutant.kind, []).append(mutant)
    chosen: list[Mutant] = []
    used: Counter[str] = Counter()
    while len(chosen) < number and kinds:
        for kind in sorted(kinds):
            left = kinds[kind]
            fewest = min(used[one.path] for one in left)
            one = chance.choice([one for one in left if used[one.path] == fewest])
            left.remove(one)
            used[one.path] += 1
            chosen.append(one)
            if not left:
                del kinds[kind]
    return chosen[:number]


def list_unit_tests(tree: Path, path: str) -> list[str]:
    """Return the test files that name the module, then the others of its folder."""
    module = "sandbur." + path.removesuffix(".py").replace("/", ".")
    package, name = module.rsplit(".", 1)
    named = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{name}\b")
    unit = tree / "tests/unit"
    of_folder = {*(unit / path).parent.glob("test_*.py")} if "/" in path.partition("/")[2] else set()
    naming = {file for file in unit.rglob("test_*.py") if named.search(file.read_text("utf-8"))}
    return [str(file.relative_to(tree)) for file in (*sorted(naming), *sorted(of_folder - naming))]


class Tree:
    """A copy of the checkout in which mutants live."""

    def __init__(self, folder: Path, workers: int, timeout_s: int, stops_early: bool) -> None:
        self.folder = folder
        self._stops_early = stops_early
        self._workers = workers
        self._timeout_s = timeout_s
        self._written = 0
        git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(git, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        for name in filter(None, names):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                shutil.copy2(ROOT / name, target)

    def list_failures(self, tests: Iterable[str]) -> set[str]:
        """Run tests; return those that failed. Raises `subprocess.TimeoutExpired`."""
        line = [
            sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider",
            "--timeout=120", f"--numprocesses={self._workers}", "--dist=loadfile", "-m", "not alone",
            *(["--exitfirst"] if self._stops_early else []), *tests,
        ]  # fmt: skip
        env = {**os.environ, "PYTHONPATH": str(self.folder)}
        with subprocess.Popen(
            line,
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                out = process.communicate(timeout=self._timeout_s)[0].decode(errors="replace")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        failed = {f"{file}::{test}" if test else file for file, test in FAILED.findall(out)}
        return failed or ({"the run itself"} if process.returncode not in (0, 1, 5) else set())

    def _write(self, path: str, source: bytes) -> None:
        """Write a module with a time of its own: a compiled one is known by its size and the second."""
        self._written += 1
        (self.folder / path).write_bytes(source)
        os.utime(self.folder / path, (self._written, self._written))

    def judge(self, mutant: Mutant) -> set[str]:
        """Return the tests that fail with the mutant and pass without it.

        Crash tests run for survivors, or if all killers are wanted. Raises `subprocess.TimeoutExpired` on a
        machine that is too busy, or if the mutant makes tests hang.
        """
        source = (self.folder / mutant.path).read_bytes()
        killing: set[str] = set()
        for tests in (list_unit_tests(self.folder, mutant.path), list(CRASH)):
            if killing and self._stops_early:
                break
            self._write(mutant.path, mutant.apply(source))
            try:
                failed = self.list_failures(tests)
            finally:
                self._write(mutant.path, source)
            names = {test for test in failed if "::" in test}
            if names:  # a test that fails without the mutant, too, says nothing
                failed -= self.list_failures(sorted(names))
            killing |= failed
        return killing


def collect(patterns: Iterable[str]) -> Iterator[Mutant]:
    for pattern in patterns:
        for file in sorted(ROOT.glob(pattern)):
            yield from Mutants(str(file.relative_to(ROOT)), file.read_bytes()).found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("number", nargs="?", type=int, default=30, help="mutants to try; default: 30")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--module", action="append", help="pattern of paths; default: the core")
    parser.add_argument("--workers", type=int, default=2, help="tests at once")
    parser.add_argument("--timeout", type=int, default=600, help="in seconds, for the tests of a mutant")
    parser.add_argument("--all", action="store_true", help="find all tests that kill a mutant, not the first")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    options = parser.parse_args()
    chosen = choose(collect(options.module or CORE), options.number, options.seed)
    if options.list:
        for mutant in chosen:
            print(mutant.describe((ROOT / mutant.path).read_bytes()))
        return
    killers: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    survivors: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        tree = Tree(Path(folder), options.workers, options.timeout, not options.all)
        for mutant in chosen:
            told = mutant.describe((ROOT / mutant.path).read_bytes())
            try:
                files = sorted({test.partition("::")[0] for test in tree.judge(mutant)})
            except subprocess.TimeoutExpired:
                print(f"no answer in time {told}", flush=True)
                continue
            print(f"{'killed' if files else 'SURVIVED'} {told}", *files, sep="\n    ", flush=True)
            killers.update(files)
            if len(files) == 1:
                alone.update(files)
            if not files:
                survivors.append(told)
    print(f"\nOf {len(chosen)} mutants {len(survivors)} survived.", *survivors, sep="\n    ")
    print("Test files: mutants killed, of them by no other file")
    for file, number in killers.most_common():
        print(f"{number:4} {alone[file]:4} {file}")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
