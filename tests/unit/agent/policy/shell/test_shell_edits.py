"""Commands that only make, copy or move files of the workspace pass in auto-edit mode, and no others."""

from pathlib import Path

import pytest
from support.row_by_row import for_each
from support.samples.commands import lines
from support.tools.gate import command

PASS = lines(r"""
mkdir x   mkdir -p a/b/c   mkdir -p a/{b,c}   touch x   touch src/new.py   mkdir -p a/b && touch a/b/c.py
touch src/a.py   cp src/a.py src/b.py   cp src/a.py lib   cp src/a.py lib/   cp src/*.py lib   cp -r src new
mv src/a.py src/c.py   mv src/a.py lib   mv src lib   mv src new   mkdir "a b"; touch "a b/c"
mkdir -p inside/x   touch ./x   cp -n src/a.py x   mkdir -p src/../y   mv 'src/a.py' lib/z.py   touch x y z
""")
ASK = lines(r"""
mkdir /tmp/x   mkdir ../x   mkdir ~/x   touch way_out/x   cp src/a.py way_out   cp src/a.py way_out/x
cp src/a.py src/link   mv src/a.py src/link   cp way_out/key x   cp /etc/passwd x   cp src/link x
mv src/link x   cp .env x   mv .env x   cp src/a.py .env   cp server.pem x   touch .env   mkdir .git/x
touch .git/hooks/pre-commit   cp src/a.py .vscode   mkdir .vscode   mv src .husky   cp -r tpl .github
mv .git x   mv . x   mv .. x   cp -r . x   cp src/a.py full.txt   mv src/a.py full.txt   cp -f src/a.py x
cp -a src x   cp -l src/a.py x   cp -s src/a.py x   cp --backup src/a.py x   cp -t lib src/a.py
mv -f src/a.py x   cp src/a.py   touch -r /etc/passwd x   touch -d now -- -x   mkdir -m 777 x   mkdir -Z x
cp -r links x   mv links x   cp -rL src x   cp secretive/* lib   cp -r secretive x   cp src/a.py x && cp x y
mkdir x && cp src/a.py x   mkdir x; rm x   touch x & touch y   touch $X   touch $(id)   touch x > y
touch x | cat   X=1 touch x   sudo touch x   ./touch x   touch sub/HEAD   mkdir -p s/objects
mkdir -p s/refs/heads   touch HEAD   cp src/a.py objects   cd src && touch x   (touch x)
for i in a; do touch $i; done   touch x=~/y   touch ~root/x   cp src/* /tmp   cp src/a.py missing/x
mv src src/deep   cp pipe x   touch -- way_out/x   mkdir -p way_out/../x   cp src/a.py lib -r
install src/a.py x   ln -s src x   touch own/x   mv src/a.py own/x   cp src/a.py 'x?' lib/*
touch AGENTS/../.env   touch .npmrc   cp src/a.py .bashrc   if touch x; then touch y; fi
""")
FILES = (
    "src/a.py", "src/deep/b.py", "full.txt", ".env", "server.pem", "tpl/workflows/ci.yml", "secretive/.env",
    "secretive/id_rsa", "secretive/a", "../outside/key",
)  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    for name in ("src/deep", "lib", ".git/hooks", "tpl/workflows", "links", "secretive", "own", "inside"):
        (folder / name).mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    for name in FILES:
        (folder / name).write_text("x")
    (folder / "way_out").symlink_to(tmp_path / "outside")
    (folder / "links" / "x").symlink_to("../src/a.py")
    (folder / "src2").mkdir()
    return folder


@for_each("text", PASS)
def test_an_edit_by_a_command_passes_in_auto_edit(workspace: Path, text: str) -> None:
    own = [workspace / "own"]
    assert command(workspace, text, "auto-edit", own=own).decision == "allow", text
    assert command(workspace, text, "interactive", own=own).decision == "ask", text
    assert command(workspace, text, "plan", own=own).decision == "deny", text


@for_each("text", ASK)
def test_what_is_more_than_an_edit_asks_in_auto_edit(workspace: Path, text: str) -> None:
    link = workspace / "src" / "link"
    if not link.is_symlink():
        link.symlink_to("/etc/passwd")
    assert command(workspace, text, "auto-edit", own=[workspace / "own"]).decision == "ask", text


def test_a_move_into_a_protected_place_is_seen_below_what_is_moved(workspace: Path) -> None:
    assert command(workspace, "mv tpl x", "auto-edit").decision == "allow"
    assert command(workspace, "mv tpl .github", "auto-edit").decision == "ask"
    assert command(workspace, "mv tpl/workflows x", "auto-edit").decision == "allow"


def test_deny_and_ask_rules_come_first(workspace: Path) -> None:
    rules = ["run_shell_command(mkdir *)"]
    assert command(workspace, "mkdir x", "auto-edit", deny=rules).decision == "deny"
    assert command(workspace, "mkdir x", "auto-edit", ask=rules).decision == "ask"
