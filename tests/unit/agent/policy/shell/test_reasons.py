"""What a question says a command does: it is true, or says exactly what is not known."""

from pathlib import Path

import pytest
from support.row_by_row import for_each
from support.samples.commands import DENIED, HARMLESS, UNSAFE
from support.tools.gate import command

REASONS = {
    "pip list --outdated": "may do more than read: pip list --outdated is not known to only read",
    "pip install x": "installs software, uses the network",
    "pip uninstall x": "installs software, uses the network",
    "apt list": "may do more than read: apt is not known to only read",
    "apt-get install x": "installs software, uses the network",
    "docker ps": "looks at a service: docker",
    "docker images -a": "looks at a service: docker",
    "docker logs web": "looks at a service: docker",
    "docker run x": "changes the system",
    "docker --host=x ps": "changes the system",
    "kubectl get pods": "looks at a service: kubectl",
    "kubectl describe pod x": "looks at a service: kubectl",
    "kubectl delete pod x": "uses the network",
    "gh pr view 1": "looks at a service: gh",
    "gh issue list": "looks at a service: gh",
    "gh pr merge 1": "uses the network",
    "cargo build": "runs a program of the repository",
    "python3 tool.py": "runs a program of the repository",
    "python3 -c 'print(1)'": (
        "runs code that the command holds, cannot be read off: an interpreter is given a program of its own"
    ),
    "bash -ec 'make'": "runs code that the command holds, runs a program of the repository",
    "frobnicate --version": (
        "may do more than read: it is not known whether frobnicate loads files of the folder to print its"
        " version"
    ),
    "frobnicate": "may do more than read: frobnicate is not known to only read",
    "column --foo x": "may do more than read: column --foo is not known to only read",
    "wc --fi=x": "may do more than read: wc --fi is not known to only read",
    "git log --foo": "may do more than read: git log --foo is not known to only read",
    "git config --list": (
        "may do more than read: it is not known whether git's configuration contains a secret there"
    ),
    "git config a.b c": "changes the repository",
    "git branch new": "changes the repository",
    "cat $X": "may do more than read: it holds a variable: $X",
    "ls & pwd": "may do more than read: it starts something in the background",
    "for f in $(ls); do cat $f; done": "may do more than read: it holds a variable or substitution",
    "while read l; do echo; done < a": "may do more than read: read is not known to only read",
    "case a in a) ls;; esac": "may do more than read: it holds a control structure: case",
    "mkdir x": "writes files",
    "ls > out": "writes files: out",
    "ls && docker ps": "looks at a service: docker",
    "cat x=~/y": "the folder that `~` means is not known: x=~/y",
    "cat [[:alpha:]]": "the meaning of its file name pattern is not known: [[:alpha:]]",
}


@for_each("row", REASONS.items())
def test_a_question_says_what_the_command_does(tmp_path: Path, row: tuple[str, str]) -> None:
    text, reason = row
    verdict = command(tmp_path, text)
    assert (verdict.decision, verdict.reason) == ("ask", reason)


@for_each("text", [*UNSAFE, *HARMLESS, *DENIED])
def test_every_question_says_something(tmp_path: Path, text: str) -> None:
    verdict = command(tmp_path, text)
    if verdict.decision == "ask":
        assert verdict.reason not in ("", "may do more than read")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rust-toolchain.toml", "cargo --version"),
        ("rust-toolchain", "rustc -V"),
        (".npmrc", "npm --version"),
        (".npmrc", "npm ls"),
        ("go.mod", "go version"),
    ],
)
def test_a_file_that_chooses_the_program_makes_its_version_ask(tmp_path: Path, name: str, text: str) -> None:
    assert command(tmp_path, text).decision == "allow"
    (tmp_path / "sub").mkdir()
    (tmp_path / name).write_text("x")
    verdict = command(tmp_path, f"cd sub && {text}")
    assert verdict.decision == "ask"
    assert verdict.reason == f"may run a program of the repository: {tmp_path.resolve()}/{name} chooses it"


def test_npm_ls_asks_where_a_package_is_a_link_that_leads_out(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    (workspace / "node_modules" / "x").mkdir(parents=True)
    (tmp_path / "secret").write_text("x")
    assert command(workspace, "npm ls").decision == "allow"
    (workspace / "node_modules" / "x" / "package.json").symlink_to(tmp_path / "secret")
    assert "leads outside" in command(workspace, "npm ls").reason
