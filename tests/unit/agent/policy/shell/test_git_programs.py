"""Git runs what a repository names: no wide rule covers that, and no edit makes a repository."""

import subprocess
from itertools import permutations
from pathlib import Path

import pytest
from support.row_by_row import for_each
from support.tools.gate import command, judge_call

PARTS = {
    "HEAD": "ref: refs/heads/main\n",
    "config": "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch ../made\n",
    "objects/x": "x",
    "refs/x": "x",
}


def is_repository(folder: Path) -> bool:
    """Ask git itself whether it takes the very folder for a repository."""
    found = subprocess.run(["git", "rev-parse", "--git-dir"], cwd=folder, capture_output=True, text=True)
    return found.returncode == 0 and Path(folder, found.stdout.strip()).resolve() == folder


def write_as_allowed(workspace: Path, parts: dict[str, str], order: tuple[str, ...]) -> Path:
    for name in order:
        path = workspace / name
        if judge_call(workspace, "write_file", "auto-edit", path=name).decision == "allow":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(parts[name])
    return workspace


def test_no_order_of_edits_makes_a_repository_unasked(tmp_path: Path) -> None:
    parts = {f"sub/{name}": text for name, text in PARTS.items()}
    for number, order in enumerate(permutations(parts)):
        workspace = tmp_path / str(number)
        workspace.mkdir()
        assert not is_repository(write_as_allowed(workspace, parts, order) / "sub"), order
    whole = tmp_path / "whole"
    for name, text in parts.items():
        (whole / name).parent.mkdir(parents=True, exist_ok=True)
        (whole / name).write_text(text)
    assert is_repository(whole / "sub")


def test_a_folder_that_borrows_from_another_is_no_way_around(tmp_path: Path) -> None:
    parts = {
        "sub/HEAD": PARTS["HEAD"],
        "sub/commondir": "../other",
        "other/objects/x": "x",
        "other/refs/x": "x",
    }
    for number, order in enumerate(permutations(parts)):
        workspace = tmp_path / str(number)
        workspace.mkdir()
        folder = write_as_allowed(workspace, parts, order) / "sub"
        folder.mkdir(exist_ok=True)
        assert not is_repository(folder), order


@pytest.mark.parametrize(
    "path", ["src/objects/player.py", "objects/a.py", "refs/paper.bib", "config", "docs/config", "a/refs/b/c",
             "HEAD.md", "objects", "src/hooks/use.ts", "head.html"]
)  # fmt: skip
def test_folders_that_are_called_so_by_chance_are_edited_unasked(tmp_path: Path, path: str) -> None:
    (tmp_path / "src" / "objects").mkdir(parents=True)
    (tmp_path / "a" / "refs").mkdir(parents=True)
    assert judge_call(tmp_path, "write_file", "auto-edit", path=path).decision == "allow"


