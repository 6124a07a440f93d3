"""An approval of a command covers the files that the command names, in whatever form it names them."""

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect

from sandbur.actions.ports.events import ToolFinished
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

FORMS = r"""
./x.sh                                              x.sh
sub/y.sh                                            sub/y.sh
"$PWD/x.sh"                                         x.sh
"${PWD}"/sub/y.sh                                   sub/y.sh
bash x.sh                                           x.sh
bash ./x.sh a b                                     x.sh
bash -e x.sh                                        x.sh
bash -eu -o pipefail x.sh                           x.sh
bash --norc x.sh                                    x.sh
bash --rcfile x.sh -i                               x.sh
bash --rcfile=x.sh -i                               x.sh
bash -c "sh x.sh"                                   x.sh
bash -c 'bash -c "sh x.sh"'                         x.sh
bash -lc 'cd sub && ./y.sh'                         sub/y.sh
bash -c 'sh "with blank.sh"'                        with blank.sh
bash "with blank.sh"                                with blank.sh
bash < x.sh                                         x.sh
sh -s < x.sh                                        x.sh
cat x.sh | sh                                       x.sh
cat x.sh | tee /dev/null | bash -s                  x.sh
cat < x.sh | sh                                     x.sh
(cat x.sh) | sh                                     x.sh
{ cat x.sh; } | sh                                  x.sh
sh <(cat x.sh)                                      x.sh
sh -c "$(cat x.sh)"                                 x.sh
eval "$(cat x.sh)"                                  x.sh
eval "`cat x.sh`"                                   x.sh
. ./x.sh                                            x.sh
source x.sh                                         x.sh
cd sub && bash y.sh                                 sub/y.sh
cd sub; cd .. && sh x.sh                            x.sh
pushd sub && sh y.sh                                sub/y.sh
(cd sub && sh y.sh)                                 sub/y.sh
timeout 60 bash x.sh                                x.sh
timeout -k 5 60 ./x.sh                              x.sh
nice -n 5 bash x.sh                                 x.sh
nohup sh x.sh                                       x.sh
env bash x.sh                                       x.sh
env -i A=1 bash x.sh                                x.sh
env -C sub sh y.sh                                  sub/y.sh
env -S 'sh x.sh'                                    x.sh
FAST=1 sh x.sh                                      x.sh
BASH_ENV=x.sh bash -c true                          x.sh
X=x.sh; bash $X                                     x.sh
X=x.sh && bash "$X"                                 x.sh
D=sub; bash $D/y.sh                                 sub/y.sh
bash "$UNKNOWN/x.sh"                                x.sh
bash x.s?                                           x.sh
bash *.sh                                           x.sh
for f in *.sh; do bash $f; done                     x.sh
if true; then sh x.sh; fi                           x.sh
while read l; do sh x.sh; done < list.txt           x.sh
echo x.sh | xargs bash                              x.sh
xargs -n1 bash < list.txt                           list.txt
xargs -a list.txt sh                                list.txt
find . -name nothing -exec sh x.sh {} +             x.sh
sh x.sh &                                           x.sh
false || sh x.sh                                    x.sh
sudo -n sh x.sh                                     x.sh
time -p sh x.sh                                     x.sh
command sh x.sh                                     x.sh
exec sh x.sh                                        x.sh
setsid -w sh x.sh                                   x.sh
stdbuf -oL sh x.sh                                  x.sh
flock lock sh x.sh                                  x.sh
strace -f -o /dev/null sh x.sh                      x.sh
watch -n 1 sh x.sh                                  x.sh
trap 'sh x.sh' EXIT                                 x.sh
parallel sh ::: x.sh                                x.sh
python3 run.py                                      run.py
python3 -W ignore run.py                            run.py
python3 -u -X dev run.py                            run.py
python3 < run.py                                    run.py
python3 - < run.py                                  run.py
python3 -m run                                      run.py
python3 -mrun                                       run.py
python3 -Im pkg                                     pkg/__main__.py
python3 -m pkg.mod                                  pkg/mod.py
python3 -m pkg.mod                                  pkg/__init__.py
python3 pkg                                         pkg/__main__.py
cd sub && python3 -m tool                           sub/tool.py
python3 -c "exec(open('run.py').read())"            run.py
python3 -m pytest                                   conftest.py
pytest                                              conftest.py
pytest tests/deep                                   tests/conftest.py
pytest                                              tests/deep/conftest.py
pytest tests/deep/test_a.py -q                      tests/deep/test_a.py
pytest -c other.ini                                 other.ini
perl x.pl                                           x.pl
perl -I sub x.pl                                    x.pl
ruby -W0 x.rb                                       x.rb
node --require ./x.js y.js                          x.js
node sub                                            sub/index.js
awk -f x.awk list.txt                               x.awk
awk -fx.awk list.txt                                x.awk
gawk --file=x.awk list.txt                          x.awk
sed -f x.sed list.txt                               x.sed
sed -n -f x.sed -i list.txt                         x.sed
git apply x.patch                                   x.patch
git -C sub apply ../x.patch                         x.patch
patch -p1 < x.patch                                 x.patch
git commit -F list.txt                              list.txt
docker compose up                                   compose.yaml
docker compose -f other.yml up                      other.yml
docker-compose up -d                                compose.yaml
docker build sub                                    sub/Dockerfile
make                                                Makefile
make -C sub all                                     sub/Makefile
make -f other.mk                                    other.mk
make -fother.mk                                     other.mk
timeout 60 make -s                                  Makefile
npm test                                            package.json
npm --prefix sub test                               sub/package.json
cd tests && npm test                                package.json
tox                                                 tox.ini
pip install -r list.txt                             list.txt
pip install ./sub                                   sub/setup.py
cargo build                                         build.rs
terraform apply                                     main.tf
curl -d @list.txt http://localhost:1                list.txt
curl -K other.ini http://localhost:1                other.ini
psql -f x.sql                                       x.sql
sqlite3 a.db < x.sql                                x.sql
vim -S x.vim                                        x.vim
ssh host < x.sh                                     x.sh
cp x.sh sub/z.sh                                    x.sh
tail list.txt | sh                                  list.txt
cat list.txt > sub/y.sh                             list.txt
echo a; sh x.sh                                     x.sh
tail -n 1 list.txt && sh x.sh                       x.sh
"""
ROWS = [(line[:52].rstrip(), line[52:]) for line in FORMS.strip().splitlines()]
FILES = sorted({name for _, name in ROWS} | {"list.txt", "y.js", "x.sh", "tests/deep/test_a.py"})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return make_files(tmp_path / "work")


