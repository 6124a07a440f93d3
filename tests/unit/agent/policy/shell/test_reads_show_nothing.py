"""Every command that the gate takes for a reader is run for real, among planted secrets and traps."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice, product
from pathlib import Path

import pytest
from support.required import lacks
from support.samples.commands import DENIED, READS, UNSAFE
from support.samples.hostile import CONFIGS, PLANTED, make_hostile
from support.sampling import sample
from support.tools.gate import command

from sandbur.actions.tools.shell.language.programs.git_tables import GIT
from sandbur.actions.tools.shell.language.programs.tables import PROGRAMS
from sandbur.actions.tools.shell.sandbox.wall import Wall, why_no_wall

Run = Callable[[str], str]
"""Runs a command line in the hostile workspace, and returns all that it prints."""

WAYS = (
    ".env", "./.env", "src/link", "way_out/secret.txt", "'[a'*']'", "[aX]", "[[]aX]", "s*", "s?", "*",
    ".e*", "?", "~/notes.txt", "x=~/notes.txt", "x=a:~/notes.txt", "--x=~/notes.txt", "~/.ssh/id_rsa",
    '"$HOME"/notes.txt', "{README.md,.env}", "{s1,s2}", "s{1,2}", "\\{a,b\\}", "'{a,b}'",
    "../outside/secret.txt", "sub", ".", "src", "src/*", "src/../.env", "env_link", "list", "list0",
    "server.pem", "5", '"~"', "\\~", "-- .env", "way_out/*", "x=$PWD/../outside/secret.txt", "./*",
    "*/.env", "sub/.*", "[!r]*", "[a-z]*", "data.txt .env", "$'.env'", "\".e\"nv", ".en\\v", "src/deep/*",
)  # fmt: skip
"""How a word may lead to what is planted."""
TAILS = ("README.md", "", "s*", "way_out/secret.txt", ".env", "src", "list")
DANGERS = (
    "--files0-from={0}", "--files0-from {0}", "--fi={0}", "--files={0}", "-f {0}", "-f{0}", "--file={0}",
    "-c {0}", "--check {0}", "--ch {0}", "-T {0}", "--exclude-from={0}", "-X {0}", "--from-file={0}",
    "-S{0}", "-S {0}", "-O{0}", "--ignore-file={0}", "-r {0}", "-L", "-R", "-H", "--dereference",
    "-o {0}", "--random-source={0}", "-M{0}", "--slurpfile a {0}", "--rawfile a {0}", "@{0}",
)  # fmt: skip
"""Options that are in no table, and some that lead over links."""
FRAMES = (
    "cat < {}", "cat {}", "(cd src && cat ../{})", "cd src; cat ../{}",
    "for f in {}; do cat \"$f\"; done", "for f in {}; do cat $f; done", "true ||\ncd src; cat ../../{}",
    "true || (cd src; cat ../{})", "cd src &&\ncd ..; cat {}", "if test -f {}; then head {}; fi",
    "while read l; do cat {}; done < s1",
    "for f in {}; do for g in s1; do wc \"$f\" \"$g\" {}; done; done", "{{ cat {}; }}", "! cat {}",
    "for f in s1; do for f in {}; do :; done; cat \"$f\"; done", "(cd src | cat ../{})",
    "cd src | cat ../{}", "grep -r 7 {}", "grep -R 7 {}", "rg 7 {}", "rg -u 7 {}", "rg -L 7 {}",
    "rg --hidden 7 {}", "find -L {} -ls", "diff {} README.md", "diff -r src {}", "sort {}", "jq -R . {}",
    "jq -n --arg a {} '$a'", "sed -n p {}", "sed -e p -e p {}", "awk 1 {}", "awk '{{print}}' {}",
    "grep -e 7 {}", "grep 7 -e x {}", "grep {} README.md", "git diff --no-index /dev/null {}",
    "git diff --no-index s1 {}", "git -C base diff --no-index README.md ../{}",
    "git grep --no-index 7 {}", "cat -- {}", "head -n 3 {}", "head -3 {}", "tail -n+1 {}", "xxd {}",
    "od -c {}", "cat README.md {}", "cat {} README.md", "echo {}", "printf '%s\\n' {}", "ls -laL {}",
    "column -t {}", "cd sub && cat ../{}", "cd way_out && cat {}", "cd ~ && cat {}", "cat $(echo {})",
    "command cat {}", "test -f {} && cat {}", "[ -f {} ] && cat {}", "date -f {}",
    "cd src && git status; cat ../{}",
)  # fmt: skip
GIT_COMMANDS = (
    "status", "status -s", "status -v", "status --ignored", "log", "log -p", "log --all -p",
    "log --oneline -3", "log --format=%aN", "diff", "diff HEAD", "diff --stat", "diff --stat -p HEAD",
    "diff HEAD~1 -- .", "show", "show HEAD:README.md", "show --stat", "check-ignore -v README.md x",
    "blame README.md", "blame -S../list README.md", "reflog", "show-ref", "branch -a", "branch -vv",
    "ls-files -o --exclude-standard", "ls-files -s", "shortlog -sne HEAD", "rev-parse HEAD",
    "rev-parse x", "cat-file -p HEAD", "tag", "tag -n", "stash list", "stash list -p",
    "describe --always", "for-each-ref", "rev-list --all", "rev-list --objects --all", "grep 7",
    "grep --untracked 7", "whatchanged", "name-rev HEAD", "symbolic-ref HEAD", "remote -v",
    "worktree list", "config --get user.name", "config user.email", "config --get core.pager",
    "diff-tree -p HEAD", "merge-base HEAD x", "count-objects -v", "ls-tree -r HEAD", "diff HEAD -- d",
    "log -p -- d", "diff --word-diff", "log -S7 -p", "version", "st", "log -g", "log --all",
)  # fmt: skip

SHOWING = (
    "cat .env", "rev .env", "od -c .env", "xxd -p .env", "od -An -to1 .env", "hexdump .env", "fold -w1 .env",
    "cat '[a'*']'", "cat x=~/notes.txt", "wc --fi=.env", "column -t ~/.ssh/id_rsa", "cat s*",
    "git -C link-info-exclude check-ignore -v '7391846205={7391846205'", "rg 7 src",
    "cd config-ignore-revs && git blame README.md",
)  # fmt: skip
"""Commands that do show what is planted."""


def corpus(repositories: list[str]) -> Iterator[str]:
    """Yield commands of all kinds; how options and ways meet is the same each time."""
    ways, tails = cycle(WAYS), cycle(TAILS)
    yield from (*READS, *UNSAFE, *DENIED)
    for program, known in PROGRAMS.items():
        yield from (f"{program} {way}" for way in (WAYS if known.shows_content else islice(ways, 8)))
        yield from (f"{program} {danger.format(next(ways))} {next(tails)}" for danger in DANGERS)
        for option, kind in known.options.items():
            if option == "-#":
                yield f"{program} -3 {next(ways)}"
                continue
            yield f"{program} {option} {next(ways)} {next(tails)}"
            if kind == "flag":
                yield f"{program} {next(tails)} {option} {next(ways)}"
            else:
                yield f"{program} {option}{'=' if option.startswith('--') else ''}{next(ways)} {next(tails)}"
    yield from (frame.format(*[way] * frame.count("{}")) for frame, way in product(FRAMES, WAYS))
    yield from (f"cd {name} && git {words}" for name, words in product(repositories, GIT_COMMANDS))
    yield from (f"git -C {name} status" for name in repositories)
    for name, known in GIT.items():
        yield from (f"cd tracked && git {name} {option} {next(ways)}" for option in known.options)
        yield from (f"cd base && git {name} {option} ../{next(ways)}" for option in islice(known.options, 20))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_hostile(tmp_path_factory.mktemp("place"))


def run_plainly(workspace: Path) -> Run:
    """Return what runs a command with nothing between it and the disk."""
    # Only what a command needs to run: what a test has in its environment must not matter.
    environment = {"PATH": os.environ["PATH"], "HOME": str(workspace.parent / "home"), "LC_ALL": "C.UTF-8"}

    def run(text: str) -> str:
        try:
            done = subprocess.run(["bash", "-c", text], cwd=workspace, env=environment, timeout=10,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  check=False)  # fmt: skip
        except subprocess.TimeoutExpired as error:
            return (error.output or b"").decode(errors="replace")
        return done.stdout.decode(errors="replace")

    return run


def run_behind_the_wall(workspace: Path) -> Run:
    """Return what runs a command in the read-only view that commands have which pass unasked."""
    home = workspace.parent / "home"
    wall = Wall("bubblewrap", (workspace,), home)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"}

    def run(text: str) -> str:
        with wall.prepare(workspace) as launch:
            done = subprocess.run([*launch.words, "bash", "-c", text], cwd=workspace, timeout=60,
                                  env=environment | launch.environment, pass_fds=launch.descriptors,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  check=False)  # fmt: skip
        return done.stdout.decode(errors="replace")

    return run


@pytest.fixture(params=[run_plainly])
def run(request: pytest.FixtureRequest, workspace: Path) -> Run:
    return request.param(workspace)


def shows_planted(output: str) -> bool:
    """Tell whether the planted word is in the output: as it is, backwards, apart, or as numbers."""
    bare = re.sub(r"[\s|]|0x", "", re.sub(r"^[0-9a-f]{6,8}\b:?", "", output, flags=re.M))
    spellings = (PLANTED, PLANTED[::-1], PLANTED.encode().hex(), "".join(f"0{ord(one):o}" for one in PLANTED))
    swapped = "".join(
        PLANTED.encode()[at + 1 : at + 2].hex() + PLANTED.encode()[at : at + 1].hex() for at in (0, 2, 4)
    )
    return any(one in bare or one in output for one in (*spellings, swapped))


@pytest.mark.slow
def test_what_passes_unasked_shows_nothing_planted_and_runs_no_planted_program(
    workspace: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent / "home"))
    repositories = sorted(path.name for path in workspace.iterdir() if (path / ".git").exists())
    texts = list(dict.fromkeys(corpus(repositories)))
    assert len(texts) > 8_000
    tried = sample("command lines that are judged and run", texts)
    passing = [text for text in tried if command(workspace, text).decision == "allow"]
    assert len(passing) > len(tried) / 20
    with ThreadPoolExecutor(4) as threads:
        outputs = list(threads.map(run, passing))
    shown = [text for text, output in zip(passing, outputs, strict=True) if shows_planted(output)]
    assert shown == []
    assert not (workspace.parent / "ran").exists()


def test_what_is_planted_would_be_seen(workspace: Path, run: Run) -> None:
    for text in SHOWING:
        assert shows_planted(run(text)), text
    for text in ("cat README.md", "ls -la", "git -C base log -p"):
        assert not shows_planted(run(text)), text
    run("git -C config-fsmonitor status")
    mark = workspace.parent / "ran"
    assert PLANTED in mark.read_text()
    mark.unlink()


@pytest.mark.slow
def test_behind_the_wall_a_wrong_verdict_shows_nothing(workspace: Path) -> None:
    if trouble := why_no_wall("bubblewrap"):
        lacks(f"a wall of bubblewrap does not stand on this machine: {trouble}")
    run = run_behind_the_wall(workspace)
    ways = (".env", "way_out/secret.txt", "~/notes.txt", "s*", "../outside/secret.txt")
    texts = [*SHOWING, *(frame.format(*[way] * frame.count("{}")) for frame, way in product(FRAMES, ways))]
    texts = sample("command lines behind the wall", texts)
    with ThreadPoolExecutor(4) as threads:
        outputs = list(threads.map(run, texts))
    assert [text for text, output in zip(texts, outputs, strict=True) if shows_planted(output)] == []
    assert run("cat README.md") == (workspace / "README.md").read_text()


def test_the_traps_are_many(workspace: Path) -> None:
    assert len([path for path in workspace.iterdir() if (path / ".git").exists()]) > len(CONFIGS) + 30
