"""The search without ripgrep looks at bytes first, and finds what a look at every single line finds."""

import codecs
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandbur.actions.tools.files.search import worker
from sandbur.actions.tools.files.search.worker import find_required_literal

PIECES = (
    b"needle", b"need", b"le", b"n\xc3\xa4hte", b"\xff", b"\xc3", b"\r", b"\n", b"\n\n", b"\r\n", b"", b" ",
    b"a" * 50,
    "表示".encode(), b"x1", b"NEEDLE", b"\t", b"\x0c", b"\xe2\x80\xa8",
)  # fmt: skip
PATTERNS = (
    "needle", "nee(dl)e", "n(?i:eedle)", "(?i)needle", "need(le)?", "nähte|needle", "^needle$", r"\bneedle",
    r"x\d", "表", ".", r"\s", r"\w+le", "(?<!x)needle", "nee{2}dle", "e{1,3}", r"a\r?$", "", r"\S\s\S",
    "(?P<a>le).*(?P=a)",
    "[n]eedle", "n.edle", r"(?x) need le",
)  # fmt: skip


def expected(content: bytes, pattern: str) -> tuple[int, list[list[object]]]:
    """Return how many lines match and which, from one line after the other."""
    codecs.register_error("line-break", lambda error: ("\n", error.end))  # type: ignore[attr-defined]
    mark = next((m for m in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) if content.startswith(m)), b"")
    if mark:
        content = content.decode("utf-16", "replace").encode()
    elif b"\0" in content[:65_536]:
        return 0, []
    content = content.removeprefix(codecs.BOM_UTF8)
    found: list[list[object]] = []
    for number, line in enumerate(content.split(b"\n") if content else [], 1):
        if number > content.count(b"\n") and not line:
            break
        line = line.removesuffix(b"\r")
        if re.search(pattern, line.decode("utf-8", "line-break")):
            found.append([number, line[:8192].decode("latin-1"), len(line)])
    return len(found), found


def searched(folder: Path, names: list[str], pattern: str) -> dict[str, tuple[int, list[list[object]]]]:
    header = json.dumps({"pattern": pattern, "limit": 10**9, "block": 1000}).encode()
    done = subprocess.run(
        [sys.executable, "-I", "-S", worker.__file__],
        cwd=folder,
        input=header + b"\n" + "\0".join(names).encode(),
        capture_output=True,
        check=True,
    )
    rows = map(json.loads, done.stdout.splitlines())
    return {names[index]: (count, lines) for index, count, lines in rows}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_found_is_what_a_look_at_each_line_finds(tmp_path: Path, pattern: str) -> None:
    chance = random.Random(pattern)
    contents: dict[str, bytes] = {}
    for number in range(60):
        content = b"".join(chance.choices(PIECES, k=chance.randint(0, 12)))
        start = chance.choice((b"", b"", b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, b"\0"))
        if number % 10 == 0:  # more than the sample, with a word that lies across the end of it
            content = b"-" * (65_533 - len(start)) + b"needle\n" + content
        contents[f"{chance.choice(('a', 'a/b', 'c/d/e'))}/{number}"] = start + content
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    wanted = {name: expected(content, pattern) for name, content in contents.items()}
    assert searched(tmp_path, sorted(contents), pattern) == {n: one for n, one in wanted.items() if one[0]}


@pytest.mark.parametrize(("pattern", "literal"), [
    ("needle", "needle"),
    ("a|b", ""),
    ("(foo)(bar)", "foobar"),
    ("foo(bar)?baz!", "baz!"),
    ("(?i)foo", ""),
    ("fo(?i:o)bar", "bar"),
    (r"\d+ = näh", " = näh"),
    ("one\ntwo", "one"),
    ("x{3}yz", "yz"),
    ("(?=look)ahead", "ahead"),
    ("", ""),
])  # fmt: skip
def test_the_literal_is_in_every_match(pattern: str, literal: str) -> None:
    assert find_required_literal(re.compile(pattern)) == literal.encode()


def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    inside = tmp_path / "inside"
    for folder in (outside, inside / "a"):
        folder.mkdir(parents=True)
        (folder / "f").write_text("needle")
    (inside / "link").symlink_to(outside)
    assert set(searched(inside, ["a/f", "link/f", "a/f"], "needle")) == {"a/f"}