def make_files(place: Path) -> Path:
    for name in FILES:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("true\n")
        path.chmod(0o755)
    return place


async def question_after(
    store: Store, place: Path, command: str, change: Callable[[], object], session_id: str = "s1"
) -> str | None:
    """Approve a command, change something before it starts; return why it asks again, None if it ran."""
    call = "run_shell_command", {"command": command}
    session = await open_real(store, ScriptedModel([call], "end"), place, session_id, mode="interactive")
    await collect(session.send("go"))
    waiting = session.state.pending_tool_calls
    assert [one.decision for one in waiting] == ["undecided"], f"{command} passes unasked"
    change()
    events, _ = await collect(session.decide([CallDecision(call_id=waiting[0].call_id, approved=True)]))
    if any(isinstance(one, ToolFinished) for one in events):
        return None
    [again] = session.state.pending_tool_calls
    return again.reason


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("touch made\n")


async def test_a_file_that_changes_after_the_approval_keeps_the_command_from_running(
    store: Store, place: Path
) -> None:
    failures: list[str] = []
    for number, (command, name) in enumerate(ROWS):
        make_files(place)
        why = await question_after(store, place, command, lambda: append(place / name), f"s{number}")  # noqa: B023
        if why is None or f"{name} has changed" not in why:
            failures.append(f"{command}: {why or 'it ran'}")
    assert not failures, "\n".join(failures)
    assert not (place / "made").exists()


