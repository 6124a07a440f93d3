"""What people are told to type works where they stand: the extras, and the README from top to bottom."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

from sandbur.ui.cli.arguments import parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def told(folder: Path, origin: object) -> str:
    """Return what is said of the extra `ui` where pip recorded this origin."""
    about = folder / "sandbur-9.9.9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: sandbur\nVersion: 9.9.9\n")
    if origin is not None:
        (about / "direct_url.json").write_text(json.dumps(origin))
    code = "from sandbur.state.process.installation import make_install_command as made; print(made('ui'))"
    path = {"PYTHONPATH": f"{folder}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        ({"url": "file:///home/me/a%20b", "dir_info": {"editable": True}}, "-e '/home/me/a b[ui]'"),
        ({"url": "file:///home/me/src", "dir_info": {}}, "'/home/me/src[ui]'"),
        ({"url": "file:///w/sandbur-1.whl", "archive_info": {}}, "'/w/sandbur-1.whl[ui]'"),
        ({"url": "https://h/r.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
         f"'sandbur[ui] @ git+https://h/r.git@{COMMIT}'"),
        ({"url": "https://h/sandbur-1.whl", "archive_info": {}}, "'sandbur[ui] @ https://h/sandbur-1.whl'"),
        (None, "'sandbur[ui]'"),
    ],
)  # fmt: skip
def test_an_extra_is_installed_from_where_sandbur_came_from(
    tmp_path: Path, origin: object, source: str
) -> None:
    assert told(tmp_path, origin) == f"{shlex.quote(sys.executable)} -m pip install {source}"


def test_sources_that_are_not_installed_name_their_folder() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r});"
        "from sandbur.state.process.installation import make_install_command;"
        "print(make_install_command('otel'))"
    )
    # -S: no installed package is found.
    done = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(f" -e '{ROOT}[otel]'")


PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


def shell_lines(page: Path) -> list[str]:
    """Return the lines of a page's shell blocks, in order."""
    blocks = re.findall(r"^```(?:sh|bash)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    # A line that ends in a backslash or a pipe goes on in the next one.
    joined = [re.sub(r"(?:\\|(?<=\|))\n\s*", " ", block) for block in blocks]
    return [line for block in joined for line in block.splitlines() if line.strip()]


def calls_of_sandbur(line: str) -> list[list[str]]:
    """Return the words of each call of the command in a line of the shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.wordchars += "*:@{}[]^%,$"
    calls: list[list[str]] = []
    at_start, is_ours = True, False
    for word in lexer:
        if word == "sandbur" and at_start:
            calls.append([])
            is_ours = True
        elif set(word) <= set("|&;()<>") or word == "eval":
            at_start, is_ours = True, False
            continue
        elif is_ours:
            calls[-1].append(word)
        at_start = False
    return calls


def test_the_readme_calls_sandbur_once_it_is_on_the_path() -> None:
    lines = shell_lines(ROOT / "README.md")
    first = next(number for number, line in enumerate(lines) if calls_of_sandbur(line))
    before = [line.split("#")[0].strip() for line in lines[:first]]
    # It says how to add its folder to the PATH; tests/bare_machine runs it.
    assert "sh install.sh --demo" in before
    assert not [line for line in lines if "/bin/sandbur" in line or "/bin/pip" in line]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_calls_sandbur_as_it_is(page: Path) -> None:
    for line in shell_lines(page):
        for call in calls_of_sandbur(line):
            parse(call)


def test_the_readme_shows_the_commands_that_people_begin_with() -> None:
    calls = [call for line in shell_lines(ROOT / "README.md") for call in calls_of_sandbur(line)]
    assert len(calls) >= 10


def test_nobody_is_told_to_install_what_no_index_has() -> None:
    layers = [path for layer in ("state", "actions", "agent", "ui", "examples")
              for path in (ROOT / layer).rglob("*.py")]  # fmt: skip
    install = re.compile(r"(?:pip|pipx|tool) install (?:-\S+ )*[\"']?sandbur\b")
    named = [path.name for path in (*PAGES, *layers) if install.search(path.read_text("utf-8"))]
    assert named == []
