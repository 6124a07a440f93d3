"""`glob` and `grep` on real trees, with ripgrep and without: the answers must be the same."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import pytest
from support.required import needs

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.files.glob import Glob
from sandbur.actions.tools.files.grep import Grep
from sandbur.actions.tools.files.search.piped import run_piped

needs_ripgrep = needs("rg")
both_ways = pytest.mark.parametrize(
    "use_ripgrep", [pytest.param(True, marks=needs_ripgrep, id="ripgrep"), pytest.param(False, id="python")]
)


async def search(tool: Glob | Grep, folder: Path, **arguments: str) -> ToolOutcome:
    context = ToolContext("c1", folder, lambda text: None)
    return await tool.run(tool.parse(json.dumps(arguments)), context)


async def found(tool: Glob | Grep, folder: Path, **arguments: str) -> list[str]:
    outcome = await search(tool, folder, **arguments)
    assert outcome.outcome == "ok", outcome.content
    return outcome.content.split("\n")


def tree(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@both_ways
async def test_glob_is_sorted_and_leaves_out_what_is_ignored_or_hidden(tmp_path: Path, use_ripgrep: bool):
    tree(
        tmp_path,
        {
            ".git/info/exclude": "local.txt\n",
            ".git/config": "",
            ".gitignore": "build/\n*.log\n!keep.log\n/top.txt\n",
            "b.txt": "",
            "a.txt": "",
            "top.txt": "",
            "local.txt": "",
            "sub/top.txt": "",
            "sub/local.txt": "",
            "sub/.gitignore": "secret*\n!*.log\n",
            "sub/secret.txt": "",
            "sub/again.log": "",
            "build/out.txt": "",
            "x.log": "",
            "keep.log": "",
            ".hidden/a.txt": "",
            ".env": "",
        },
    )
    tmp_path.joinpath("link.txt").symlink_to("a.txt")
    everything = await found(Glob(use_ripgrep), tmp_path, pattern="**")
    assert everything == ["a.txt", "b.txt", "keep.log", "sub/again.log", "sub/top.txt"]
    assert await found(Glob(use_ripgrep), tmp_path, pattern="*.txt", path="sub") == ["sub/top.txt"]
    assert await found(Glob(use_ripgrep), tmp_path, pattern=".hidden/*") == [".hidden/a.txt"]
    assert await found(Glob(use_ripgrep), tmp_path, pattern=".env") == [".env"]
    assert await found(Glob(use_ripgrep), tmp_path, pattern="*.none") == ["No file matches."]


@both_ways
async def test_a_nested_repository_has_rules_of_its_own(tmp_path: Path, use_ripgrep: bool):
    tree(
        tmp_path,
        {
            ".git/HEAD": "",
            ".gitignore": "*.txt\n",
            "a.txt": "",
            "inner/.git/HEAD": "",
            "inner/a.txt": "",
            "plain/a.txt": "",
        },
    )
    assert await found(Glob(use_ripgrep), tmp_path, pattern="*.txt") == ["inner/a.txt"]


@both_ways
async def test_a_pattern_may_start_elsewhere(tmp_path: Path, use_ripgrep: bool):
    tree(tmp_path, {"here/a.py": "", "there/b.py": "", "there/deep/c.py": ""})
    here = tmp_path / "here"
    assert await found(Glob(use_ripgrep), here, pattern=f"{tmp_path}/there/**/*.py") == [
        f"{tmp_path}/there/b.py",
        f"{tmp_path}/there/deep/c.py",
    ]
    climbing = await found(Glob(use_ripgrep), here, pattern="../there/*.py")
    assert [here.joinpath(name).resolve() for name in climbing] == [tmp_path / "there/b.py"]


async def test_glob_says_what_is_wrong(tmp_path: Path):
    tmp_path.joinpath("a.txt").touch()
    for arguments, told in [
        ({"pattern": "*", "path": "none"}, "does not exist"),
        ({"pattern": "*", "path": "a.txt"}, "is a file, not a folder"),
        ({"pattern": "[z-a]"}, "cannot be read as a file name pattern"),
        ({"pattern": "{a,b}" * 12}, "more than 200 alternatives"),
    ]:
        outcome = await search(Glob(), tmp_path, **arguments)
        assert (outcome.outcome, told in outcome.content) == ("error", True), outcome.content


@both_ways
async def test_many_files_are_capped_with_the_count(tmp_path: Path, use_ripgrep: bool):
    for number in range(1100):
        tmp_path.joinpath(f"{number:04d}.txt").touch()
    lines = await found(Glob(use_ripgrep), tmp_path, pattern="*.txt")
    assert lines[999:] == ["0999.txt", "[1,000 of 1,100 files shown; use a narrower pattern or path]"]


@both_ways
async def test_grep_returns_path_line_and_text_sorted_by_path(tmp_path: Path, use_ripgrep: bool):
    tree(
        tmp_path,
        {
            "b.py": "def b():\n    pass\ndef c(): ...\n",
            "a.py": "x\ndef a():\n",
            "a.txt": "def not python\n",
            ".hidden.py": "def hidden\n",
        },
    )
    assert await found(Grep(use_ripgrep), tmp_path, pattern="^def ", glob="*.py") == [
        "a.py:2:def a():",
        "b.py:1:def b():",
        "b.py:3:def c(): ...",
    ]
    assert await found(Grep(use_ripgrep), tmp_path, pattern="def", path="a.txt") == ["a.txt:1:def not python"]
    assert await found(Grep(use_ripgrep), tmp_path, pattern="nowhere") == ["No match in 3 files."]


@both_ways
async def test_matches_are_capped_and_all_counted(tmp_path: Path, use_ripgrep: bool):
    for name in "abc":
        tmp_path.joinpath(f"{name}.txt").write_text("".join(f"hit {n}\nmiss\n" for n in range(200)))
    lines = await found(Grep(use_ripgrep), tmp_path, pattern="hit")
    assert lines[199:201] == ["a.txt:399:hit 199", "b.txt:1:hit 0"]
    assert lines[250:] == [
        "[250 of 600 matching lines in 3 files shown; use a narrower pattern, path or glob]"
    ]


@both_ways
async def test_a_search_that_has_enough_lines_stops_after_a_block_of_files(tmp_path: Path, use_ripgrep: bool):
    for number in range(2500):
        name = f"{'a.b' if number % 2 else 'a'}/{number // 500}/{number:04d}.txt"
        tree(tmp_path, {name: "common\n" + ("some\n" if number % 5 == 0 else "")})
    lines = await found(Grep(use_ripgrep), tmp_path, pattern="common")
    assert lines[0] == "a.b/0/0001.txt:1:common"
    assert lines[250:] == [
        "[250 of 500 matching lines in the first 500 files shown; the other files were not searched:"
        " use a narrower pattern, path or glob]"
    ]
    lines = await found(Grep(use_ripgrep), tmp_path, pattern="some", glob="*.txt")
    assert lines[249] == "a.b/4/2495.txt:2:some"
    assert lines[250:] == [
        "[250 of 300 matching lines in the first 1,500 files shown; the other files were not searched:"
        " use a narrower pattern, path or glob]"
    ]


@both_ways
async def test_the_rest_of_a_large_tree_is_searched_if_its_first_files_have_few_lines(
    tmp_path: Path, use_ripgrep: bool
):
    tree(tmp_path, {f"{number:04d}.txt": f"number {number}\n" for number in range(1205)})
    assert await found(Grep(use_ripgrep), tmp_path, pattern="number (7|999|1000|1204)$") == [
        "0007.txt:1:number 7",
        "0999.txt:1:number 999",
        "1000.txt:1:number 1000",
        "1204.txt:1:number 1204",
    ]
    assert await found(Grep(use_ripgrep), tmp_path, pattern="nowhere") == ["No match in 1,205 files."]


@both_ways
async def test_long_lines_are_cut_and_binary_files_left_out(tmp_path: Path, use_ripgrep: bool):
    tmp_path.joinpath("long.js").write_bytes(b"hit" + b"x" * 100_000 + b"\n")
    tmp_path.joinpath("data.bin").write_bytes(b"hit\0hit\n")
    lines = await found(Grep(use_ripgrep), tmp_path, pattern="hit")
    assert lines == ["long.js:1:hit" + "x" * 497 + "... [line cut; it has 100,003 bytes]"]


def plant_texts(folder: Path) -> None:
    contents = {
        "utf8.txt": "foo(bar)\nfoo bar\n  indent\nÜber straße\nend$\na-b--c\n".encode()
        + b"[x] {y}\n\n\ttab\nFOO\naa11\n",
        "crlf.txt": b"foo\r\nbar baz\r\n\r\nfoo bar\r\nlast foo",
        "mark.txt": "\ufefffirst\nfoo\n".encode(),
        "utf16.txt": "foo first\r\nwörld\n".encode("utf-16"),
        "utf16be.txt": b"\xfe\xff" + "foo first\nwörld\n".encode("utf-16-be"),
        "latin1.txt": "café foo\nnaïve\n".encode("latin-1"),
        "new\nline.txt": b"foo\n",
        "-dash.txt": b"foo\n",
        "a:b.txt": b"foo\n",
        "many.txt": b"".join(b"foo %d\n" % n for n in range(400)),
    }
    for name, content in contents.items():
        folder.joinpath(name).write_bytes(content)
    folder.joinpath(os.fsdecode(b"bad\xff.txt")).write_bytes(b"foo\n")
    os.mkfifo(folder / "pipe")


@needs_ripgrep
async def test_both_engines_give_the_same_answers(tmp_path: Path):
    plant_texts(tmp_path)
    expressions = [
        "foo", "^foo", "foo$", "^$", r"foo\s*$", r"\bbar\b", r"foo\(bar\)", "foo(?= bar)", r"(\w)\1",
        "(?i)foo", r"[[:alpha:]]+\d", "über", "(?i)ÜBER", "a-b--c", r"\[x\] \{y\}", r"\w+ß\w", "w.rld",
        "caf.", r"end\$", "^first", "\t", "a{", "x*", "(?<n>foo)", r"foo\z", r"\<foo", "[^f]oo|aa", "foo.$",
        r"\"", r"\/", "-", "--c", r"\d{2}", "o++", "[a&&b]", r"\x66oo", r"line$", r"\s$", r"\r",
    ]  # fmt: skip
    for expression in expressions:
        with_ripgrep = await search(Grep(True), tmp_path, pattern=expression)
        assert with_ripgrep == await search(Grep(False), tmp_path, pattern=expression), expression
        assert with_ripgrep.outcome == "ok", expression


async def test_expressions_are_read_as_models_write_them(tmp_path: Path):
    plant_texts(tmp_path)
    assert await found(Grep(), tmp_path, pattern=r"(?<word>foo)(?= bar)", path="crlf.txt") == [
        "crlf.txt:4:foo bar"
    ]
    assert await found(Grep(), tmp_path, pattern=r"^[[:upper:]]+\z", path="utf8.txt") == ["utf8.txt:10:FOO"]
    assert await found(Grep(), tmp_path, pattern="^foo$", path="new\nline.txt") == ["new\\nline.txt:1:foo"]


async def test_grep_says_what_is_wrong(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for arguments, told in [
        ({"pattern": "a("}, "not a valid regular expression: missing )"),
        ({"pattern": "(" * 4000}, "not a valid regular expression"),
        ({"pattern": "a", "path": "none"}, "does not exist"),
        ({"pattern": "a", "path": "pipe"}, "is a named pipe"),
        ({"pattern": "a", "glob": "[z-a]"}, "cannot be read as a file name pattern"),
    ]:
        outcome = await search(Grep(), tmp_path, **arguments)
        assert (outcome.outcome, told in outcome.content) == ("error", True), outcome.content


async def test_an_expression_that_explodes_is_stopped_and_what_was_found_is_kept(tmp_path: Path):
    tree(tmp_path, {"a.txt": "baab\n", "b.txt": "b" + "a" * 60 + "\n", "c.txt": "baab\n"})
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.02)
            beats += 1

    heart = asyncio.create_task(beat())
    began = time.monotonic()
    lines = await found(Grep(False, limit_s=1), tmp_path, pattern="b(a+)+b(?<!x)")
    heart.cancel()
    assert time.monotonic() - began < 10
    assert lines == ["a.txt:1:baab", "[stopped before everything was searched; the result is a part of it]"]
    assert beats > 5


async def test_a_cancelled_search_leaves_no_process(tmp_path: Path):
    tree(tmp_path, {"b.txt": "b" + "a" * 60 + "\n"})
    task = asyncio.create_task(search(Grep(False), tmp_path, pattern="b(a+)+b"))
    await asyncio.sleep(0.3)
    workers = _search_workers()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert workers
    assert not _search_workers()


def _search_workers() -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = f"PPid:\t{os.getpid()}\n" in entry.joinpath("status").read_text()
            if is_ours and "search/worker.py" in entry.joinpath("cmdline").read_text():
                found.append(entry.name)
        except OSError:
            continue
    return found


async def test_a_program_that_searches_sees_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "DATABASE_URL", "RIPGREP_CONFIG_PATH"):
        monkeypatch.setenv(name, "hunter2")
    ran = await run_piped([sys.executable, "-c", "import os; print(dict(os.environ))"], tmp_path, 60, 1 << 20)
    assert ran.status == 0
    assert b"PATH" in ran.output
    assert b"hunter2" not in ran.output