CONFIGURED = (
    # what the configuration sets, and which rules with the command that they are meant for do not cover it
    ("[core]\n\tfsmonitor = ./x\n", "status diff add commit"),
    ("[diff]\n\texternal = ./x\n", "diff log status"),
    ('[diff "x"]\n\ttextconv = ./x\n', "diff show"),
    ('[filter "x"]\n\tsmudge = ./x\n', "checkout add status"),
    ('[filter "x"]\n\tprocess = ./x\n', "checkout"),
    ('[merge "x"]\n\tdriver = ./x\n', "merge"),
    ("[include]\n\tpath = ../x\n", "status commit"),
    ("[core]\n\tsshCommand = ./x\n", "fetch push"),
    ("[core]\n\tgitProxy = ./x\n", "fetch"),
    ("[core]\n\taskPass = ./x\n", "push"),
    ("[gpg]\n\tprogram = ./x\n", "commit"),
    ("[interactive]\n\tdiffFilter = ./x\n", "add"),
    ("[uploadpack]\n\tpackObjectsHook = ./x\n", "fetch"),
    ('[remote "o"]\n\tuploadpack = ./x\n', "fetch"),
    ('[remote "o"]\n\turl = ext::sh -c x\n', "fetch pull push"),
    ('[url "ext::sh -c x"]\n\tinsteadOf = https://\n', "fetch"),
    ("[credential]\n\thelper = !./x\n", "fetch push"),
    ("[core]\n\teditor = ./x\n", "commit rebase"),
    ("[sequence]\n\teditor = ./x\n", "rebase"),
    ("[alias]\n\tst = !./x\n", "st"),
    ("[gc]\n\trecentObjectsHook = ./x\n", "gc"),
    ('[submodule "x"]\n\tupdate = !./x\n', "submodule"),
    ("[core]\n\thooksPath = hooks\n", "commit checkout"),
    ("[lfs]\n\tcustomtransfer.x.path = ./x\n", "push"),
)
HARMLESS = (
    ("", "status diff log add commit checkout push fetch merge rebase stash tag branch"),
    ("[core]\n\tfsmonitor = false\n", "status commit"),
    ("[core]\n\tpager = ./x\n", "log diff"),
    ("[core]\n\teditor = ./x\n", "status diff log"),
    ("[credential]\n\thelper = !./x\n", "status log"),
    ("[alias]\n\tst = !./x\n", "status commit"),
    (
        '[remote "o"]\n\turl = git@host:x/y.git\n\tfetch = +refs/heads/*:refs/remotes/o/*\n',
        "fetch push status",
    ),
    (
        '[remote "o"]\n\turl = https://host/x.git\n[branch "m"]\n\tremote = o\n\tmerge = refs/heads/m\n',
        "pull",
    ),
    ("[user]\n\tname = A\n\temail = a@a\n[push]\n\tdefault = simple\n", "commit push"),
)


def repository(folder: Path, config: str = "") -> Path:
    subprocess.run(["git", "init", "-q", folder], check=True)
    with (folder / ".git" / "config").open("a") as file:
        file.write(config)
    return folder


def verdicts(folder: Path, text: str, rule: str) -> tuple[str, str]:
    """Return what is said with a rule with a wildcard, and with one that says exactly this."""
    wide = command(folder, text, allow=[f"run_shell_command({rule})"])
    exact = command(folder, text, allow=[f"run_shell_command({text})"])
    return wide.decision, exact.decision


@pytest.mark.parametrize(("config", "subcommands"), CONFIGURED)
def test_a_wildcard_does_not_cover_what_a_configuration_runs_and_an_exact_rule_does(
    tmp_path: Path, config: str, subcommands: str
) -> None:
    folder = repository(tmp_path, config)
    for name in subcommands.split():
        for text in (f"git {name} x", f"git {name}", f"timeout 9 git {name} x", f"cd . && git {name} x"):
            for rule in (f"git {name}*", f"git {name} *", "git *", "g*", "timeout *", "*t*"):
                wide = command(folder, text, allow=[f"run_shell_command({rule})", "run_shell_command(cd *)"])
                assert wide.decision == "ask", (text, rule)
        assert verdicts(folder, f"git {name} x", "git *") == ("ask", "allow")
        assert command(folder, f"git {name} x", allow=["run_shell_command"]).decision == "allow"
        assert command(folder, f"git {name} x", "yolo").decision == "allow"
        reason = command(folder, f"git {name} x", allow=["run_shell_command(git *)"]).reason
        assert "may run a program of the repository" in reason


@pytest.mark.parametrize(("config", "subcommands"), HARMLESS)
def test_a_wildcard_covers_git_where_the_configuration_runs_nothing(
    tmp_path: Path, config: str, subcommands: str
) -> None:
    folder = repository(tmp_path, config)
    for name in subcommands.split():
        for rule in (f"git {name}*", f"git {name} *", "git *"):
            assert (
                command(folder, f"git {name} x", allow=[f"run_shell_command({rule})"]).decision == "allow"
            ), name