APPEARS = r"""
./new.sh                                            new.sh
timeout 5 bash new                                  new
bash -c "sh sub/new.sh"                             sub/new.sh
cat new.sh | sh                                     new.sh
bash < new.sh                                       new.sh
python3 -m fresh                                    fresh.py
python3 -m json.tool list.txt                       json/tool.py
python3 -m pkg.fresh                                pkg/fresh/__main__.py
pytest sub                                          sub/conftest.py
make                                                GNUmakefile
awk -f new.awk list.txt                             new.awk
docker compose up                                   compose.override.yml
"""


async def test_a_file_that_appears_after_the_approval_keeps_the_command_from_running_too(
    store: Store, place: Path
) -> None:
    failures: list[str] = []
    for number, line in enumerate(APPEARS.strip().splitlines()):
        command, name = line[:52].rstrip(), line[52:]
        (place / name).parent.mkdir(exist_ok=True)
        why = await question_after(store, place, command, lambda: append(place / name), f"s{number}")  # noqa: B023
        if why is None or (f"{name} exists now" not in why and f"also use {name}" not in why):
            failures.append(f"{command}: {why or 'it ran'}")
        (place / name).unlink()
    assert not failures, "\n".join(failures)


HOOKS = r"""
git commit -m x                                     .git/hooks/pre-commit
git commit -am x                                    .git/hooks/commit-msg
git push origin HEAD                                .git/hooks/pre-push
git merge other                                     .git/hooks/post-merge
git checkout -b other                               .git/hooks/post-checkout
git switch other                                    .git/hooks/post-checkout
git rebase main                                     .git/hooks/pre-rebase
git cherry-pick x                                   .git/hooks/prepare-commit-msg
git am x.patch                                      .git/hooks/applypatch-msg
git worktree add tree                               .git/hooks/post-checkout
git -C sub commit -m x                              .git/hooks/pre-commit
git -c user.name=a commit -m x                      .git/hooks/pre-commit
git -c core.hooksPath=tools commit -m x             tools/pre-commit
cd sub && git commit -m x                           .git/hooks/pre-commit
git add . && git commit -m x                        .git/hooks/pre-commit
bash -c "git commit -m x"                           .git/hooks/pre-commit
timeout 60 git commit -m x                          .git/hooks/pre-commit
env A=1 git pull                                    .git/hooks/post-merge
git ci                                              .git/hooks/pre-commit
git commit -m y                                     configured/pre-commit
git commit -m z                                     .husky/pre-commit
git commit -m u                                     .pre-commit-config.yaml
"""


@pytest.fixture
def repository(place: Path) -> Path:
    subprocess.run(["git", "init", "-q", place], check=True)
    hooks = "[core]\n\thooksPath = configured\n"
    (place / ".git" / "config.worktree").write_text(hooks)
    return place


async def test_a_hook_that_changes_after_the_approval_keeps_git_from_running(
    store: Store, repository: Path
) -> None:
    failures: list[str] = []
    for number, line in enumerate(HOOKS.strip().splitlines()):
        command, name = line[:52].rstrip(), line[52:]
        for hook in (name, ".git/hooks/update", ".husky/_/pre-commit"):
            (repository / hook).parent.mkdir(parents=True, exist_ok=True)
            (repository / hook).write_text("#!/bin/sh\n")
            (repository / hook).chmod(0o755)
        if name.startswith(".husky"):
            (repository / ".git" / "config.worktree").write_text("[core]\n\thooksPath = .husky/_\n")
        change = partial(append, repository / name)
        why = await question_after(store, repository, command, change, f"s{number}")
        if why is None or f"{name} has changed" not in why:
            failures.append(f"{command}: {why or 'it ran'}")
    assert not failures, "\n".join(failures)
    assert not list(repository.rglob("made"))


