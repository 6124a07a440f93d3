"""`sandbur update` prints the command that updates this installation, for every way to install it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.places import ROOT
from support.required import lacks

from sandbur.agent.runtime.version import VERSION
from sandbur.ui.commands.setup.update import InstallPlace, UpdateAdvice, find_update, look_up

PREFIX = Path("/home/me/venv")


def place(origin: Mapping[str, Any], **others: Any) -> InstallPlace:
    known = {"prefix": PREFIX, "base_prefix": Path("/usr"), "installer": "pip", **others}
    sources = Path(known.pop("sources", known["prefix"] / "lib/python3.13/site-packages/sandbur"))
    return InstallPlace(python=f"{known['prefix']}/bin/python", sources=sources, origin=origin, **known)


PIP = "/home/me/venv/bin/python -m pip install"
GIT = {"vcs": "git", "commit_id": "0" * 40, "requested_revision": "main"}


@pytest.mark.parametrize(
    ("where", "command"),
    [
        (place({}), f"{PIP} --upgrade sandbur"),
        (
            place({}, has_pip=False),
            "uv pip install --python /home/me/venv/bin/python --upgrade sandbur",
        ),
        (place({"url": "file:///home/me/a%20b", "dir_info": {}}), f"{PIP} --upgrade '/home/me/a b'"),
        (place({"url": "file:///w/sandbur-1.whl", "archive_info": {}}), f"{PIP} --upgrade WHEEL"),
        (
            place({"url": "https://h.example/r.git", "vcs_info": GIT}),
            f"{PIP} --upgrade 'sandbur @ git+https://h.example/r.git@main'",
        ),
        (place({"url": "file:///home/me/x", "dir_info": {"editable": True}}), f"{PIP} -e /home/me/x"),
        (place({}, sources="/nix/store/abc-sandbur/lib/sandbur"), "nix profile upgrade sandbur"),
        (place({}, sources="/opt/Cellar/sandbur/1/libexec/sandbur"), "brew upgrade sandbur"),
        (place({}, installer="conda"), "conda update --prefix /home/me/venv sandbur"),
        (
            place({}, is_container=True, is_writable=False),
            "podman build --pull -t IMAGE -f docs/deploy/Containerfile .",
        ),
    ],
)
def test_each_way_to_install_has_its_command(where: InstallPlace, command: str) -> None:
    assert find_update(where).command == command


def test_a_file_that_dpkg_owns_is_updated_by_apt(tmp_path: Path) -> None:
    """Asked of the real dpkg, where there is one: it owns the module `json` of the system's Python."""
    owned = next((path for path in Path("/usr/lib").glob("python3.*/json") if path.is_dir()), None)
    if owned is None or not shutil.which("dpkg-query"):
        lacks("no Python of Debian is here")
    where = place({}, prefix=Path("/usr"), installer="debian", sources=owned)
    assert find_update(where).command.startswith("sudo apt-get install --only-upgrade libpython3")


def test_a_package_of_pip_in_the_systems_python_is_updated_by_pip() -> None:
    where = place({}, prefix=Path("/usr"))
    assert find_update(where).command == "/usr/bin/python -m pip install --upgrade sandbur"


RECEIPT = '[tool]\nrequirements = [{{ name = "other" }}, {{ name = "sandbur"{} }}]\n'


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("uv-receipt.toml", RECEIPT.format(""), "uv tool upgrade sandbur"),
        (
            "uv-receipt.toml",
            RECEIPT.format(', git = "https://h.example/r.git"'),
            "uv tool upgrade sandbur",
        ),
        (
            "uv-receipt.toml",
            RECEIPT.format(', extras = ["ui", "mcp"], directory = "/home/me/src"'),
            "uv tool install --reinstall '/home/me/src[ui,mcp]'",
        ),
        ("pipx_metadata.json", ("sandbur[ui]", ""), "pipx upgrade sandbur"),
        ("pipx_metadata.json", ("/home/me/src[ui]", ""), "pipx install --force '/home/me/src[ui]'"),
        (
            "pipx_metadata.json",
            ("/home/me/src", "-next"),
            "pipx install --force --suffix=-next /home/me/src",
        ),
        ("pipx_metadata.json", "[]", f"{sys.prefix} is damaged"),
        ("uv-receipt.toml", "tool = 1", f"{sys.prefix} is damaged"),
    ],
)
def test_tools_are_recognized_by_the_files_that_their_installers_write(
    tmp_path: Path, name: str, text: Any, command: str
) -> None:
    prefix = tmp_path / "sandbur"
    prefix.mkdir()
    if isinstance(text, tuple):
        text = json.dumps({"main_package": {"package_or_url": text[0], "suffix": text[1]}})
    (prefix / name).write_text(text)
    if "damaged" in command:
        command = f"{prefix}/bin/python -m pip install --upgrade sandbur"
    assert find_update(place({}, prefix=prefix)).command == command


def test_sources_in_a_checkout_are_pulled_first_and_others_are_to_be_replaced(tmp_path: Path) -> None:
    origin = {"url": tmp_path.as_uri(), "dir_info": {}}
    plain = find_update(place(origin))
    assert plain.note.startswith(f"Before that, replace the sources in {tmp_path}")
    (tmp_path / ".git").mkdir()
    pulled = find_update(place(origin))
    assert (pulled.command, pulled.note) == (f"git -C {tmp_path} pull && {plain.command}", "")


def test_what_is_installed_in_a_container_is_lost_with_it() -> None:
    assert "update its image, too" in find_update(place({}, is_container=True)).note


def run(program: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "SANDBUR_HOME": str(home / "data")}
    return subprocess.run(
        [str(program), "update", *words], env=env, capture_output=True, text=True, check=True, cwd=home
    )


def test_an_installed_wheel_says_so_and_prints_the_command_alone_on_stdout(
    installed: Path, tmp_path: Path
) -> None:
    shown = run(installed / "bin" / "sandbur", tmp_path)
    assert shown.stdout == f"{installed}/bin/python -m pip install --upgrade WHEEL\n"
    assert f"Sandbur {VERSION} was installed by pip from file://" in shown.stderr
    assert "the newer wheel" in shown.stderr


def test_what_pipx_installed_says_so(installed: Path, tmp_path: Path) -> None:
    written = installed / "pipx_metadata.json"
    written.write_text(json.dumps({"main_package": {"package_or_url": "sandbur", "suffix": ""}}))
    try:
        made = json.loads(run(installed / "bin" / "sandbur", tmp_path, "--json").stdout)
    finally:
        written.unlink()
    assert (made["kind"], made["command"]) == ("pipx", f"pipx upgrade {installed.name}")
    assert (made["version"], made["newer"]) == (VERSION, None)


def test_a_checkout_is_pulled(command: Command) -> None:
    shown = command.run("update")
    assert shown.code == 0
    assert shown.out.endswith(f" -e {ROOT}\n")
    assert f"as the editable checkout {ROOT}" in shown.err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ((), "Its installer has no command that lists newer versions."),
        (("/no/such/program",), "Newer versions are unknown, because `/no/such/program` cannot be run"),
        (("sh", "-c", "echo no network; exit 3"), "failed:\nno network"),
        (("sh", "-c", "echo 9.9.9"), "prints:\n9.9.9"),
        (("true",), "nothing is newer"),
    ],
)
def test_newer_versions_are_what_the_installer_prints(line: tuple[str, ...], says: str) -> None:
    assert says in look_up(UpdateAdvice("pip", "", "", look_up=line))
