"""Makes a hostile workspace: secrets, links to the outside, and repositories that run commands."""

import os
import shutil
import subprocess
from pathlib import Path

PLANTED = "7391846205"
"""A text in every file that no command may print without a question."""
_TEXT = f"{PLANTED}={{{PLANTED}\n" * 4
_PROGRAM = "#!/bin/sh\necho {planted} >> {mark}\necho {planted}\ncat >/dev/null 2>&1\n"

CONFIGS = {
    "fsmonitor": "[core]\n\tfsmonitor = {program}\n",
    "fsmonitor-behind-a-carriage-return": "[core]\n\teditor = y\r[alias]\n\tfsmonitor = {program}\n",
    "external": "[diff]\n\texternal = {program}\n",
    "textconv": '[diff "x"]\n\ttextconv = {program}\n',
    "filter": '[filter "x"]\n\tclean = {program}\n\tsmudge = {program}\n',
    "pager": "[core]\n\tpager = {program}\n[pager]\n\tlog = {program}\n",
    "alias": "[alias]\n\tstatus = !{program}\n\tlog = !{program}\n\tst = !{program}\n",
    "signature": "[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {program}\n",
    "include": "[include]\n\tpath = {secret}\n",
    "include-of-a-folder": '[includeIf "gitdir:/"]\n\tpath = {secret}\n',
    "ignore-revs": "[blame]\n\tignoreRevsFile = {secret}\n",
    "excludes": "[core]\n\texcludesFile = {secret}\n",
    "attributes": "[core]\n\tattributesFile = {secret}\n",
    "mailmap": "[mailmap]\n\tfile = {secret}\n",
    "order": "[diff]\n\torderFile = {secret}\n",
    "worktree": "[core]\n\tworktree = {outside}\n",
    "hooks": "[core]\n\thooksPath = {outside}\n",
    "template": "[commit]\n\ttemplate = {secret}\n",
}  # fmt: skip
"""Dangerous lines in the configuration of a repository."""
LINKS = (
    "config", "index", "HEAD", "packed-refs", "shallow", "info/exclude", "info/attributes", "info/grafts",
    "info/sparse-checkout", "refs/heads/x", "logs/HEAD", "logs/refs/heads/main", "MERGE_HEAD",
    "MERGE_MSG", "rebase-merge/done", "rebase-merge/git-rebase-todo", "rebase-merge/onto",
    "rebase-merge/head-name", "objects/info/alternates", "objects/info/commit-graph", "commondir",
    "config.worktree", "description", "CHERRY_PICK_HEAD", "BISECT_LOG", "BISECT_START", "refs/stash",
    "logs/refs/stash", "sequencer/todo",
)  # fmt: skip
"""Files of a repository that may be links to a secret file."""
_SECRETS = (
    ".env", "sub/.env", "server.pem", "credentials.json", "../outside/secret.txt", "../outside/s3",
    "../home/notes.txt", "../home/.ssh/id_rsa",
)  # fmt: skip
_FOLDERS = ("objects", "objects/pack", "refs", "refs/heads", "info", "logs", ".")


def make_hostile(place: Path) -> Path:
    """Make the workspace, a home and a folder outside; return the workspace."""
    folder, outside, home = place / "work", place / "outside", place / "home"
    for path in (folder / "src" / "deep", folder / "sub", outside, home / ".ssh"):
        path.mkdir(parents=True)
    for name in _SECRETS:
        (folder / name).write_text(_TEXT)
    for name in ("README.md", "src/a.py", "src/deep/b.py", "data.txt", "s1", "-r", "a b"):
        (folder / name).write_text("alpha beta\ngamma\n1 2\n")
    (folder / "data.json").write_text('{"name": 1}\n')
    (folder / "list").write_text(".env\n")
    (folder / "list0").write_bytes(b".env\0../outside/secret.txt\0")
    (folder / "--files0-from=list0").write_text("x\n")
    for link in (
        "[aX]",
        "s2",
        "src/link",
        "src/.ignore",
        "gitignored",
        "{a,b}",
        "src/deep/out.txt",
        "~",
        "5",
    ):
        (folder / link).symlink_to(outside / "secret.txt")
    (folder / "way_out").symlink_to(outside)
    (folder / "x=").symlink_to("/")
    (folder / "env_link").symlink_to(".env")
    _make_repositories(folder, outside, place / "ran")
    return folder


def _make_repositories(folder: Path, outside: Path, mark: Path) -> None:
    program = outside / "program"
    program.write_text(_PROGRAM.format(planted=PLANTED, mark=mark))
    program.chmod(0o755)
    for name in ("post-index-change", "fsmonitor-watchman"):
        shutil.copy(program, outside / name)
    base = folder / "base"
    _run("git init -q -b main; git config user.email a@a; git config user.name a; git add .;"
         " git commit -qm one; echo more >> README.md; git commit -qam two; echo again >> README.md;"
         " git tag v1; git stash -q; git stash apply -q", base, outside)  # fmt: skip
    other = outside / "repository"
    _run(
        f"git init -q -b main; echo {PLANTED} > {PLANTED}.txt; git add .; git commit -qm {PLANTED}",
        other,
        outside,
    )
    values = {"program": program, "secret": outside / "secret.txt", "outside": outside}
    for name, config in CONFIGS.items():
        with (_copy(base, folder / f"config-{name}") / "config").open("a", newline="") as file:
            file.write(config.format(**values))
        (folder / f"config-{name}" / ".gitattributes").write_text("* diff=x filter=x\n")
    for link in LINKS:
        path = _copy(base, folder / f"link-{link.replace('/', '-')}") / link
        path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True, parents=True)
        path.symlink_to(outside / "secret.txt")
    for name in _FOLDERS:
        path = _copy(base, folder / f"folder-{name.replace('/', '-')}") / name
        shutil.rmtree(path)
        (path.parent / ".git" if name == "." else path).symlink_to(other / ".git" / name)
    for name in (".gitignore", ".gitattributes", ".mailmap"):
        _copy(base, folder / f"tree-{name}")
        (folder / f"tree-{name}" / name).symlink_to(outside / "secret.txt")
    (folder / "file").mkdir()
    (folder / "file" / ".git").write_text(f"gitdir: {other}/.git\n")
    alternates = _copy(base, folder / "alternates") / "objects" / "info" / "alternates"
    alternates.write_text(f"{other}/.git/objects\n")
    heads = folder / "alternates" / ".git" / "refs" / "heads"
    shutil.copy(other / ".git" / "refs" / "heads" / "main", heads / "main")
    hooks = _copy(base, folder / "hook") / "hooks"
    hooks.mkdir(exist_ok=True)
    shutil.copy(program, hooks / "post-index-change")
    tracked = folder / "tracked"
    _run(f"git init -q -b main; mkdir d; echo {PLANTED} > d/.env; echo a > d/a; git add -f .;"
         f" git commit -qm one; echo {PLANTED} >> d/.env", tracked, outside)  # fmt: skip


def _copy(base: Path, folder: Path) -> Path:
    shutil.copytree(base, folder)
    return folder / ".git"


def _run(script: str, folder: Path, home: Path) -> None:
    folder.mkdir()
    (folder / "README.md").write_text("one\n")
    who = {f"GIT_{role}_{what}": "a" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), **who}
    subprocess.run(["bash", "-ec", script], cwd=folder, env=environment, check=True, capture_output=True)