def test_a_hook_is_not_covered_where_the_command_runs_hooks(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    assert verdicts(folder, "git commit -m x", "git commit *") == ("ask", "allow")
    assert "the hook pre-commit" in command(folder, "git commit -m x").reason
    assert verdicts(folder, "git add x", "git add *") == ("allow", "allow")
    assert verdicts(folder, "git status", "git status*") == ("allow", "allow")
    hook.chmod(0o644)
    assert verdicts(folder, "git commit -m x", "git commit *") == ("allow", "allow")


def test_another_folder_counts_where_git_runs_there(tmp_path: Path) -> None:
    repository(tmp_path)
    hostile = repository(tmp_path / "unpacked" / "evil", "[core]\n\tfsmonitor = ./x\n")
    rules = ["run_shell_command(git *)", "run_shell_command(cd *)", "run_shell_command(git -C *)"]
    for text in (
        "cd unpacked/evil && git status",
        f"git -C {hostile} status",
        "cd unpacked; cd evil; git diff x",
        "git -C unpacked -C evil status",
        "cd unpacked && git -C evil status",
    ):
        assert command(tmp_path, text, allow=rules).decision == "ask", text
    assert command(tmp_path, "git status x", allow=rules).decision == "allow"


def test_a_linked_working_tree_is_judged_by_its_repository(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@a", "commit", "-qm", "x", "--allow-empty"],
        cwd=main, check=True,
    )  # fmt: skip
    subprocess.run(["git", "worktree", "add", "-q", tmp_path / "tree"], cwd=main, check=True)
    tree = tmp_path / "tree"
    assert verdicts(tree, "git status -s x", "git status*") == ("allow", "allow")
    assert verdicts(tree, "git commit -m x", "git *") == ("allow", "allow")
    with (main / ".git" / "config").open("a") as file:
        file.write("[core]\n\tfsmonitor = ./x\n")
    assert verdicts(tree, "git status -s x", "git status*") == ("ask", "allow")
    forged = tmp_path / "forged"
    (forged / "git" / "worktrees" / "x").mkdir(parents=True)
    (forged / ".git").write_text("gitdir: git/worktrees/x\n")
    assert verdicts(forged, "git status -s x", "git status*") == ("ask", "allow")


def test_the_command_of_the_readme_runs_nothing_of_an_unpacked_repository(tmp_path: Path) -> None:
    for config, text in (
        ("[core]\n\tfsmonitor = touch made\n", "git status"),
        ("[diff]\n\texternal = touch made\n", "git diff"),
    ):
        folder = repository(tmp_path / text.split()[1], config)
        rules = ["run_shell_command(git status*)", "run_shell_command(git diff*)"]
        assert command(folder, text, allow=rules).decision == "ask"


SUBSTITUTES = (
    # what a folder may hold in place of what git looks for in a repository
    {"HEAD": "ref: refs/heads/main\n", "commondir": "../other\n"},
    {"HEAD": "ref: refs/heads/main\n", "objects": "#!", "refs": "#!"},
)


@for_each("parts", SUBSTITUTES)
def test_git_looks_unasked_in_no_folder_that_it_takes_for_a_repository(
    tmp_path: Path, parts: dict[str, str]
) -> None:
    workspace = tmp_path / str(SUBSTITUTES.index(parts))
    for folder in ("sub", "other/objects", "other/refs"):
        (workspace / folder).mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    assert command(workspace, "cd sub && git status").decision == "allow"
    for name, text in parts.items():
        (workspace / "sub" / name).write_text(text)
        (workspace / "sub" / name).chmod(0o755)
    assert is_repository(workspace / "sub")
    for text in ("cd sub && git diff HEAD~1 HEAD", "git -C sub status"):
        assert command(workspace, text).decision == "ask", text


TRACKED_SECRETS = (
    "secrets.yml", "prod.tfvars", ".htpasswd", ".envrc", "prod.env", "x.ppk", "x.keystore", ".pgpass",
    ".docker/config.json", ".aws/config", ".kube/config", "service-account.json", "a/b/.env", "id_rsa",
)  # fmt: skip


@for_each("name", TRACKED_SECRETS)
def test_git_shows_no_tracked_file_of_secrets_unasked(tmp_path: Path, name: str) -> None:
    workspace = tmp_path / str(TRACKED_SECRETS.index(name))
    path = workspace / name
    path.parent.mkdir(parents=True)
    (workspace / "README.md").write_text("x")
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    subprocess.run(["git", "add", "-A"], cwd=workspace, check=True)
    assert command(workspace, "git diff").decision == "allow"
    path.write_text("x")
    subprocess.run(["git", "add", "-A"], cwd=workspace, check=True)
    for text in ("git show", "git diff", "git log -p", "git diff -- ."):
        assert f"secret file: {name}" in command(workspace, text).reason, text