async def test_a_hook_that_appears_after_the_approval_keeps_git_from_running(
    store: Store, repository: Path
) -> None:
    hook = repository / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch made\n")
    why = await question_after(store, repository, "git commit -m x", lambda: hook.chmod(0o755))
    assert why is not None
    assert "also use .git/hooks/pre-commit" in why
    hook.chmod(0o644)
    # Git does not run a hook that is no program, and runs no hook to list files.
    assert await question_after(store, repository, "git commit -m y", lambda: append(hook), "s2") is None
    assert not (repository / "made").exists()


RESTS_NOT_ON_IT = r"""
sh x.sh > build.log                                 build.log
sh x.sh >> build.log 2>&1                           build.log
tail -n 3 build.log && sh x.sh                      build.log
cat build.log | grep x | wc -l; sh x.sh             build.log
sh x.sh; ls -l build.log                            build.log
rm build.log                                        build.log
touch build.log                                     build.log
chmod a+r build.log; mkdir -p out                   build.log
sh x.sh                                             list.txt
git commit -m "make it so"                          build.log
true > a; make                                      x.sh
echo sub; sh x.sh                                   sub/y.sh
curl http://localhost:1/x.sh -o new.sh              x.pl
"""


async def test_what_only_shows_up_beside_a_command_does_not_make_it_ask_again(
    store: Store, place: Path
) -> None:
    failures: list[str] = []
    for number, line in enumerate(RESTS_NOT_ON_IT.strip().splitlines()):
        command, name = line[:52].rstrip(), line[52:]
        make_files(place)
        (place / "build.log").write_text("x\n")
        why = await question_after(store, place, command, lambda: append(place / name), f"s{number}")  # noqa: B023
        failures += [f"{command}: {why}"] if why is not None else []
    assert not failures, "\n".join(failures)


async def test_a_program_of_the_workspace_counts_under_its_name_alone(
    store: Store, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{place / 'sub'}:/usr/bin:/bin")
    why = await question_after(store, place, "y.sh now", lambda: append(place / "sub/y.sh"))
    assert why is not None
    assert "sub/y.sh has changed" in why


async def test_a_script_that_is_swapped_for_a_link_to_the_same_text_asks_again(
    store: Store, place: Path
) -> None:
    (place / "same.txt").write_text((place / "x.sh").read_text())

    def swap() -> None:
        (place / "x.sh").unlink()
        (place / "x.sh").symlink_to("same.txt")

    why = await question_after(store, place, "nice bash -e x.sh", swap)
    assert why is not None
    assert "x.sh now leads to" in why


async def test_a_file_too_large_to_be_read_is_known_by_its_size_and_times(store: Store, place: Path) -> None:
    large = place / "large.bin"
    large.write_bytes(b"x" * 9_000_000)
    status = large.stat()

    def change_one_byte() -> None:
        with large.open("r+b") as file:
            file.write(b"y")
        os.utime(large, ns=(status.st_atime_ns, status.st_mtime_ns))

    why = await question_after(store, place, "sh x.sh large.bin", change_one_byte)
    assert why is not None
    assert "large.bin has changed" in why
    assert await question_after(store, place, "sh x.sh large.bin", lambda: None, "s2") is None


async def test_more_files_than_can_be_held_are_said_in_the_question_and_their_coming_asks_again(
    store: Store, place: Path
) -> None:
    def make_many() -> None:
        for number in range(150):
            (place / f"many{number}.sh").write_text("true\n")

    why = await question_after(store, place, "sh x.sh many*.sh", make_many)
    assert why is not None
    assert "it would also use more files than an approval can cover" in why
    call = "run_shell_command", {"command": "sh x.sh many*.sh"}
    session = await open_real(store, ScriptedModel([call], "end"), place, "s2", mode="interactive")
    await collect(session.send("go"))
    [waiting] = session.state.pending_tool_calls
    said = session.waiting.describe(waiting, False).why
    assert "names more files than an approval can cover: files other than these 100 may change" in said
    events, _ = await collect(session.decide([CallDecision(call_id=waiting.call_id, approved=True)]))
    assert any(isinstance(one, ToolFinished) for one in events)
