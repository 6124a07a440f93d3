"""The gate against command lines of many kinds, in a workspace with a repository, secrets and ways out."""

import subprocess
from pathlib import Path

import pytest
from support.row_by_row import for_each
from support.samples.commands import CATASTROPHES, DENIED, HARMLESS, MENTIONS, READS, UNSAFE
from support.tools.gate import command, judge_call

RULES = ["run_shell_command(rm *)"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("place") / "work"
    (folder / "src").mkdir(parents=True)
    (folder.parent / "outside").mkdir()
    for name in ("src/a.py", "src/b.py", "package.json", ".env.example", ".gitignore", "README.md"):
        (folder / name).write_text('{"name": 1}\n')
    git = "git init -q; git add .; git -c user.name=a -c user.email=a@a commit -qm x"
    subprocess.run(["bash", "-c", git], cwd=folder, check=True)
    for name in (".env", "server.pem", "id_rsa", "credentials.json", ".npmrc", "../outside/key", "../secret"):
        (folder / name).write_text("secret\n")
    (folder / "way_out").symlink_to(folder.parent / "outside")
    (folder / "src" / "out").symlink_to("/etc")
    return folder


@pytest.mark.parametrize("mode", ["interactive", "auto-edit", "plan"])
@for_each("text", UNSAFE)
def test_what_may_do_or_show_more_never_passes_unasked(workspace: Path, text: str, mode: str) -> None:
    verdict = command(workspace, text, mode)
    assert verdict.decision == ("deny" if mode == "plan" else "ask")
    assert "not read-only" not in verdict.reason


def test_looking_passes_in_every_mode(workspace: Path) -> None:
    for mode in ("interactive", "auto-edit", "plan", "yolo"):
        asked = [text for text in READS if command(workspace, text, mode).decision != "allow"]
        # One of its files is called as files with secrets are.
        assert set(asked) <= {"cat *.json"}


@for_each("text", DENIED)
def test_what_is_denied_does_not_run_however_it_hides(workspace: Path, text: str) -> None:
    assert command(workspace, text, "yolo", deny=RULES).decision != "allow"
    assert command(workspace, text, "yolo", deny=RULES, allow=["run_shell_command"]).decision != "allow"


def test_the_variants_are_many() -> None:
    assert len(DENIED) >= 150


@for_each("text", MENTIONS)
def test_a_mention_is_no_command(workspace: Path, text: str) -> None:
    assert command(workspace, text, "yolo", deny=RULES).decision == "allow"


@for_each("text", CATASTROPHES)
def test_what_no_undo_reaches_asks_in_every_mode(workspace: Path, text: str) -> None:
    for mode in ("interactive", "auto-edit", "yolo"):
        assert command(workspace, text, mode).decision == "ask"
        assert command(workspace, text, mode, allow=["run_shell_command"]).decision == "ask"
    assert command(workspace, text, "yolo", runs_catastrophes=True).decision == "allow"


def test_an_exact_rule_names_a_catastrophe(workspace: Path) -> None:
    rule = ["run_shell_command(rm -rf .git)"]
    assert command(workspace, "rm -rf .git", "yolo", allow=rule).decision == "allow"
    assert command(workspace, "rm -rf .git ", "interactive", allow=rule).decision == "allow"
    assert command(workspace, "rm -rf .git ..", "yolo", allow=rule).decision == "ask"


@for_each("text", HARMLESS)
def test_everything_else_runs_in_yolo_mode(workspace: Path, text: str) -> None:
    assert command(workspace, text, "yolo").decision == "allow"


@pytest.mark.parametrize(
    ("config", "asks"),
    [
        ("[core]\n\tfsmonitor = ./x\n", True),
        ("[core] fsmonitor=./x\n", True),
        ("[core]\n\tfsmonitor\n", True),
        ("[core]\n\tfsmonitor = false\n", False),
        ("[CORE]\n\tFsMonitor = true\n", True),
        ("[include]\n\tpath = ../x\n", True),
        ('[includeIf "gitdir:/"]\n\tpath = x\n', True),
        ('[diff "x"]\n\ttextconv = ./x\n', True),
        ("[diff]\n\texternal = ./x\n", True),
        ('[filter "x"]\n\tclean = ./x\n', True),
        ("[core]\n\tworktree = /\n", True),
        ("[gpg]\n\tprogram = ./x\n", True),
        ("[log]\n\tshowSignature = true\n", True),
        ("[format]\n\tpretty = %G?\n", True),
        ('[remote "o"]\n\tpromisor = true\n', True),
        ("[extensions]\n\tworktreeConfig = true\n", True),
        ("[core]\n\teditor = y\r[alias]\n\tfsmonitor = ./x\n", True),
        ("[core]\r\n\teditor = y\r\n", False),
        ("[blame]\n\tignoreRevsFile = ../x\n", True),
        ("[blame]\n\tdate = iso\n", False),
        ("[mailmap]\n\tfile = ../x\n", True),
        ("[core]\n\texcludesFile = ../x\n", True),
        ("[core]\n\tattributesFile = ../x\n", True),
        ("[core]\n\thooksPath = .husky\n", False),
        ("[alias]\n\tst = !./x\n[core]\n\tpager = ./x\n\teditor = ./x\n", False),
        ('[remote "o"]\n\turl = git@host:x\n\tfetch = +refs/heads/*:refs/remotes/o/*\n', False),
        ("[core]\n\tx = a \\\n\tfsmonitor = ./x\n", True),
    ],
)
def test_git_looks_unasked_only_where_the_repository_names_no_program(
    tmp_path: Path, config: str, asks: bool
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    with (tmp_path / ".git" / "config").open("a", newline="") as file:
        file.write(config)
    for text in ("git status", "git diff", "git log -p", "git -C . show"):
        verdict = command(tmp_path, text)
        assert (verdict.decision == "ask") is asks, verdict.reason


def test_git_asks_where_its_folder_is_none_or_a_hook_waits(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert command(tmp_path, "git status").decision == "allow"
    hook = tmp_path / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    assert "hook" in command(tmp_path, "git status").reason
    bare = tmp_path / "bare"
    subprocess.run(["git", "init", "-q", "--bare", "bare"], cwd=tmp_path, check=True)
    assert "no plain .git" in command(tmp_path, "cd bare && git status").reason
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {bare}\n")
    assert "no plain .git" in command(linked, "git status").reason


@for_each(
    "place", ["objects/ab", "info/exclude", "packed-refs", "refs/heads/x", "logs/HEAD", "rebase-merge/done"]
)
def test_git_asks_where_its_own_folder_holds_a_link(tmp_path: Path, place: str) -> None:
    repository = tmp_path / place.replace("/", "-")
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    assert command(repository, "git status").decision == "allow"
    link = repository / ".git" / place
    link.parent.mkdir(exist_ok=True, parents=True)
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "elsewhere")
    verdict = command(repository, "git status")
    assert verdict.decision == "ask"
    assert f".git/{place} is a link" in verdict.reason


def test_a_program_of_the_workspace_is_not_proved(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = workspace / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    assert command(workspace, "ls").decision == "allow"
    (programs / "ls").write_text("#!/bin/sh\n")
    (programs / "ls").chmod(0o755)
    assert command(workspace, "ls").reason == f"runs a program of the repository: {programs}/ls"
    monkeypatch.setenv("PATH", "programs:/usr/bin:/bin")
    assert command(workspace, "cat README.md").decision == "ask"


@pytest.mark.parametrize("program", ["traceroute", "http", "https", "xh", "aria2c"])
def test_a_program_of_the_network_is_said_to_use_it(workspace: Path, program: str) -> None:
    assert command(workspace, f"{program} example.org").reason == "uses the network"


PROTECTED = (
    ".git/hooks/pre-commit", ".GIT/config", ".env", ".env.local", ".vscode/tasks.json", ".idea/x.xml",
    ".npmrc", ".github/workflows/ci.yml", ".gitlab-ci.yml", ".husky/pre-commit", ".bashrc", ".ssh/config",
    ".claude/x.json",
    ".mcp.json", ".gitmodules", ".sandbur/config.toml", ".cursor/rules", "sub/.Vscode/x", "own/x",
)  # fmt: skip


@for_each("path", PROTECTED)
def test_a_protected_place_asks_in_auto_edit_and_past_wide_rules(workspace: Path, path: str) -> None:
    own = [workspace / "own"]
    for allow in ([], ["write_file(**)"], ["write_file(*)"]):
        verdict = judge_call(workspace, "write_file", "auto-edit", allow=allow, own=own, path=path)
        assert verdict.decision == "ask", allow
    exact = [f"write_file({path})"]
    assert (
        judge_call(workspace, "write_file", "auto-edit", allow=exact, own=own, path=path).decision == "allow"
    )
    for text in (f"cp a {path}", f"tee {path}", f"mv a {path}", f"rm {path}", f"touch src/../{path}"):
        rules = ["run_shell_command(cp *)", "run_shell_command(tee *)", "run_shell_command(touch *)",
                 "run_shell_command(mv *)", "run_shell_command(rm *)"]  # fmt: skip
        verdict = command(workspace, text, "auto-edit", allow=rules, own=own)
        assert (verdict.decision, "protected place" in verdict.reason) == ("ask", True), text
    assert "protected place" in command(workspace, f"echo x > {path}", "auto-edit", own=own).reason


def test_a_folder_that_git_takes_for_a_repository_is_protected(tmp_path: Path) -> None:
    for name in ("objects", "refs"):
        (tmp_path / "sub" / name).mkdir(parents=True)
    assert judge_call(tmp_path, "write_file", "auto-edit", path="sub/HEAD").decision == "ask"
    assert judge_call(tmp_path, "write_file", "auto-edit", path="sub/x").decision == "allow"
    (tmp_path / "sub" / "HEAD").write_text("ref: refs/heads/main\n")
    assert judge_call(tmp_path, "write_file", "auto-edit", path="sub/x").decision == "ask"


@pytest.mark.parametrize("mode", ["interactive", "plan", "auto-edit", "yolo"])
def test_a_rule_against_reading_holds_for_all_that_reads(workspace: Path, mode: str) -> None:
    (workspace / "hidden").mkdir(exist_ok=True)
    (workspace / "hidden" / "x").write_text("x")
    rules = ["read_file(hidden/**)"]
    denied = [
        ("read_file", {"path": "hidden/x"}), ("list_directory", {"path": "hidden"}),
        ("grep", {"pattern": "x", "path": "hidden"}), ("glob", {"pattern": "hidden/*"}),
        ("edit_file", {"path": "hidden/x"}), ("run_shell_command", {"command": "cat hidden/x"}),
        ("run_shell_command", {"command": "cat hidden/*"}),
        ("run_shell_command", {"command": "cd hidden; cat x"}),
        ("run_shell_command", {"command": "git show HEAD:hidden/x"}),
        ("run_shell_command", {"command": "a < hidden/x"}),
    ]  # fmt: skip
    for tool, arguments in denied:
        assert judge_call(workspace, tool, mode, deny=rules, **arguments).decision == "deny", arguments
    for tool, arguments in (
        ("grep", {"pattern": "x"}),
        ("glob", {"pattern": "**"}),
        ("run_shell_command", {"command": "tar cf /tmp/x ."}),
    ):
        assert judge_call(workspace, tool, mode, deny=rules, **arguments).decision != "allow", arguments
    assert judge_call(workspace, "read_file", mode, deny=rules, path="src/a.py").decision == "allow"
    assert command(workspace, "echo hidden/x", mode, deny=rules).decision == "allow"


def test_a_secret_inside_asks_and_says_so(workspace: Path) -> None:
    assert (
        judge_call(workspace, "read_file", path=".env").reason
        == f"shows a secret file: {workspace.resolve()}/.env"
    )
    assert judge_call(workspace, "read_file", path=".env.example").decision == "allow"
    assert judge_call(workspace, "read_file", "yolo", path=".env").decision == "allow"


def test_deny_beats_ask_beats_allow_and_the_more_specific_rule_is_named(workspace: Path) -> None:
    rules = {"allow": ["run_shell_command"], "ask": ["run_shell_command(make *)"]}
    assert command(workspace, "make x", "yolo", **rules).decision == "ask"
    assert (
        command(workspace, "make x", "yolo", deny=["run_shell_command(make *)"], **rules).decision == "deny"
    )
    many = ["run_*", "run_shell_command(make*)", "run_shell_command(make x)"]
    assert command(workspace, "make x", deny=many).rule == "run_shell_command(make x)"


@pytest.mark.parametrize(
    ("rule", "covered", "others"),
    [
        ("git diff*", ["git diff", "git diff --stat x"],
         ["git difftool", "git diff --output=x", "git diff --outp x", "git diff --ext-diff",
          "git -c a=b diff"]),
        ("git status*", ["git status -s"], ["git statusx", "git status > x"]),
        ("git *", ["git add ."], ["git fetch --upload-p=x", "git grep -nOx y", "git clone -ux y",
                                  "git config a b",
                                  "git bisect run x", "git rebase -x y", "git rebase --exe y",
                                  "git -C / log"]),
        ("sort *", ["sort -u a"], ["sort -o a b", "sort -ro a b", "sort --com=x a", "sort --comp x a"]),
        ("printf *", ["printf %s x"], ["printf -v x y", "printf -vx y", "printf %n 'a[$(id)]'"]),
        ("test *", ["test -f x"], ["test -v 'a[$(id)]'", "test 'a[0]' -eq 1"]),
        ("[ *", ["[ -f x ]"], ["[ -v 'a[$(id)]' ]", "[ 'a[$(id)]' -eq 1 ]"]),
        ("npm test *", ["npm test", "npm test -- -u"], ["npm test --script-shell=./x", "npm testx"]),
        ("tar *", ["tar tf a"], ["tar xf a --to-comm=x", "tar cIf x a", "tar -I x -cf a b"]),
        ("rg *", ["rg x"], ["rg --pre=./x y", "rg -nz y", "rg --hostname-bin x y"]),
        ("sed *", ["sed -n 1p a"], ["sed -i 1d a", "sed --in-pl 1d a", "sed 's/a/b/e' a", "sed -n 'w x' a",
                             "sed --expression='w x' a", "sed -e'w x' a"]),
    ],
)  # fmt: skip
def test_a_wide_rule_covers_what_it_says_and_no_more(
    tmp_path: Path, rule: str, covered: list[str], others: list[str]
) -> None:
    allow = [f"run_shell_command({rule})"]
    for text in covered:
        assert command(tmp_path, text, allow=allow).decision == "allow", text
    for text in others:
        assert command(tmp_path, text, allow=allow).decision == "ask", text


@pytest.mark.parametrize("place", [".gitignore", ".ignore", "sub/.rgignore", ".git/info/exclude"])
@pytest.mark.parametrize(
    ("line", "asks"),
    [("!.env", True), ("!/sub/.e*", True), ("!*", True), ("!**/", True), ("!.[e]nv", True),
     ("!keep.txt", False), ("!.env.example", False), (".env", False), ("!*.txt", False)],
)  # fmt: skip
def test_a_search_asks_where_a_list_of_names_to_leave_out_lets_a_hidden_secret_in(
    tmp_path: Path, place: str, line: str, asks: bool
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".env").write_text("x")
    assert command(tmp_path, "rg x").decision == "allow"
    (tmp_path / place).write_text(f"*.o\n{line}\n")
    for text in ("rg x", "rg x sub", "rg -t py x"):
        assert (command(tmp_path, text).decision == "ask") is asks, text


@pytest.mark.parametrize("braces", ["{a," * 3000 + "}" * 3000, "{a,b}" * 2000, "{" + "," * 5000])
def test_braces_without_end_are_judged(workspace: Path, braces: str) -> None:
    verdict = command(workspace, f"rm -rf {braces}", "yolo", allow=["run_shell_command"])
    assert "bug" not in verdict.reason
