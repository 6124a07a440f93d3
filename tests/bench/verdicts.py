"""The CPU time of a verdict of the gate, and how the gate judges many kinds of command lines."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import tell
from support.samples.commands import CATASTROPHES, DENIED, HARMLESS, MENTIONS, READS, UNSAFE
from support.tools.gate import TOOLS, command

from sandbur.agent.policy.gate import Policy
from sandbur.agent.policy.rules.rules import parse_rules
from sandbur.state.application import ExecutionMode, PlanTerms

DENY = ["run_shell_command(rm *)"]
PLAN_LIMIT_MS = 0.1
TYPICAL = (
    "ls -la src",
    "git status --short",
    "grep -n x src/a.py",
    "npm test",
    "cd src && cat a.py | head -5",
)


def measure(folder: Path, rounds: int) -> None:
    workspace = folder / "work"
    furnish(workspace)
    for text in TYPICAL:
        print(f"{milliseconds(workspace, text, rounds):7.3f} ms  interactive  {text}")
    print(f"{milliseconds(workspace, 'make && ls', rounds, 'yolo'):7.3f} ms  yolo, one deny rule  make && ls")

    print_plan_cost(workspace, rounds)

    def passes(text: str) -> bool:
        return command(workspace, text).decision == "allow"

    def stays(text: str) -> bool:
        return command(workspace, text, "yolo", deny=DENY).decision == "allow"

    def runs(text: str) -> bool:
        return command(workspace, text, "yolo").decision == "allow"

    print_wrong("unsafe commands that pass unasked", UNSAFE, passes)
    print_wrong("plainly read-only commands that ask", READS, lambda text: not passes(text))
    print_wrong("variants of what is denied that run in yolo", DENIED, stays)
    print_wrong("mentions of what is denied that do not run in yolo", MENTIONS, lambda text: not stays(text))
    print_wrong("catastrophes that run in yolo", CATASTROPHES, runs)
    print_wrong("harmless commands that ask in yolo", HARMLESS, lambda text: not runs(text))


def furnish(workspace: Path) -> None:
    """Make a workspace with a repository, secrets, and a way out."""
    (workspace / "src").mkdir(parents=True)
    (workspace.parent / "outside").mkdir()
    for name in ("src/a.py", "src/b.py", "package.json", ".env.example", ".gitignore", "README.md"):
        (workspace / name).write_text('{"name": 1}\n')
    git = "git init -q; git add .; git -c user.name=a -c user.email=a@a commit -qm x"
    subprocess.run(["bash", "-c", git], cwd=workspace, check=True)
    for name in (".env", "server.pem", "id_rsa", "credentials.json", ".npmrc", "../outside/key", "../secret"):
        (workspace / name).write_text("secret\n")
    (workspace / "way_out").symlink_to(workspace.parent / "outside")
    (workspace / "src" / "out").symlink_to("/etc")


def milliseconds(
    workspace: Path,
    text: str,
    rounds: int,
    mode: ExecutionMode = "interactive",
    plan: PlanTerms | None = None,
) -> float:
    tool = TOOLS["run_shell_command"]
    policy = Policy((), parse_rules(DENY, TOOLS), workspace)
    arguments = tool.parse(f'{{"command": "{text}"}}')
    policy.judge(tool, arguments, mode, plan=plan)
    begin = time.process_time()
    for _ in range(rounds):
        policy.judge(tool, arguments, mode, plan=plan)
    return (time.process_time() - begin) * 1000 / rounds


def print_plan_cost(workspace: Path, rounds: int) -> None:
    """Print what the rules of an approved plan add to a verdict, and its ratio to one without a plan."""
    last = "run_shell_command(touch *)"
    few = PlanTerms("few", (last,))
    many = PlanTerms("many", (*(f"run_shell_command(tool{number} *)" for number in range(99)), last))
    for text in ("touch built", "make all"):
        alone, one, hundred = (
            min(milliseconds(workspace, text, rounds // 4, plan=plan) for _ in range(5))
            for plan in (None, few, many)
        )
        more = hundred - one
        tell(f"a plan of 100 rules, CPU more than of one: {text}", more, PLAN_LIMIT_MS, " ms")
        print(f"  {hundred / alone:.2f} x of no plan")


def print_wrong(what: str, commands: list[str], is_bad: Callable[[str], bool]) -> None:
    bad = [text for text in commands if is_bad(text)]
    print(f"{len(bad):3} of {len(commands)} {what}")
    for text in bad:
        print(f"        {text!r}")
