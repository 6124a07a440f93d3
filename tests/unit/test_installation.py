"""What people are told to type works where they stand: the extras, and the README from top to bottom."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

from sandbur.ui.arguments import parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def told(folder: Path, origin: object) -> str:
    """Return what is said of the extra `ui` where pip recorded this origin."""
    about = folder / "sandbur-9.9.9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: sandbur\nVersion: 9.9.9\n")
    if origin is not None:
        (about / "direct_url.json").write_text(json.dumps(origin))
    code = "from sandbur.state.installation import install_command; print(install_command('ui'))"
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
        "from sandbur.state.installation import install_command;"
        "print(install_command('otel'))"
    )
    # -S: no installed package is found.
    done = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(f" -e '{ROOT}[otel]'")


def shell_lines() -> list[str]:
    """Return the lines of README's shell blocks, in order."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_the_readme_calls_sandbur_once_it_is_on_the_path() -> None:
    lines = shell_lines()
    first = next(number for number, line in enumerate(lines) if re.search(r"(^|\s)sandbur\s", line))
    assert re.search(r"\. \.venv/bin/activate\b.*(^|\s)sandbur\s", "\n".join(lines[: first + 1]), re.DOTALL)
    assert not [line for line in lines if "/bin/sandbur" in line or "/bin/pip" in line]


def test_the_readme_calls_sandbur_as_it_is() -> None:
    words = [shlex.split(line, comments=True) for line in shell_lines()]
    calls = [line[line.index("sandbur") + 1 :] for line in words if "sandbur" in line]
    assert len(calls) > 15
    for call in calls:
        parse(call)


def test_nobody_is_told_to_install_what_no_index_has() -> None:
    texts = [ROOT / "README.md", *(path for layer in ("state", "actions", "agent", "ui")
                                   for path in (ROOT / layer).rglob("*.py"))]  # fmt: skip
    named = [path.name for path in texts if re.search(r"pip install [\"']?sandbur", path.read_text("utf-8"))]
    assert named == []
